#include "observe/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

constexpr std::size_t kEdgesMax = 1'000;
constexpr const char* kNotYet = "not known yet: one point only";
/// A part that has not been said for so many of its intervals is gone.
constexpr double kGoneIntervals = 1.5;

double widest_gap_s(std::span<const Point> points) {
  double widest = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    widest = std::max(widest, points[i].time_s - points[i - 1].time_s);
  }
  return widest;
}

/// A number that may be reported, or the reason why not.
Measured measured(double value, double age_s, std::string_view metric) {
  Measured out;
  out.age_s = age_s;
  out.metric = metric;
  if (std::isfinite(value) && value >= 0) {
    out.value = value;
  } else {
    out.missing = fmt::format("{} says {}, which is no count", metric, value);
    out.unbelievable = true;
  }
  return out;
}

/// No level is so high.
Measured at_most(Measured level, double most) {
  if (level.value && *level.value > most) {
    level.missing = fmt::format("{} says {:g}, more than can be", level.metric, *level.value);
    level.value.reset();
    level.unbelievable = true;
  }
  return level;
}

Measured missing(std::string reason, std::string_view metric = {}) {
  Measured out;
  out.metric = metric;
  out.missing = std::move(reason);
  return out;
}

/// The first choice that has a value, else the first that has something to say at all.
template <class Choices, class Read>
Measured first(const Choices& choices, const Read& read) {
  Measured best;
  for (const auto& choice : choices) {
    Measured one = read(choice);
    if (one.value) return one;
    if (best.metric.empty() && !one.metric.empty()) best = one;
  }
  if (best.missing.empty()) best.missing = "no series under any name that is known for it";
  return best;
}

/// Its points in the window that ends with the newest of all.
std::vector<Point> in_window(std::span<const Point> points, double window_s) {
  std::vector<Point> out;
  for (const Point& p : points) {
    if (p.time_s > points.back().time_s - window_s) out.push_back(p);
  }
  return out;
}

}  // namespace

double Meter::age_s(double time_s) const {
  return std::max(0.0, config_.now_s - time_s);
}

std::vector<const Said*> Meter::series(std::string_view name, const OnlyWhere& only) const {
  std::vector<const Said*> out;
  for (const Said& said : exporter_.named(name)) {
    if (!only.label.empty() && said.label(only.label) != only.value) continue;
    if (wanted_(said) && !over(said)) out.push_back(&said);
  }
  return out;
}

bool Meter::over(const Said& said) const {
  const double newest_s = said.track->newest_s();
  return exporter_.began_s > newest_s && exporter_.newest_s - newest_s > config_.window_s;
}

const Said* Meter::gone(std::string_view name, const OnlyWhere& only) const {
  const auto all = series(name, only);
  double others = 0;
  for (const Said* said : all) others = std::max(others, widest_gap_s(said->track->points));
  for (const Said* said : all) {
    const double newest_s = said->track->newest_s();
    const double own = widest_gap_s(said->track->points);
    const double interval = own > 0 ? own : others;
    if (interval > 0 && exporter_.newest_s - newest_s > kGoneIntervals * interval &&
        exporter_.began_s <= newest_s) {
      return said;
    }
  }
  return nullptr;
}

std::string Meter::text_of(std::string_view name, const Said& said) {
  std::string labels;
  for (const auto& [label, value] : said.labels) {
    labels += fmt::format("{}{}={}", labels.empty() ? "" : ",", label, core::quoted(value));
  }
  return fmt::format("{}{{{}}}", name, labels);
}

