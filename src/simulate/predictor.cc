#include "tailrace/simulate/predictor.h"

#include <cmath>

namespace tailrace::simulate {
namespace {

class Known final : public LengthPredictor {
 public:
  Known(const PredictorSpec& spec, const LengthSpec& lengths, Rng rng)
      : spec_(spec), lengths_(lengths), rng_(std::move(rng)) {}

  std::optional<length::LengthLaw> predict(const Request& request) override {
    using Kind = PredictorSpec::Kind;
    if (spec_.kind == Kind::kNone) return std::nullopt;
    if (spec_.kind == Kind::kTrueLength) {
      return *length::LengthLaw::log_normal(std::log(static_cast<double>(request.output.count())),
                                            1e-3);
    }
    const length::LogT* law = request.truth ? request.truth->as_log_t() : nullptr;
    if (law == nullptr || spec_.kind == Kind::kOracleLaw) return request.truth;
    const double mu = shrunk(law->mu, lengths_.mu_mean, lengths_.mu_sd, spec_.r2_mu);
    const double log_sigma = shrunk(std::log(law->sigma), std::log(lengths_.sigma_median),
                                    lengths_.sigma_spread, spec_.r2_sigma);
    return *length::LengthLaw::log_t(mu, std::exp(log_sigma), law->nu);
  }

 private:
  /// The best linear estimate of R² r2: its errors are independent of itself.
  double shrunk(double value, double mean, double sd, double r2) {
    const double noise = rng_.normal();
    return mean + r2 * (value - mean) + std::sqrt(r2 * (1 - r2)) * sd * noise;
  }

  PredictorSpec spec_;
  LengthSpec lengths_;
  Rng rng_;
};

}  // namespace

Result<std::unique_ptr<LengthPredictor>> make_predictor(const PredictorSpec& spec,
                                                        const LengthSpec& lengths, const Rng& rng) {
  return std::make_unique<Known>(spec, lengths, rng.fork("predictor"));
}

}  // namespace tailrace::simulate
