// A request's TTFT is the rest of the iteration that it meets and its own, in a batch whose size
// changes slowly: levels of the slow part, in each a number of prompts in the iteration that it
// meets, then of those that come with it. All are sums over few values, each with a uniform rest.
#include "queueing/percentiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "queueing/alike.h"
#include "queueing/mixture.h"
#include "queueing/normal_terms.h"
#include "queueing/prompt_sizes.h"

namespace tailrace::queueing {
namespace {

/// Means of an exponential between its quantiles.
constexpr std::array<Node, 8> kExponential = {{{0.1075, 0.2},
                                               {0.3600, 0.2},
                                               {0.7000, 0.2},
                                               {1.2230, 0.2},
                                               {1.9160, 0.1},
                                               {2.6100, 0.05},
                                               {3.3870, 0.03},
                                               {4.9100, 0.02}}};

/// A gamma by Wilson and Hilferty's cube.
double gamma_at(double mean, double variance, double z) {
  if (!(mean > 0) || variance <= 1e-12 * mean * mean) return mean;
  const double per_shape = variance / (9 * mean * mean);
  const double root = std::max(0.0, 1 - per_shape + z * std::sqrt(per_shape));
  return mean * root * root * root;
}

/// A count with variance mean · (1 + spread): one by one where it is small, else in cells of a
/// gamma.
class Counts {
 public:
  Counts(double mean, double spread) {
    const double sd = std::sqrt(mean * (1 + spread));
    if (mean + 4 * sd > static_cast<double>(kMost - 2)) {
      for (const Node& node : kNormal) {
        nodes_[size_++] = {gamma_at(mean, sd * sd, node.value), node.weight};
      }
      return;
    }
    double p = std::exp(spread > 1e-9 ? -mean * std::log1p(spread) / spread : -mean);
    double rest = 1;
    for (std::size_t k = 0; k < kMost && rest > kLeast; ++k) {
      const auto count = static_cast<double>(k);
      nodes_[size_++] = {count, k + 1 < kMost ? p : rest};
      rest -= p;
      p *= (mean + count * spread) / ((1 + spread) * (count + 1));
    }
  }
  std::span<const Node> nodes() const& { return std::span(nodes_).first(size_); }
  std::span<const Node> nodes() && = delete;  // a loop over them would outlive them

 private:
  static constexpr std::size_t kMost = 14;
  static constexpr double kLeast = 3e-4;

  std::array<Node, kMost> nodes_;
  std::size_t size_ = 0;
};

/// The slow part of an iteration, and what prompts add to it.
class Shape {
 public:
  explicit Shape(const LatencyLaw& law) : law_(law) {
    const double load = std::min(0.999, law.rate_per_ms * law.prefill);
    const double square = law.prefill * law.prefill + law.prefill_var;
    spread_ = law.rate_per_ms * law.rate_per_ms * square / (1 - load * load);
    least_ = std::min(law.iteration, law.alpha / (1 - load));
  }

  /// Mean iterations, and how often the slow part has them: add(level, width, weight).
  template <typename Add>
  void levels(const Add& add) const {
    above(least_, std::max(0.0, law_.iteration - least_), law_.slow_var, add);
  }
  /// The same as those who decode find it: in proportion to what it has beyond the least. Of a
  /// gamma that is another gamma; one decode is one's own.
  template <typename Add>
  void found_levels(const Add& add) const {
    const double mean = std::max(1e-12 * law_.iteration, law_.iteration - least_);
    const double scale = law_.slow_var / mean;
    const double own = std::min(law_.decode, mean + scale);
    above(least_ + own, mean + scale - own,
          std::max(0.0, law_.slow_var + scale * scale - own * own), add);
  }
  double within(double level) const {
    return std::min(std::max(law_.full_iteration, law_.iteration), level);
  }
  /// Of prompts' number in an iteration: variance over mean, less 1.
  double spread() const { return spread_; }
  Counts prompts(double level) const { return {law_.rate_per_ms * level, spread_}; }
  /// Without prompts, at a level where `prompts` come.
  double base(double level, const Counts& prompts) const {
    double mean = 0;
    for (const Node& k : prompts.nodes()) mean += k.weight * within_limits(k.value);
    return std::max(law_.alpha, level - mean);
  }
  /// What prompts add to the iterations that compute them. The first tokens of each are free below
  /// the knee.
  double added(double prompts, double iterations = 1) const {
    double free = law_.below_knee;
    if (law_.left > 0) free = std::min(free, law_.left);
    return law_.linear_prefill * prompts -
           law_.beta * std::min(free * iterations, law_.prompt_tokens * prompts);
  }
  /// The same within the budget and the slots.
  double within_limits(double prompts) const {
    prompts = std::min(prompts, law_.most_others + 1);
    if (law_.left > 0) prompts = std::min(prompts, law_.left / law_.prompt_tokens);
    return added(prompts);
  }

