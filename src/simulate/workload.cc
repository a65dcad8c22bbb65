#include "tailrace/simulate/workload.h"

#include <algorithm>
#include <cmath>

#include "simulate/trace_workload.h"
#include "tailrace/length/sample.h"

namespace tailrace::simulate {
namespace {

class Generated final : public Workload {
 public:
  Generated(const WorkloadSpec& spec, const Rng& rng)
      : spec_(spec), gaps_(rng.fork("arrivals")), lengths_(rng.fork("lengths")) {}

  Result<bool> next(Request& out) override {
    const ArrivalSpec& a = spec_.arrivals;
    if (a.count && made_ >= *a.count) return false;
    if (a.kind != ArrivalSpec::Kind::kAtOnce) now_s_ += gaps_.exponential() / a.rate;
    if (a.duration_s && now_s_ >= *a.duration_s) return false;
    out = Request{};
    out.id = made_++;
    out.arrival = MonoTime{from_seconds(now_s_)};
    out.prompt = Tokens(static_cast<std::int64_t>(spec_.prompts.mean));
    const LengthSpec& l = spec_.lengths;
    out.cap = Tokens(l.cap);
    const double z1 = lengths_.normal();
    const double z2 = lengths_.normal();
    const double mu = l.mu_mean + l.mu_sd * z1;
    const double along = l.correlation * z1 + std::sqrt(1 - l.correlation * l.correlation) * z2;
    const double sigma = l.sigma_median * std::exp(l.sigma_spread * along);
    auto law = length::LengthLaw::log_t(mu, sigma, l.nu);
    if (!law) return fail(law.error());
    out.truth = *law;
    const double drawn = std::ceil(length::sample(*law, lengths_));
    out.output = Tokens(static_cast<std::int64_t>(
        std::clamp(drawn, static_cast<double>(l.least), static_cast<double>(l.cap))));
    return true;
  }

 private:
  WorkloadSpec spec_;
  Rng gaps_;
  Rng lengths_;
  std::uint64_t made_ = 0;
  double now_s_ = 0;
};

}  // namespace

Result<std::unique_ptr<Workload>> make_workload(const WorkloadSpec& spec, const Rng& rng) {
  if (spec.trace) return make_trace_workload(*spec.trace, rng);
  return std::make_unique<Generated>(spec, rng);
}

}  // namespace tailrace::simulate
