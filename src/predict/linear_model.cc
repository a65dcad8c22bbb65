#include "predict/linear_model.h"

#include <algorithm>
#include <cmath>

#include "predict/log_t_score.h"

namespace tailrace::predict {
namespace {

// Chosen by ablation (docs/decisions/0009-predictor-features.md); log score and order are flat
// within a factor of two around each.
constexpr double kWeightVariance = 0.03;  // of a weight about which nothing is known
// The share of it that every use gives back, so that drift is followed.
constexpr double kForgetting = 1e-5;
constexpr double kMaxMove = 1.0;  // of mu in one step
// The share of the weights' variance that widens sigma: the weights are correlated, so their sum
// overstates what is unknown.
constexpr double kDoubt = 0.1;
constexpr double kLogSigmaRate = 0.02;
constexpr double kLogSigmaMemory = 1000;
constexpr double kLogSigmaStrength = 20;
constexpr double kLogSigmaMin = -3, kLogSigmaMax = 1.2;
constexpr double kMaxWeight = 100, kMaxSquares = 1e6;
constexpr double kMaxOffset = 10;
constexpr double kMaxText = 1000;     // |sum of all parts| stays far below
constexpr double kMaxSlope = 3;       // of the per-model slope's input
constexpr double kTextMemory = 1000;  // answers over which the usual prompt is averaged

double clamp_log_sigma(double log_sigma) {
  return std::clamp(log_sigma, kLogSigmaMin, kLogSigmaMax);
}

float clamped(double value, double magnitude) {
  return static_cast<float>(std::clamp(value, -magnitude, magnitude));
}

bool of_the_prompt(std::size_t part) {
  switch (static_cast<Part>(part)) {
    case Part::kLength:
    case Part::kShape:
    case Part::kWords:
    case Part::kOpening:
    case Part::kPrompt:
    case Part::kCall:
      return true;
    default:
      return false;
  }
}

}  // namespace

LinearModel::LinearModel(int table_bits)
    : table_bits_(table_bits), weights_(std::size_t{1} << table_bits) {
  for (Weight& weight : weights_) weight.variance = static_cast<float>(kWeightVariance);
}

/// The factor with which a weight enters the location.
double LinearModel::input(const Sums& sums, const Feature& feature) const {
  const double x = static_cast<double>(feature.value);
  if (feature.part == Part::kModelSlope) return x * sums.slope;
  return x * sums.blend.factor(static_cast<std::size_t>(feature.part));
}

LinearModel::Sums LinearModel::sum(const FeatureList& features, std::uint64_t tenant) const {
  Sums sums;
  sums.blend = blends_.of(tenant);
  const Feature* slope = nullptr;
  std::array<double, Blend::kParts> variances{};
  for (const Feature& feature : features) {
    const Weight& weight = weights_[index(feature.hash)];
    const double x = static_cast<double>(feature.value);
    if (feature.part == Part::kModelSlope) {
      slope = &feature;
      continue;
    }
    const auto part = static_cast<std::size_t>(feature.part);
    sums.parts[part] += x * static_cast<double>(weight.mean);
    variances[part] += x * x * static_cast<double>(weight.variance);
    sums.log_sigma += x * static_cast<double>(weight.log_sigma);
  }
  for (std::size_t part = 0; part < Blend::kParts; ++part) {
    const double factor = sums.blend.factor(part);
    sums.parts[part] = std::clamp(sums.parts[part], -kMaxOffset, kMaxOffset);
    sums.variance += factor * factor * variances[part];
    if (of_the_prompt(part)) sums.text += factor * sums.parts[part];
  }
  sums.mean = sums.blend.sum(sums.parts);
  if (slope != nullptr) {
    const Weight& weight = weights_[index(slope->hash)];
    sums.slope = std::clamp(sums.text - usual_text_, -kMaxSlope, kMaxSlope);
    const double x = input(sums, *slope);
    sums.mean += x * static_cast<double>(weight.mean);
    sums.variance += x * x * static_cast<double>(weight.variance);
  }
  sums.mean = std::clamp(sums.mean, -kMaxOffset, kMaxOffset);
  sums.log_sigma = clamp_log_sigma(log_sigma_ + sums.log_sigma);
  return sums;
}

Law LinearModel::predict(double base_mu, const FeatureList& features, std::uint64_t tenant) const {
  const Sums sums = sum(features, tenant);
  const double variance = std::exp(2 * sums.log_sigma) + kDoubt * sums.variance;
  return {base_mu + sums.mean, clamp_log_sigma(0.5 * std::log(variance))};
}

std::vector<LinearModel::Shift> LinearModel::shifts(const FeatureList& features,
                                                    std::uint64_t tenant) const {
  const Sums sums = sum(features, tenant);
  std::vector<Shift> shifts;
  shifts.reserve(features.size());
  for (const Feature& feature : features) {
    const std::size_t place = index(feature.hash);
    shifts.push_back({place, input(sums, feature) * static_cast<double>(weights_[place].mean)});
  }
  return shifts;
}

void LinearModel::learn(double base_mu, const FeatureList& features, std::uint64_t tenant, double y,
                        bool censored, double weight) {
  const Sums sums = sum(features, tenant);
  const double residual = y - base_mu - sums.mean;
  samples_ += 1;
  blends_.learn(tenant, sums.parts, residual, std::exp(sums.log_sigma), censored, weight);
  move_location(features, sums, residual, censored, weight);
  move_scale(features, sums, residual, censored, weight);
  usual_text_ += weight * (sums.text - usual_text_) / std::min(samples_ + 1, kTextMemory);
}

// A Kalman step with one variance per weight. The observation counts with the information that its
// likelihood has at this residual: an outlier's is near zero, a cut answer's is what the cut tells.
void LinearModel::move_location(const FeatureList& features, const Sums& sums, double residual,
                                bool censored, double share) {
  const double sigma = std::sqrt(std::exp(2 * sums.log_sigma) + sums.variance);
  const Score s = score(residual / sigma, censored);
  const double information = s.curvature / (sigma * sigma);
  const double shrink = information / (1 + sums.variance * information);
  const double limit = kMaxMove / std::max(sums.variance, 1e-9);
  const double gain =
      std::clamp(s.location / sigma / (1 + sums.variance * information), -limit, limit);
  for (const Feature& feature : features) {
    Weight& weight = weights_[index(feature.hash)];
    const double own = feature.part == Part::kTenant ? 1 : share;
    const double x = input(sums, feature);
    const double v = static_cast<double>(weight.variance);
    weight.mean = clamped(static_cast<double>(weight.mean) + own * v * x * gain, kMaxWeight);
    const double left = std::max(v - own * v * v * x * x * shrink, 0.0);
    weight.variance = clamped(std::min(left + own * kForgetting * kWeightVariance, kWeightVariance),
                              kWeightVariance);
  }
}

void LinearModel::move_scale(const FeatureList& features, const Sums& sums, double residual,
                             bool censored, double share) {
  const double noise = std::exp(2 * sums.log_sigma);
  const double variance = noise + kDoubt * sums.variance;
  const Score s = score(residual / std::sqrt(variance), censored);
  // The chain rule through sigma² = noise + doubt; the score is clipped against outliers.
  const double gradient = std::clamp(s.log_scale, -2.0, 2.0) * noise / variance;
  const double rate = share / (std::min(samples_, kLogSigmaMemory) + kLogSigmaStrength);
  log_sigma_ = clamp_log_sigma(log_sigma_ + rate * gradient / kLogScaleInformation);
  for (const Feature& feature : features) {
    if (feature.part == Part::kModelSlope) continue;
    Weight& weight = weights_[index(feature.hash)];
    const double own = feature.part == Part::kTenant ? 1 : share;
    const double g = own * gradient * static_cast<double>(feature.value);
    const double squares = std::min(static_cast<double>(weight.squares) + g * g, kMaxSquares);
    weight.squares = static_cast<float>(squares);
    weight.log_sigma =
        clamped(static_cast<double>(weight.log_sigma) + kLogSigmaRate * g / std::sqrt(squares + 1),
                kMaxWeight);
  }
}

void LinearModel::write(ImageWriter& out) const {
  out.f64(log_sigma_);
  out.f64(samples_);
  out.f64(usual_text_);
  blends_.write(out);
  std::vector<float> values;
  values.reserve(weights_.size());
  for (float Weight::* member : kMembers) {
    values.clear();
    for (const Weight& weight : weights_) values.push_back(weight.*member);
    out.table(values);
  }
}

bool LinearModel::read(ImageReader& in) {
  log_sigma_ = in.f64_within(kLogSigmaMin, kLogSigmaMax);
  samples_ = in.f64_within(0, 1e18);
  usual_text_ = in.f64_within(-kMaxText, kMaxText);
  if (!blends_.read(in)) return false;
  std::vector<float> values(weights_.size());
  constexpr double kLimits[] = {kMaxWeight, kWeightVariance, kMaxWeight, kMaxSquares};
  for (std::size_t m = 0; m < std::size(kMembers) && in.ok(); ++m) {
    in.table(values, static_cast<float>(kLimits[m]));
    for (std::size_t i = 0; i < values.size(); ++i) weights_[i].*kMembers[m] = values[i];
  }
  for (const Weight& weight : weights_) {
    if (weight.variance < 0 || weight.squares < 0) return false;
  }
  return in.ok();
}

}  // namespace tailrace::predict