 private:
  /// A gamma above `floor`; one that is there now and then only is nothing or exponential.
  template <typename Add>
  void above(double floor, double mean, double variance, const Add& add) const {
    const double square = mean * mean + variance;
    const double there = square > 0 ? std::min(1.0, 2 * mean * mean / square) : 0;
    if (there < 1) add(within(floor), 0.0, 1 - there);
    if (there <= 0) return;
    const double part = mean / there;
    const double var = there < 1 ? part * part : variance;
    const auto at = [&](double z) { return within(floor + gamma_at(part, var, z)); };
    for (const Node& z : kNormal) {
      add(at(z.value), at(z.value + kCell / 2) - at(z.value - kCell / 2), there * z.weight);
    }
  }

  const LatencyLaw& law_;
  double spread_ = 0, least_ = 0;
};

class FirstToken {
 public:
  FirstToken(const LatencyLaw& law, const Shape& shape, UniformMixture& out)
      : law_(law), shape_(shape), out_(out), size_cv2_(law.prompt_cv2) {
    for (std::size_t others = 0; others < kFew; ++others) {
      size_ = 0;
      own(static_cast<double>(others), 0);
      few_[others] = alike();
    }
  }

  void run() {
    if (law_.full > 0) {
      // The wait is exponential, in slices that are wide beside what iterations differ by.
      constexpr int kSlices = 14;
      constexpr double kSlice = 0.5;
      const double width = kSlice * law_.full_wait;
      const double level = law_.full_iteration;
      const double base = shape_.base(level, shape_.prompts(level));
      size_ = 0;
      own(law_.admitted, 0);
      const OwnList list = alike();
      for (int i = 0; i < kSlices; ++i) {
        const double end = i + 1 < kSlices ? std::exp(-kSlice * (i + 1)) : 0;
        add(list, {base, {level, i * width, width}}, law_.full * (std::exp(-kSlice * i) - end));
      }
    }
    // On an idle engine, and in the levels of a busy one.
    add(few_[0], {law_.alpha, {}}, law_.idle);
    const double others = std::max(0.0, 1 - law_.idle - law_.full);
    if (others < kLeast) return;
    double weights = 0;
    shape_.levels([&](double level, double, double share) { weights += share * level; });
    shape_.levels([&](double level, double, double share) {
      at_level(level, others * share * level / weights);
    });
  }

 private:
  /// Numbers of prompts that are told apart; more of them are one.
  static constexpr std::size_t kFew = 4;
  static constexpr double kLeast = 1e-6;

  struct Before {
    double rest = 0;  ///< of the iteration that it meets: uniform up to this
    double wait = 0, wait_width = 0;
  };
  struct Place {
    double base = 0;  ///< an iteration without prompts
    Before before;
  };
  struct SizeList {
    std::array<Size, 12> at;
    std::size_t size = 0;
    bool made = false;
  };
  /// Sums of prompts that vary more are told apart by their size.
  static constexpr double kRandom = 0.1;
  /// Times their mean: no prompt of a usual law is larger.
  static constexpr double kLargest = 6;