std::optional<Rise> Meter::rise(const Counter& counter) const {
  std::optional<Rise> sum;
  if (gone(counter.name, counter.only) != nullptr) return std::nullopt;
  for (const Said* said : series(counter.name, counter.only)) {
    const auto points = after_gap(said->track->points, config_.gap_s);
    const auto one = increase_of(points, exporter_.starts());
    if (!one) {
      // A part that says no number is missing from the sum; one that has just begun is not.
      if (!said->track->says_number()) return std::nullopt;
      continue;
    }
    if (!sum) {
      sum.emplace();
      sum->metric = counter.name;
      sum->from_s = one->from_s;
    }
    sum->per_s += one->per_s();
    sum->amount += one->amount;
    sum->newest_s = std::max(sum->newest_s, one->to_s);
    sum->from_s = std::min(sum->from_s, one->from_s);
    sum->resets_s.insert(sum->resets_s.end(), one->resets_s.begin(), one->resets_s.end());
  }
  if (sum && !(std::isfinite(sum->per_s) && std::isfinite(sum->amount))) return std::nullopt;
  return sum;
}

Measured Meter::rate(std::span<const Counter> choices) const {
  return first(choices, [&](const Counter& counter) {
    const auto rise = this->rise(counter);
    if (rise) return measured(rise->per_s, age_s(rise->newest_s), rise->metric);
    if (series(counter.name, counter.only).empty()) return missing("");
    if (const Said* part = gone(counter.name, counter.only)) {
      return missing(text_of(counter.name, *part) + " is gone", counter.name);
    }
    return missing(kNotYet, counter.name);
  });
}

std::vector<double> Meter::resets(std::span<const Counter> choices) const {
  for (const Counter& counter : choices) {
    if (auto rise = this->rise(counter)) {
      auto& at = rise->resets_s;
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
      return at;
    }
  }
  return {};
}

std::vector<Point> Meter::levels(const Gauge& gauge) const {
  const auto all = series(gauge.name, gauge.only);
  std::vector<Point> out;
  if (all.empty()) return out;
  for (const Point& p : after_gap(all.front()->track->points, config_.gap_s)) {
    double sum = p.value;
    bool whole = p.value >= 0;
    for (std::size_t i = 1; i < all.size() && whole; ++i) {
      const auto value = value_at(all[i]->track->points, p.time_s);
      whole = value && *value >= 0;
      if (whole) sum += *value;
    }
    if (whole && std::isfinite(sum)) out.push_back({p.time_s, sum});
  }
  return out;
}

Measured Meter::mean_level(std::span<const Gauge> choices, double most) const {
  return first(choices, [&](const Gauge& gauge) {
    Measured now = at_most(newest(gauge, true), most);
    const auto points = levels(gauge);
    if (!now.value || points.empty()) return now;
    const auto inside = in_window(points, config_.window_s);
    double mean = 0;  // of parts, so that it cannot overflow
    for (const Point& p : inside) mean += p.value / static_cast<double>(inside.size());
    return at_most(measured(mean, now.age_s, gauge.name), most);
  });
}

Measured Meter::newest_level(std::span<const Gauge> choices, double most) const {
  return first(choices, [&](const Gauge& gauge) { return at_most(newest(gauge, true), most); });
}

Measured Meter::newest(const Gauge& gauge, bool sum) const {
  const auto all = series(gauge.name, gauge.only);
  if (all.empty()) return missing("");
  if (const Said* part = gone(gauge.name, gauge.only)) {
    return missing(text_of(gauge.name, *part) + " is gone", gauge.name);
  }
  double total = 0, newest_s = -HUGE_VAL;
  for (const Said* said : all) {
    if (!said->track->says_number()) return missing("its newest point is no number", gauge.name);
    const Point& last = said->track->points.back();
    if (last.value < 0) return measured(last.value, age_s(last.time_s), gauge.name);
    total += last.value / (sum ? 1.0 : static_cast<double>(all.size()));
    newest_s = std::max(newest_s, last.time_s);
  }
  return measured(total, age_s(newest_s), gauge.name);
}

