#include "tailrace/tune/estimator.h"

#include <fmt/format.h>

#include <cmath>

#include "tailrace/core/text.h"
#include "tune/estimators.h"

namespace tailrace::tune {
namespace {

/// A prior this narrow leaves nothing to learn, one this wide says nothing.
constexpr double kLogSdMin = 1e-6, kLogSdMax = 100;

}  // namespace

std::string_view to_string(EstimatorKind kind) {
  return kind == EstimatorKind::kKalman ? "kalman" : "windowed";
}

Result<EstimatorKind> parse_estimator(std::string_view text) {
  for (const auto kind : {EstimatorKind::kKalman, EstimatorKind::kWindowed}) {
    if (to_string(kind) == text) return kind;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is no estimator; use kalman or windowed", core::quoted(text)));
}

Result<void> TuneConfig::check() const {
  queueing::ServiceModel model;
  model.iteration = {.alpha_ms = 1, .knee_tokens = knee_tokens};
  model.limits = limits;
  if (auto ok = model.check(); !ok) return ok;
  for (const auto& [name, value] : {std::pair{"ttft", ttft_ms}, std::pair{"itl", itl_ms}}) {
    if (value >= 0 && std::isfinite(value)) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is not a number of milliseconds of at least 0; 0 is no target",
                            name, value));
  }
  if (!prior) return {};
  if (prior->log_sd < kLogSdMin || prior->log_sd > kLogSdMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prior.log_sd: {} is not a number from {} to {}; leave the prior out "
                            "if nothing is known",
                            prior->log_sd, kLogSdMin, kLogSdMax));
  }
  for (const auto& [name, value] : {std::pair{"prior.alpha", prior->values.alpha_ms},
                                    {"prior.beta", prior->values.beta_ms},
                                    {"prior.gamma", prior->values.gamma_ms},
                                    {"prior.log_sd", prior->log_sd}}) {
    if (value > 0 && std::isfinite(value)) continue;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: {} is not a number above 0; leave the prior out if nothing is known", name,
                    value));
  }
  return {};
}

Result<std::unique_ptr<Estimator>> make_estimator(const TuneConfig& config) {
  if (const auto ok = config.check(); !ok) return fail(ok.error());
  return config.estimator == EstimatorKind::kKalman ? make_kalman(config) : make_windowed(config);
}

}  // namespace tailrace::tune