  void at_level(double level, double weight) {
    const Counts counts = shape_.prompts(level);
    const double base = shape_.base(level, counts);
    const double mean = std::max(level, base);
    MetTable met(base);
    over_prompts(law_.rate_per_ms * level, shape_.spread(),
                 [&](double share, double prompts, double prompts_var) {
                   // Prompts of random size make the iteration that one meets long.
                   const SizeList& sizes = sizes_met(prompts, prompts_var);
                   for (std::size_t k = 0; k < sizes.size; ++k) {
                     const Size& size = sizes.at[k];
                     met.add(meet(base, prompts * size.factor),
                             weight * share * size.weight / mean);
                   }
                 });
    // Prompts that single iterations' arrivals do not explain are left over at any time.
    const double known = met.unfinished();
    const double more =
        law_.left > 0 ? std::max(0.0, law_.line.backlog_share - known) / (1 - known) : 0;
    // Where prompts are left over, the budget was full: one is like another for who comes then.
    double found = 0, behind = 0;
    met.each([&](const Met& one) {
      found += one.lasts * one.unfinished * one.found;
      behind += one.lasts * one.unfinished;
    });
    if (behind > kLeast) {
      const Place place{base, {found / behind, 0, 0}};
      const double others = met_with(place);
      const SizeList sizes = sizes_behind(others);
      size_ = 0;
      met.each([&](const Met& one) {
        const double share = one.lasts * one.unfinished / behind;
        if (!(share > 0)) return;
        for (std::size_t k = 0; k < sizes.size; ++k) {
          behind_of(others, one.rest, sizes.at[k], share);
        }
      });
      add(alike(), place, behind);
    }
    met.each([&](const Met& one) {
      found_at({base, {one.found, 0, 0}}, one.lasts * (1 - one.unfinished), more);
    });
  }

  Met meet(double base, double prompts) const {
    const double found = base + shape_.within_limits(prompts);
    const double budgets = law_.left > 0 ? prompts * law_.prompt_tokens / law_.left : 0;
    if (budgets <= 1) return {found, found, 0, 0};
    const double full = std::ceil(budgets) - 1;
    return {found, found * budgets, full / budgets,
            prompts - 0.5 * (full + 1) * law_.left / law_.prompt_tokens};
  }

  /// Those who came in the same iteration are Poisson over it. `behind` of them find a backlog.
  void found_at(const Place& place, double weight, double behind) {
    if (weight < kLeast) return;
    if (weight * behind > kLeast) {
      behind_.at(
          met_with(place),
          [&](double others) {
            const double backlog = law_.line.backlog / law_.line.backlog_share / law_.prompt_tokens;
            const SizeList sizes = sizes_behind(others);
            size_ = 0;
            for (std::size_t k = 0; k < sizes.size; ++k) {
              for (const Node& node : kExponential) {
                behind_of(others, node.value * backlog, sizes.at[k], node.weight);
              }
            }
            return alike();
          },
          [&](const OwnList& list, double part) { add(list, place, weight * behind * part); });
    }
    const double free = weight * (1 - behind);
    OwnSums sums(law_.iteration);
    over_prompts(law_.rate_per_ms * place.before.rest, 0,
                 [&](double share, double others, double others_var) {
                   share *= free;
                   if (share < kLeast) return;
                   if (others_var > 0 || others > law_.most_others) {
                     with_many(std::min(others, law_.most_others), sums, share);
                   } else {
                     sums.add(few_[static_cast<std::size_t>(others)], share);
                   }
                 });
    sums.each([&](const Own& own, std::size_t) { add(own, place, 1); });
  }

  void with_many(double others, OwnSums& sums, double share) {
    many_.at(
        std::max(0.0, others - kFew),
        [&](double beyond) {
          size_ = 0;
          own(std::min(beyond + kFew, law_.most_others), beyond * (1 + beyond / (kFew + beyond)));
          return alike();
        },
        [&](const OwnList& list, double part) { sums.add(list, share * part); });
  }

  /// Its own iterations, with `others` that came in the same one: appends to own_.
  void own(double others, double others_var) {
    if (law_.left <= 0) {
      sized({1, 0, 0, 1}, 1 + others, others_var, {});
      return;
    }
    const double count = 1 + others;
    const double cv2 = size_cv2_ / count + others_var / (count * count);
    if (cv2 < kRandom) {
      of_size(others, others_var, {});
      return;
    }
    // It is the large ones that take several iterations.
    each_size(cv2, [&](const Size& size) { of_size(others, 0, size); });
  }