Measured Meter::level(std::span<const Level> choices, bool sum) const {
  struct Read {
    const Meter& meter;
    bool sum;
    Measured operator()(const Gauge& gauge) const { return meter.newest(gauge, sum); }
    Measured operator()(const GaugeProduct& p) const {
      Measured one = meter.newest(p.one, sum), other = meter.newest(p.other, false);
      if (!one.value) return one;
      if (!other.value) return other;
      return measured(*one.value * *other.value, std::max(one.age_s, other.age_s), one.metric);
    }
    Measured operator()(const InfoProduct& p) const {
      double total = 0, newest_s = -HUGE_VAL;
      const auto all = meter.series(p.name, {});
      if (all.empty()) return missing("");
      for (const Said* said : all) {
        const auto one = core::parse_double(said->label(p.one));
        const auto other = core::parse_double(said->label(p.other));
        if (!one || !other) {
          return missing(fmt::format("its labels {} and {} are not both numbers", p.one, p.other),
                         p.name);
        }
        total += *one * *other;
        newest_s = std::max(newest_s, said->track->newest_s());
      }
      return measured(total, meter.age_s(newest_s), p.name);
    }
  };
  return first(choices, [&](const Level& level) { return std::visit(Read{*this, sum}, level); });
}

Measured Meter::share(std::span<const Share> choices) const {
  struct Read {
    const Meter& meter;
    Measured operator()(const CounterRatio& ratio) const { return meter.one(ratio); }
    Measured operator()(const Gauge& gauge) const { return meter.newest(gauge, false); }
  };
  Measured out = first(choices, [&](const Share& share) { return std::visit(Read{*this}, share); });
  if (out.value && *out.value > 1) {
    out.missing = fmt::format("{} says {:g}, more than all", out.metric, *out.value);
    out.value.reset();
  }
  return out;
}

std::optional<double> Meter::growth_per_s(std::span<const Gauge> one, std::span<const Gauge> other,
                                          std::span<const double> resets_s) const {
  std::vector<Point> a, b;
  for (std::size_t i = 0; i < one.size() && a.empty(); ++i) a = levels(one[i]);
  for (std::size_t i = 0; i < other.size() && b.empty(); ++i) b = levels(other[i]);
  if (a.empty()) std::swap(a, b);
  double growth = 0, first_s = 0, last_s = 0;
  std::optional<double> before;
  for (const Point& p : a) {
    const auto more = b.empty() ? std::optional<double>(0) : value_at(b, p.time_s);
    if (!more) continue;
    const double inside = p.value + *more;
    if (before) {
      const bool fresh = std::any_of(resets_s.begin(), resets_s.end(), [&](double reset_s) {
        return reset_s > last_s && reset_s <= p.time_s;
      });
      growth += fresh ? inside : inside - *before;
    } else {
      first_s = p.time_s;
    }
    before = inside;
    last_s = p.time_s;
  }
  if (!(last_s > first_s)) return std::nullopt;
  const double per_s = growth / (last_s - first_s);
  return std::isfinite(per_s) ? std::optional(per_s) : std::nullopt;
}

Measured Meter::one(const CounterRatio& r) const {
  const auto over = rise(r.over), under = rise(r.under);
  if (!over || !under) {
    const bool there =
        !series(r.over.name, r.over.only).empty() && !series(r.under.name, r.under.only).empty();
    return there ? missing(kNotYet, r.over.name) : missing("");
  }
  if (!(under->per_s > 0)) {
    return missing(fmt::format("nothing counted in the last {:g} s", config_.window_s),
                   r.over.name);
  }
  return measured(over->per_s / under->per_s * r.scale, age_s(over->newest_s), r.over.name);
}

Measured Meter::one(const Histogram& h) const {
  const std::string sum = std::string(h.name) + "_sum", count = std::string(h.name) + "_count";
  Measured out = one(CounterRatio{{sum}, {count}, h.scale});
  if (!out.metric.empty()) out.metric = h.name;
  return out;
}

Measured Meter::per_request(const Counter& total, double scale,
                            const Measured& requests_per_s) const {
  const auto rise = this->rise(total);
  if (!rise) {
    return series(total.name, total.only).empty() ? missing("") : missing(kNotYet, total.name);
  }
  if (!requests_per_s.value) {
    return missing("the rate of requests is not known: " + requests_per_s.missing, total.name);
  }
  if (!(*requests_per_s.value > 0)) {
    return missing(fmt::format("no request in the last {:g} s", config_.window_s), total.name);
  }
  return measured(rise->per_s / *requests_per_s.value * scale, age_s(rise->newest_s), total.name);
}

