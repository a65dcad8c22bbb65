#include "predict/learning.h"

#include <algorithm>
#include <cmath>

#include "predict/log_t_score.h"
#include "tailrace/core/check.h"

namespace tailrace::predict {
namespace {

constexpr double kMuMin = -2, kMuMax = 16;
constexpr double kSigmaMin = 0.03, kSigmaMax = 3;

}  // namespace

std::optional<double> learnable(const Observation& observation) {
  constexpr std::int64_t kLongest = 1'000'000'000;
  const std::int64_t tokens = observation.length.count();
  if (observation.running) return std::nullopt;  // its end will say more
  if (tokens < 0 || (observation.censored && tokens == 0)) return std::nullopt;
  return log_length(static_cast<double>(std::min(tokens, kLongest)));
}

Law bounded(const Law& law) {
  static const double low = std::log(kSigmaMin), high = std::log(kSigmaMax);
  return {std::clamp(law.mu, kMuMin, kMuMax), std::clamp(law.log_sigma, low, high)};
}

Prediction to_prediction(const Law& law, bool calibrated) {
  const double mu = std::clamp(law.mu, kMuMin, kMuMax);
  const double sigma = std::clamp(std::exp(law.log_sigma), kSigmaMin, kSigmaMax);
  auto made = length::LengthLaw::log_t(mu, sigma, kNu);
  TAILRACE_CHECK(made.has_value());  // both parameters were just clamped
  return {*made, calibrated};
}

PredictorOptions sane(PredictorOptions options) {
  if (!std::isfinite(options.prior_mu)) options.prior_mu = 5;
  if (!std::isfinite(options.prior_sigma)) options.prior_sigma = 1;
  options.prior_mu = std::clamp(options.prior_mu, kMuMin, kMuMax);
  options.prior_sigma = std::clamp(options.prior_sigma, kSigmaMin, kSigmaMax);
  options.table_bits = std::clamp(options.table_bits, 8, 24);
  options.min_samples = std::max(options.min_samples, 1);
  return options;
}

tl::unexpected<Error> damaged_payload() {
  return fail(ErrorCode::kDataLoss,
              "predictor image: its values are out of range; delete the file to learn afresh");
}

}  // namespace tailrace::predict
