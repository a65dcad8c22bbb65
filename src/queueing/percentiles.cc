// A request's TTFT is the rest of the iteration that it meets and its own, in a batch whose size
// changes slowly: levels of the slow part, in each a number of prompts in the iteration that it
// meets, then of those that come with it. All are sums over few values, each with a uniform rest.
#include "queueing/percentiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "queueing/mixture.h"

namespace tailrace::queueing {
namespace {

struct Node {
  double value = 0, weight = 0;
};

/// A normal in cells of equal width.
constexpr double kCell = 0.8;
constexpr std::array<Node, 9> kNormal = {{{-3.2, 0.002397},
                                          {-2.4, 0.020201},
                                          {-1.6, 0.092349},
                                          {-0.8, 0.229582},
                                          {0.0, 0.310942},
                                          {0.8, 0.229582},
                                          {1.6, 0.092349},
                                          {2.4, 0.020201},
                                          {3.2, 0.002397}}};

/// The same in fewer cells.
constexpr std::array<Node, 7> kCoarse = {{{-3.0, 0.0062},
                                          {-2.0, 0.0606},
                                          {-1.0, 0.2417},
                                          {0.0, 0.3830},
                                          {1.0, 0.2417},
                                          {2.0, 0.0606},
                                          {3.0, 0.0062}}};

/// Squared coefficient of variation from which on prompts count as random in size.
constexpr double kRandom = 1e-6;

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
  std::span<const Node> nodes() const { return std::span(nodes_).first(size_); }

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

  /// Mean iteration while the slow part stands z deviations off.
  double level(double z) const {
    return std::min(std::max(law_.full_iteration, law_.iteration),
                    least_ + gamma_at(law_.iteration - least_, law_.slow_var, z));
  }
  double least() const { return least_; }
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
  const LatencyLaw& law_;
  double spread_ = 0, least_ = 0;
};

class FirstToken {
 public:
  FirstToken(const LatencyLaw& law, const Shape& shape, UniformMixture& out)
      : law_(law),
        shape_(shape),
        out_(out),
        random_(law.prefill_var > kRandom * law.prefill * law.prefill) {}

  void run() {
    alone(law_.idle);
    const double others = std::max(0.0, 1 - law_.idle - law_.full);
    const auto levels = random_ ? std::span<const Node>(kCoarse) : std::span<const Node>(kNormal);
    double weights = 0;
    for (const Node& z : levels) weights += z.weight * shape_.level(z.value);
    for (const Node& z : levels) {
      const double level = shape_.level(z.value);
      at_level(level, others * z.weight * level / weights);
    }
    if (law_.full > 0) {
      // The wait is exponential, in slices that are wide beside what iterations differ by.
      constexpr int kSlices = 14;
      constexpr double kSlice = 0.5;
      const double width = kSlice * law_.full_wait;
      const double level = law_.full_iteration;
      const double base = shape_.base(level, shape_.prompts(level));
      for (int i = 0; i < kSlices; ++i) {
        const double end = i + 1 < kSlices ? std::exp(-kSlice * (i + 1)) : 0;
        own(base, law_.admitted, {level, i * width, width}, level,
            law_.full * (std::exp(-kSlice * i) - end));
      }
    }
  }

 private:
  /// On an idle engine.
  void alone(double weight) { own(law_.alpha, 0, {}, 0, weight); }

  void at_level(double level, double weight) {
    const Counts met = shape_.prompts(level);
    const double base = shape_.base(level, met);
    // Prompts of random size make the iteration that one meets long.
    const auto sizes = random_ ? std::span(kCoarse) : std::span(kCoarse).subspan(3, 1);
    double mean = 0, all = 0;
    for (const Node& k : met.nodes()) mean += k.weight * (base + shape_.within_limits(k.value));
    for (const Node& size : sizes) all += size.weight;
    for (const Node& k : met.nodes()) {
      const double added = shape_.within_limits(k.value);
      const bool one_size = k.value == 0;
      for (const Node& size : one_size ? sizes.first(1) : sizes) {
        const double found = base + added * relative_size(k.value, size.value);
        const double part = one_size ? 1 : size.weight / all;
        const double share = weight * k.weight * part * found / mean;
        if (share < 1e-5) continue;
        for (const Node& others : Counts(law_.rate_per_ms * found, 0).nodes()) {
          own(base, std::min(others.value, law_.most_others), {found, 0, 0}, level,
              share * others.weight);
        }
      }
    }
  }

  struct Before {
    double rest = 0;  ///< of the iteration that it meets: uniform up to this
    double wait = 0, wait_width = 0;
  };

  /// Of `count` prompts together over its mean, z deviations off.
  double relative_size(double count, double z) const {
    if (count <= 0 || !random_) return 1;
    const double cv2 = law_.prefill_var / (count * law_.prefill * law_.prefill);
    const double log_sd = std::sqrt(std::log1p(cv2));
    return std::exp(log_sd * z - log_sd * log_sd / 2);
  }