Measured Meter::mean(std::span<const Mean> choices, const Measured& requests_per_s,
                     const Measured& waiting) const {
  struct Read {
    const Meter& meter;
    const Measured& requests_per_s;
    const Measured& waiting;
    Measured operator()(const Histogram& h) const { return meter.one(h); }
    Measured operator()(const CounterRatio& r) const { return meter.one(r); }
    Measured operator()(const PerRequest& p) const {
      return meter.per_request(p.total, p.scale, requests_per_s);
    }
    Measured operator()(const PerRequestAndWait& p) const {
      Measured own = meter.per_request(p.seconds, p.scale, requests_per_s);
      if (!own.value) return own;
      if (!waiting.value) return missing("the number waiting is not known", own.metric);
      return measured(*own.value + *waiting.value / *requests_per_s.value * p.scale, own.age_s,
                      own.metric);
    }
  };
  return first(choices, [&](const Mean& mean) {
    return std::visit(Read{*this, requests_per_s, waiting}, mean);
  });
}

std::vector<LengthBucket> Meter::buckets_of(const Histogram& h, double* newest_s) const {
  std::map<double, double> counts;
  const std::string name = std::string(h.name) + "_bucket";
  for (const Said* said : series(name, {})) {
    const auto text = said->label("le");
    const auto edge = text == "+Inf" ? std::numeric_limits<double>::infinity()
                                     : core::parse_double(text).value_or(std::nan(""));
    if (std::isnan(edge)) continue;
    const auto rise =
        increase_of(after_gap(said->track->points, config_.gap_s), exporter_.starts());
    if (!rise) continue;
    if (newest_s != nullptr) *newest_s = std::max(*newest_s, rise->to_s);
    counts[edge] += rise->amount;
  }
  std::vector<LengthBucket> out;
  double most = 0;
  for (const auto& [edge, count] : counts) {
    if (out.size() >= kEdgesMax || !std::isfinite(count)) return {};
    most = std::max(most, count);  // a point that is missing from one bucket only
    out.push_back({edge, most});
  }
  if (!(most > 0)) return {};
  return out;
}

std::vector<LengthBucket> Meter::buckets(std::span<const Mean> choices) const {
  for (const auto& choice : choices) {
    const auto* histogram = std::get_if<Histogram>(&choice);
    if (histogram == nullptr) continue;
    auto out = buckets_of(*histogram, nullptr);
    if (!out.empty()) return out;
  }
  return {};
}

Measured Meter::quantile(std::span<const Mean> choices, double q) const {
  return first(choices, [&](const Mean& choice) {
    const auto* h = std::get_if<Histogram>(&choice);
    if (h == nullptr || exporter_.named(std::string(h->name) + "_bucket").empty()) {
      return missing("");
    }
    double newest_s = -HUGE_VAL;
    const auto buckets = buckets_of(*h, &newest_s);
    if (buckets.empty()) {
      return missing(fmt::format("nothing counted in the last {:g} s", config_.window_s), h->name);
    }
    const double rank = q * buckets.back().cumulative;
    double low = 0, below = 0;
    for (const auto& bucket : buckets) {
      if (bucket.cumulative >= rank) {
        if (!std::isfinite(bucket.upper)) {
          auto out = measured(low * h->scale, age_s(newest_s), h->name);
          out.at_least = true;
          return out;
        }
        const double inside = bucket.cumulative - below;
        const double share = inside > 0 ? (rank - below) / inside : 1;
        const double from = std::min(low, bucket.upper);
        return measured((from + (bucket.upper - from) * share) * h->scale, age_s(newest_s),
                        h->name);
      }
      low = bucket.upper;
      below = bucket.cumulative;
    }
    return missing("its buckets contradict each other", h->name);
  });
}

}  // namespace tailrace::observe