  /// Of so many tokens. The sum over a wide law is an integral.
  double iterations(double mean, double variance) const {
    const double left_cv2 = law_.left_var / (law_.left * law_.left);
    const bool wide = variance > 0.64 * law_.left * law_.left && mean * mean > 16 * variance;
    if (wide && left_cv2 < 0.01) return mean / law_.left * (1 + left_cv2) + 0.5;
    return iterations_of(mean, variance, law_.left, law_.left_var);
  }

  void of_size(double others, double others_var, const Size& size) {
    const double tokens = size.factor * law_.prompt_tokens;
    const auto of = [&](double prompts, double prompts_var) {
      const double var = size.apart ? size.cv2 * prompts * prompts : prompts * size_cv2_;
      return iterations(prompts * tokens, (var + prompts_var) * tokens * tokens);
    };
    if (of(others + 1, others_var) < 1 + 1e-3) {
      chunked(1, others, 0, others_var, 0, size, 1);
      return;
    }
    // It may be the first or the last of those who came with it.
    const double places = others_var > 0 ? 3 : others + 1;
    for (double place = 0.5; place < places; ++place) {
      const double before = others_var > 0 ? others * place / places : place - 0.5;
      const double part = before / std::max(1.0, others);
      const double line = of(before + 1, others_var * part * part);
      const double whole = std::floor(line);
      chunked(whole, others, before, others_var, 0, size, (1 - (line - whole)) / places);
      chunked(whole + 1, others, before, others_var, 0, size, (line - whole) / places);
    }
  }

  /// Of those who find prompts of before them, with `others` that came in the same iteration.
  SizeList sizes_behind(double others) const {
    SizeList list;
    each_size(size_cv2_ / (1 + others), [&](const Size& size) { list.at[list.size++] = size; });
    return list;
  }

  OwnList alike() const { return queueing::alike(std::span(own_).first(size_), law_.iteration); }

  /// Appends to own_, with `backlog` mean prompts before those that came in the same iteration.
  void behind_of(double others, double backlog, const Size& size, double weight) {
    const double ahead = backlog / size.factor;
    const double tokens = size.factor * law_.prompt_tokens;
    const double chunks = std::max(1.0, (ahead + others / 2 + 1) * tokens / law_.left + 0.5);
    chunked(chunks, others, others / 2, others, ahead, size, weight);
  }

  double met_with(const Place& place) const {
    return std::min(law_.most_others, law_.rate_per_ms * place.before.rest);
  }

  /// In `chunks` iterations, of which the last one is filled by those who come meanwhile. Numbers
  /// are of prompts of that size.
  void chunked(double chunks, double others, double before, double others_var, double backlog,
               const Size& size, double weight) {
    weight *= size.weight;
    if (weight < 1e-5) return;
    const double most = std::max(1.0, chunks * law_.left / (size.factor * law_.prompt_tokens));
    if (chunks <= 1) {
      sized({1, 0, 0, weight}, std::min(1 + backlog + others, most), others_var, size);
      return;
    }
    const double ahead = backlog + before;
    const double behind = others - before;
    const double room = std::max(0.0, most - ahead - 1);
    const double mean = (chunks - 1) * law_.traffic.per_full;
    const double none = std::exp(-mean);
    const double some = mean / std::max(1e-12, 1 - none);
    if (none > kLeast) {
      sized({chunks, 0, 0, weight * none}, 1 + ahead + std::min(behind, room), others_var, size);
    }
    sized({chunks, 0, 0, weight * (1 - none)},
          1 + ahead + std::min(behind + some / size.factor, room),
          others_var + std::max(0.0, some * (1 + mean - some)), size);
  }