  /// Its own iterations, with `others` that came in the same one.
  void own(double base, double others, const Before& before, double level, double weight) {
    if (law_.left <= 0) {
      prompts(base, 1, 1 + others, before, weight);
      return;
    }
    const double tokens = law_.prompt_tokens;
    const double behind = level > 0 ? law_.line.backlog_share : 0;
    // Those before it are as many as those behind it, on average.
    const double earlier = others / 2;
    const double mean = earlier + 1;
    const double line =
        iterations_of(mean * tokens, mean * law_.traffic.tokens_var, law_.left, law_.left_var);
    const double whole = std::floor(line);
    const double free = weight * (1 - behind);
    chunked(base, {whole, 0, earlier}, before, free * (1 - (line - whole)));
    chunked(base, {whole + 1, 0, earlier}, before, free * (line - whole));
    if (weight * behind < 1e-6) return;
    const double backlog = law_.line.backlog / law_.line.backlog_share / tokens;
    for (const Node& node : kExponential) {
      const double ahead = node.value * backlog;
      const double chunks = std::max(1.0, (ahead + mean) * tokens / law_.left + 0.5);
      chunked(base, {chunks, ahead, earlier}, before, weight * behind * node.weight);
    }
  }

  /// In prompts.
  struct Line {
    double chunks = 1, backlog = 0, earlier = 0;
  };

  /// In `chunks` iterations, of which the last one is filled by those who come meanwhile.
  void chunked(double base, const Line& line, const Before& before, double weight) {
    if (weight < 1e-6) return;
    const double ahead = line.backlog + line.earlier;
    const double room = std::max(0.0, line.chunks * law_.left / law_.prompt_tokens - ahead - 1);
    const auto with = [&](double later, double part) {
      const double count = 1 + ahead + std::min(later, room);
      prompts(base, line.chunks, count, before, part);
    };
    if (line.chunks <= 1) {
      with(line.earlier, weight);
      return;
    }
    for (const Node& came : Counts((line.chunks - 1) * law_.traffic.per_full, 0).nodes()) {
      with(line.earlier + came.value, weight * came.weight);
    }
  }

  /// `count` prompts of random size on top of iterations of `base` each.
  void prompts(double base, double iterations, double count, const Before& before, double weight) {
    // Two uniforms as one of the same variance.
    const double width =
        std::sqrt(before.rest * before.rest + before.wait_width * before.wait_width);
    const double low =
        base * iterations + before.wait + (before.rest + before.wait_width - width) / 2;
    const double sum = shape_.added(count, iterations);
    if (!random_) {
      out_.add(low + sum, width, weight);
      return;
    }
    const auto sizes = count > 1 ? std::span<const Node>(kCoarse) : std::span<const Node>(kNormal);
    for (const Node& size : sizes) {
      out_.add(low + sum * relative_size(count, size.value), width, weight * size.weight);
    }
  }

  const LatencyLaw& law_;
  const Shape& shape_;
  UniformMixture& out_;
  bool random_;
};

void add_gaps(const LatencyLaw& law, const Shape& shape, UniformMixture& out) {
  for (const Node& z : kNormal) {
    const double level = shape.level(z.value);
    const Counts counts = shape.prompts(level);
    const double base = shape.base(level, counts);
    const double width = shape.level(z.value + kCell / 2) - shape.level(z.value - kCell / 2);
    const double low = std::max(law.alpha, base - width / 2);
    const double across = 2 * (base - low);
    // Who decodes is in proportion to what iterations take beyond the least.
    const double scale = std::max(law.iteration - shape.least(), 1e-9 * law.iteration);
    const double weight = z.weight * std::max(level - shape.least(), 1e-9 * level) / scale;
    if (law.left > 0 && law.line.alone > 1.05) {
      const double busy = std::min(1.0, law.rate_per_ms * level * law.prompt_tokens / law.left);
      out.add(low, across, weight * (1 - busy));
      out.add(low + shape.added(law.left / law.prompt_tokens), across, weight * busy);
      continue;
    }
    for (const Node& k : counts.nodes()) {
      const double blur = std::sqrt(12 * k.value * law.prefill_var);
      const double wide = std::sqrt(across * across + blur * blur);
      const double middle = base + shape.within_limits(k.value);
      const double begin = std::max(low, middle - wide / 2);
      out.add(begin, 2 * (middle - begin), weight * k.weight);
    }
  }
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

}  // namespace

void add_percentiles(const LatencyLaw& law, Latency& out) {
  const Shape shape(law);
  UniformMixture first;
  FirstToken(law, shape, first).run();
  const Percentiles ttft = first.percentiles(out.ttft_ms.value_or(0));
  out.ttft_percentiles_ms = ttft;
  if (law.decodes > 0) {
    UniformMixture gaps;
    add_gaps(law, shape, gaps);
    out.itl_percentiles_ms = gaps.percentiles(out.itl_ms.value_or(0));
  }
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

}  // namespace tailrace::queueing
