#include "simulate/arrivals.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "simulate/field_check.h"

namespace tailrace::simulate {
namespace {

constexpr double kRateMin = 1e-6, kRateMax = 1e6;
constexpr double kSecondsMin = 1e-3, kSecondsMax = 1e9;
// A process that jumps far more often than requests come is a Poisson process, slowly made.
constexpr double kStepsPerArrivalMax = 1000;
constexpr double kNeverSeconds = 9.1e9;  // after the last time at which a request may come
constexpr double kProfileRateMax = 1e5;

double rate_at(const std::vector<RatePoint>& profile, std::size_t point, double at_s) {
  const RatePoint& from = profile[point];
  if (point + 1 == profile.size()) return from.rate;
  const RatePoint& to = profile[point + 1];
  return from.rate + (to.rate - from.rate) * (at_s - from.at_s) / (to.at_s - from.at_s);
}

double mean_of(const std::vector<RatePoint>& profile) {
  if (profile.empty()) return 0;
  double requests = 0;
  for (std::size_t i = 1; i < profile.size(); ++i) {
    requests +=
        (profile[i].rate + profile[i - 1].rate) / 2 * (profile[i].at_s - profile[i - 1].at_s);
  }
  const double length_s = profile.back().at_s;
  return length_s > 0 ? requests / length_s : profile.back().rate;
}

Result<void> check_profile(const ArrivalSpec& spec) {
  const FieldCheck in("arrivals");
  if (spec.profile.empty()) return in.missing("profile", "from which rate on requests come");
  for (std::size_t i = 0; i < spec.profile.size(); ++i) {
    const RatePoint& point = spec.profile[i];
    const double least_s = i == 0 ? 0 : spec.profile[i - 1].at_s;
    if (!in_range(point.at_s, least_s, i == 0 ? 0 : kSecondsMax)) {
      return in.bad(fmt::format("profile[{}].at_s", i), point.at_s,
                    "0 for the first, then seconds that never fall, at most 1e9");
    }
    if (!in_range(point.rate, 0, kProfileRateMax)) {
      return in.bad(fmt::format("profile[{}].rate", i), point.rate,
                    "requests per second, 0 to 1e5");
    }
  }
  return {};
}

}  // namespace

double mean_rate(const ArrivalSpec& spec) {
  using Kind = ArrivalSpec::Kind;
  switch (spec.kind) {
    case Kind::kMarkov:
      return spec.rate * (spec.low_sojourn_s + spec.high * spec.high_sojourn_s) /
             (spec.low_sojourn_s + spec.high_sojourn_s);
    case Kind::kSpikes:
      return spec.rate * (1 + (spec.high - 1) * spec.spike_s / spec.period_s);
    case Kind::kAtOnce:
      return std::numeric_limits<double>::infinity();
    case Kind::kProfile:
      return mean_of(spec.profile);
    case Kind::kPoisson:
    case Kind::kGamma:
    case Kind::kSinusoid:
      break;
  }
  return spec.rate;
}

Result<void> check_end(const ArrivalSpec& spec) {
  const FieldCheck in("arrivals");
  if (spec.duration_s && !in_range(*spec.duration_s, 1e-9, kSecondsMax)) {
    return in.bad("duration_s", *spec.duration_s, "seconds, above 0 and at most 1e9");
  }
  if (spec.count && *spec.count == 0) {
    return in.bad("count", 0, "at least 1; leave it out for no limit");
  }
  return {};
}

Result<void> check(const ArrivalSpec& spec) {
  using Kind = ArrivalSpec::Kind;
  const FieldCheck in("arrivals");
  if (auto ok = check_end(spec); !ok) return ok;
  if (spec.kind == Kind::kAtOnce) {
    if (!spec.count) return in.missing("count", "how many come at once");
    return {};
  }
  if (!spec.duration_s && !spec.count) {
    return in.missing("duration_s", "for how long requests come, or count, how many");
  }
  if (spec.kind == Kind::kProfile) return check_profile(spec);
  if (!in_range(spec.rate, kRateMin, kRateMax)) {
    return in.bad("rate", spec.rate, "requests per second, 1e-6 to 1e6");
  }
  if (spec.kind == Kind::kGamma && !in_range(spec.cv, 0.01, 100)) {
    return in.bad("cv", spec.cv, "a coefficient of variation, 0.01 to 100");
  }
  if (spec.kind == Kind::kSinusoid && !in_range(spec.amplitude, 0, 1)) {
    return in.bad("amplitude", spec.amplitude, "a share of the mean rate, 0 to 1");
  }
  const bool has_period = spec.kind == Kind::kSinusoid || spec.kind == Kind::kSpikes;
  if (has_period && !in_range(spec.period_s, kSecondsMin, kSecondsMax)) {
    return in.bad("period_s", spec.period_s, "seconds, 0.001 to 1e9");
  }
  const bool has_high = spec.kind == Kind::kMarkov || spec.kind == Kind::kSpikes;
  if (has_high && !in_range(spec.high, 0, 1000)) {
    return in.bad("high", spec.high, "a multiple of the rate, 0 to 1000");
  }
  double jumps_per_s = 0;
  if (spec.kind == Kind::kSpikes) {
    if (!(spec.spike_s >= kSecondsMin && spec.spike_s < spec.period_s)) {
      return in.bad("spike_s", spec.spike_s, "seconds, at least 0.001 and less than period_s");
    }
    jumps_per_s = 2 / spec.period_s;
  }
  if (spec.kind == Kind::kMarkov) {
    if (!in_range(spec.low_sojourn_s, kSecondsMin, kSecondsMax)) {
      return in.bad("low_sojourn_s", spec.low_sojourn_s, "seconds, 0.001 to 1e9");
    }
    if (!in_range(spec.high_sojourn_s, kSecondsMin, kSecondsMax)) {
      return in.bad("high_sojourn_s", spec.high_sojourn_s, "seconds, 0.001 to 1e9");
    }
    jumps_per_s = 2 / (spec.low_sojourn_s + spec.high_sojourn_s);
  }
  if (jumps_per_s > kStepsPerArrivalMax * mean_rate(spec)) {
    return in.bad("rate", spec.rate,
                  "high enough for at least one request in 1000 changes of the rate; raise it, or "
                  "give longer periods or sojourns");
  }
  return {};
}

ArrivalProcess::ArrivalProcess(const ArrivalSpec& spec, const Rng& rng) : spec_(spec), rng_(rng) {
  if (spec_.kind == ArrivalSpec::Kind::kMarkov) {
    // In the state of a process that has always been running.
    const double sojourns_s = spec_.low_sojourn_s + spec_.high_sojourn_s;
    high_ = rng_.uniform() < spec_.high_sojourn_s / sojourns_s;
    until_s_ = rng_.exponential() * (high_ ? spec_.high_sojourn_s : spec_.low_sojourn_s);
  } else if (spec_.kind == ArrivalSpec::Kind::kSpikes) {
    until_s_ = spec_.period_s - spec_.spike_s;
  }
}

double ArrivalProcess::next_s() {
  using Kind = ArrivalSpec::Kind;
  switch (spec_.kind) {
    case Kind::kPoisson:
      return now_s_ += rng_.exponential() / spec_.rate;
    case Kind::kGamma:
      return now_s_ = next_gamma();
    case Kind::kSinusoid:
      return now_s_ = next_sinusoid();
    case Kind::kMarkov:
    case Kind::kSpikes:
      return now_s_ = next_stepwise();
    case Kind::kProfile:
      return now_s_ = next_of_profile();
    case Kind::kAtOnce:
      break;
  }
  return 0;
}

double ArrivalProcess::next_gamma() {
  const double shape = 1 / (spec_.cv * spec_.cv);
  const double scale_s = 1 / (spec_.rate * shape);
  if (!first_) return now_s_ + scale_s * rng_.gamma(shape);
  // What is left, at a random moment, of a gap in a process that has always been running: a uniform
  // part of a gap drawn by its length. So the mean rate is `rate` from the first second on.
  first_ = false;
  const double part = rng_.uniform();
  return part * scale_s * rng_.gamma(shape + 1);
}

double ArrivalProcess::next_sinusoid() {
  // Thinning (Lewis and Shedler): candidates at the highest rate, each kept with rate/highest.
  const double highest = 1 + spec_.amplitude;
  double at_s = now_s_;
  for (;;) {
    at_s += rng_.exponential() / (spec_.rate * highest);
    const double phase = 2 * std::numbers::pi * std::fmod(at_s, spec_.period_s) / spec_.period_s;
    if (rng_.uniform() * highest < 1 + spec_.amplitude * std::sin(phase)) return at_s;
  }
}

double ArrivalProcess::next_stepwise() {
  // The integral of the rate from one arrival to the next is exponential.
  double left = rng_.exponential();
  double at_s = now_s_;
  for (;;) {
    const double rate = spec_.rate * (high_ ? spec_.high : 1);
    const double step = rate * (until_s_ - at_s);
    if (left < step) return at_s + left / rate;
    left -= step;
    at_s = until_s_;
    next_step();
  }
}

double ArrivalProcess::next_of_profile() {
  // As next_stepwise(); along a slope the integral is a quadratic in the time that passes.
  double left = rng_.exponential();
  double at_s = now_s_;
  const auto& points = spec_.profile;
  for (;;) {
    while (point_ + 1 < points.size() && points[point_ + 1].at_s <= at_s) ++point_;
    const double rate = rate_at(points, point_, at_s);
    if (point_ + 1 == points.size()) return rate > 0 ? at_s + left / rate : kNeverSeconds;
    const RatePoint& to = points[point_ + 1];
    const double length_s = to.at_s - at_s;
    const double requests = (rate + to.rate) / 2 * length_s;
    if (left < requests) {
      const double slope = (to.rate - rate) / length_s;
      const double root = std::sqrt(std::max(0.0, rate * rate + 2 * slope * left));
      return std::min(to.at_s, at_s + 2 * left / (rate + root));
    }
    left -= requests;
    at_s = to.at_s;
  }
}

void ArrivalProcess::next_step() {
  high_ = !high_;
  if (spec_.kind == ArrivalSpec::Kind::kMarkov) {
    until_s_ += rng_.exponential() * (high_ ? spec_.high_sojourn_s : spec_.low_sojourn_s);
    return;
  }
  if (high_) {
    until_s_ = period_begins_s_ + spec_.period_s;
  } else {
    period_begins_s_ += spec_.period_s;
    until_s_ = period_begins_s_ + spec_.period_s - spec_.spike_s;
  }
}

}  // namespace tailrace::simulate
