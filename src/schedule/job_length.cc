#include "schedule/job_length.h"

#include <fmt/format.h>

#include "tailrace/length/binned.h"

namespace tailrace::schedule {
namespace {

struct UncappedMean {
  using Mean = std::optional<double>;
  Mean operator()(const length::LogNormal& l) const {
    return std::exp(l.mu + l.sigma * l.sigma / 2);
  }
  Mean operator()(const length::Gamma& l) const { return l.shape * l.scale; }
  Mean operator()(const length::Weibull& l) const { return l.scale * std::tgamma(1 + 1 / l.shape); }
  Mean operator()(const length::Exponential& l) const { return l.scale; }
  Mean operator()(const length::Lomax& l) const {
    if (l.shape <= 1) return std::nullopt;
    return l.scale / (l.shape - 1);
  }
  Mean operator()(const length::LogT&) const { return std::nullopt; }
  Mean operator()(const length::Binned&) const { return std::nullopt; }
  Mean operator()(const length::Mixture&) const { return std::nullopt; }
};

}  // namespace

double expected_length(const Job& job) {
  const double cap = cap_of(job);
  if (!job.law) return cap;
  const double mean = job.law->capped_moments_fast(cap).mean;
  return usable(mean) ? mean : cap;
}

std::optional<double> uncapped_mean(const length::LengthLaw& law) {
  const std::optional<double> mean = law.visit(UncappedMean{});
  return mean && usable(*mean) ? mean : std::nullopt;
}

std::string describe_law(const Job& job) {
  if (!job.law)
    return fmt::format("no prediction yet, so its cap of {} tokens counts", cap_of(job));
  return fmt::format("{}, cap {}", job.law->describe(), cap_of(job));
}

}  // namespace tailrace::schedule