  /// Of those that one meets; that of few prompts is made once.
  const SizeList& sizes_met(double prompts, double prompts_var) {
    const bool few = prompts_var <= 0 && prompts < kFew;
    SizeList& list = few ? sizes_[static_cast<std::size_t>(prompts)] : many_sizes_;
    if (few && list.made) return list;
    list.made = true;
    list.size = 0;
    const double cv2 = prompts > 0 ? size_cv2_ / prompts + prompts_var / (prompts * prompts) : 0;
    // Only the exact place of the budget matters.
    if (law_.left > 0 && prompts * law_.prompt_tokens * kLargest > law_.left) {
      each_size(cv2, [&](const Size& size) { list.at[list.size++] = size; });
      return list;
    }
    const double log_var = std::log1p(cv2);
    for (const Node& node : nodes_for(cv2).at) {
      list.at[list.size++] = {.factor = std::exp(std::sqrt(log_var) * node.value - log_var / 2),
                              .cv2 = 0,
                              .weight = node.weight,
                              .apart = true};
    }
    return list;
  }

  /// `count` prompts of that size: appends to own_.
  void sized(Own at, double count, double count_var, const Size& size) {
    const double cv2 = size.apart ? size.cv2 : size_cv2_ / count + count_var / (count * count);
    const double weight = at.weight;
    if (size.apart || at.iterations > 1 || cv2 < kRandom) {
      at.added = shape_.added(count * size.factor, at.iterations);
      at.added_var = cv2 * at.added * at.added;
      if (size_ < own_.size()) own_[size_++] = at;
      return;
    }
    each_size(cv2, [&](const Size& part) {
      if (size_ == own_.size()) return;
      at.added = shape_.added(count * part.factor, at.iterations);
      at.added_var = part.cv2 * at.added * at.added;
      at.weight = weight * part.weight;
      own_[size_++] = at;
    });
  }

  void add(const OwnList& list, const Place& place, double weight) {
    for (std::size_t k = 0; k < list.size; ++k) add(list.at[k], place, weight);
  }

  void add(const Own& own, const Place& place, double weight) {
    weight *= own.weight;
    if (weight < kLeast) return;
    // Uniforms as one of the same variance.
    const Before& before = place.before;
    const double width = std::sqrt(before.rest * before.rest +
                                   before.wait_width * before.wait_width + 12 * own.added_var);
    const double middle = place.base * own.iterations + own.added + before.wait +
                          (before.rest + before.wait_width) / 2;
    out_.add(std::max(0.0, middle - width / 2), width, weight);
  }

  const LatencyLaw& law_;
  const Shape& shape_;
  UniformMixture& out_;
  double size_cv2_;
  std::array<Own, 512> own_;
  std::size_t size_ = 0;
  std::array<OwnList, kFew> few_;
  Lists many_, behind_;
  std::array<SizeList, kFew> sizes_;
  SizeList many_sizes_;
};

void add_gaps(const LatencyLaw& law, const Shape& shape, UniformMixture& out) {
  // Prompts that take several iterations fill each of them.
  const double chunked = law.left > 0 ? std::clamp((law.line.alone - 1) / 0.1, 0.0, 1.0) : 0;
  shape.found_levels([&](double level, double width, double weight) {
    const Counts counts = shape.prompts(level);
    const double base = shape.base(level, counts);
    const double low = std::max(law.alpha, base - width / 2);
    const double across = 2 * (base - low);
    if (chunked > 0) {
      const double busy = std::min(1.0, law.rate_per_ms * level * law.prompt_tokens / law.left);
      out.add(low, across, chunked * weight * (1 - busy));
      out.add(low + shape.added(law.left / law.prompt_tokens), across, chunked * weight * busy);
    }
    if (chunked >= 1) return;
    for (const Node& k : counts.nodes()) {
      const double blur = std::sqrt(12 * k.value * law.prefill_var);
      const double wide = std::sqrt(across * across + blur * blur);
      const double middle = base + shape.within_limits(k.value);
      const double begin = std::max(low, middle - wide / 2);
      out.add(begin, 2 * (middle - begin), (1 - chunked) * weight * k.weight);
    }
  });
}

/// Over its mean, of a length with this coefficient of variation: a log-t of 3.5 degrees of freedom
/// cut at 16 times its mean, as answer lengths are.
Percentiles length_percentiles(double cv) {
  struct Row {
    double cv, p50, p90, p95, p99;
  };
  static constexpr std::array<Row, 13> kRows = {{{0, 1, 1, 1, 1},
                                                 {0.0828, 0.9971, 1.0789, 1.1142, 1.2218},
                                                 {0.1796, 0.9882, 1.1570, 1.2341, 1.4839},
                                                 {0.4206, 0.9529, 1.3063, 1.4862, 2.1489},
                                                 {0.6941, 0.8974, 1.4405, 1.7480, 3.0390},
                                                 {0.9746, 0.8276, 1.5554, 2.0131, 4.2086},
                                                 {1.2426, 0.7499, 1.6503, 2.2783, 5.7272},
                                                 {1.4900, 0.6699, 1.7260, 2.5416, 7.6825},
                                                 {1.7141, 0.5914, 1.7842, 2.8022, 10.1851},
                                                 {1.9137, 0.5172, 1.8270, 3.0606, 13.3763},
                                                 {2.0904, 0.4488, 1.8563, 3.3169, 16.0},
                                                 {2.5044, 0.2833, 1.8807, 4.0776, 16.0},
                                                 {3.0970, 0.0713, 1.8807, 6.0770, 16.0}}};
  std::size_t i = 1;
  while (i + 1 < kRows.size() && kRows[i].cv < cv) ++i;
  const Row& a = kRows[i - 1];
  const Row& b = kRows[i];
  const double part = std::clamp((cv - a.cv) / (b.cv - a.cv), 0.0, 1.0);
  const auto mix = [part](double x, double y) { return x + part * (y - x); };
  return {mix(a.p50, b.p50), mix(a.p90, b.p90), mix(a.p95, b.p95), mix(a.p99, b.p99)};
}

/// Of which the percentiles of TTFT are known.
void add_time_in_system(const LatencyLaw& law, Latency& out) {
  const Percentiles& ttft = *out.ttft_percentiles_ms;
  // Decoding takes a random number of gaps, whose mean differs between requests: deviations from
  // the median, in logarithms, add up as independent ones do.
  const double decoding = out.e2e_ms.value_or(0) - out.ttft_ms.value_or(0);
  const double log_sd = std::sqrt(std::log1p(law.decode_time_cv2));
  const double cv =
      law.decodes > 0 ? std::sqrt(law.length_cv2) * (law.decodes + 1) / law.decodes : 0;
  const Percentiles lengths = length_percentiles(std::min(cv, 10.0));
  const auto e2e = [&](double length, double z, double first_token) {
    const double off = std::log(length / lengths.p50);
    const double both = std::sqrt(off * off + z * z * log_sd * log_sd);
    const double time = decoding * lengths.p50 * std::exp(both);
    // The two add up; what is left of TTFT's own spread counts only where decoding has none.
    const double rest = first_token - *out.ttft_ms;
    return *out.ttft_ms + std::sqrt(std::pow(time - decoding * lengths.p50, 2) + rest * rest) +
           decoding * lengths.p50;
  };
  out.e2e_percentiles_ms = Percentiles{ttft.p50 + decoding * lengths.p50,
                                       e2e(lengths.p90, 1.2816, std::max(ttft.p90, *out.ttft_ms)),
                                       e2e(lengths.p95, 1.6449, std::max(ttft.p95, *out.ttft_ms)),
                                       e2e(lengths.p99, 2.3263, std::max(ttft.p99, *out.ttft_ms))};
}

}  // namespace

void add_percentiles(const LatencyLaw& law, const WhichPercentiles& which, Latency& out) {
  const Shape shape(law);
  if (law.decodes > 0 && which.gaps) {
    UniformMixture gaps;
    add_gaps(law, shape, gaps);
    out.itl_percentiles_ms =
        gaps.percentiles(out.itl_ms.value_or(0), law.alpha + law.decode, which);
  }
  if (!which.first) return;
  UniformMixture first;
  FirstToken(law, shape, first).run();
  out.ttft_percentiles_ms = first.percentiles(out.ttft_ms.value_or(0), 0, which);
  add_time_in_system(law, out);
}

}  // namespace tailrace::queueing
