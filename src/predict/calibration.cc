#include "predict/calibration.h"

#include <algorithm>
#include <cmath>

#include "predict/log_t_score.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr double kCoverage = 0.8;
constexpr double kMemory = 400;   // observations that the correction remembers
constexpr double kStrength = 30;  // no correction counts as this many
constexpr double kMaxShift = 2, kMaxLogScale = 2;
// Trust is gained when skill is clearly there and lost when it is doubtful, so that it does not
// flicker.
constexpr double kGainDeviations = 3, kLoseDeviations = 1.5;
constexpr std::uint32_t kMaxCredit = 1000;
constexpr double kGainBand = 0.08, kLoseBand = 0.12;

double central_z() {
  static const double z = quantile_t(0.5 + kCoverage / 2);
  return z;
}

/// Whether an answer fell into the central interval; for a cut answer, how probably it would have.
double inside_central(double z, bool censored) {
  const double edge = central_z();
  if (!censored) return std::abs(z) <= edge ? 1 : 0;
  if (z >= edge) return 0;
  return (survival_t(std::max(z, -edge)) - survival_t(edge)) / survival_t(z);
}

}  // namespace

Law Calibration::correct(const Law& raw) const {
  return {raw.mu + shift_ * std::exp(raw.log_sigma), raw.log_sigma + log_scale_};
}

Outcome Calibration::outcome(const Law& raw, double y, bool censored) const {
  const Law law = correct(raw);
  const double z = (y - law.mu) / std::exp(law.log_sigma);
  return {law.mu, y, inside_central(z, censored), censored};
}

void Calibration::judge(const Law& raw, double y, bool censored) {
  const Outcome judged = outcome(raw, y, censored);
  adjust(raw, y, censored, 1);
  remember(judged);
}

void Calibration::adjust(const Law& raw, double y, bool censored, double weight) {
  const Law law = correct(raw);
  corrected_ = std::min(corrected_ + weight, kMemory);
  const Score s = score((y - law.mu) / std::exp(law.log_sigma), censored);
  const double rate = weight / (corrected_ + kStrength);
  const double shift = std::clamp(s.location / kLocationInformation, -3.0, 3.0);
  const double scale = std::clamp(s.log_scale / kLogScaleInformation, -2.0, 2.0);
  shift_ = std::clamp(shift_ + rate * shift * std::exp(log_scale_), -kMaxShift, kMaxShift);
  log_scale_ = std::clamp(log_scale_ + rate * scale, -kMaxLogScale, kMaxLogScale);
}

void Calibration::remember(const Outcome& outcome, bool presumed) {
  const bool before = decided() ? trusted_ : presumed;
  ++samples_;
  push({static_cast<float>(outcome.said), static_cast<float>(outcome.y),
        static_cast<float>(outcome.inside), outcome.censored});
  decide(before);
}

bool Calibration::decided() const {
  return samples_ >= static_cast<std::uint64_t>(std::max(min_samples_, 1));
}

void Calibration::push(const Judged& judged) {
  if (window_.size() < kWindow) {
    count_pairs(judged, 1);
    window_.push_back(judged);
    return;
  }
  const Judged gone = window_[oldest_];
  window_[oldest_].censored = true;  // a cut answer at −∞ ranks against nothing
  window_[oldest_].y = -1e30F;
  count_pairs(gone, -1);
  count_pairs(judged, 1);
  window_[oldest_] = judged;
  oldest_ = (oldest_ + 1) % kWindow;
}

void Calibration::count_pairs(const Judged& judged, std::int64_t sign) {
  std::int64_t half_wins = 0;
  std::int64_t pairs = 0;
  for (const Judged& other : window_) {
    // Known to differ only when the shorter one is complete.
    const bool shorter = !judged.censored && judged.y < other.y;
    const bool longer = !other.censored && other.y < judged.y;
    if (!shorter && !longer) continue;
    const float gap = shorter ? other.mu - judged.mu : judged.mu - other.mu;
    half_wins += gap > 0 ? 2 : (gap < 0 ? 0 : 1);
    ++pairs;
  }
  half_wins_ += sign * half_wins;
  pairs_ += sign * pairs;
}

double Calibration::coverage() const {
  if (window_.empty()) return 0;
  double inside = 0;
  for (const Judged& judged : window_) inside += static_cast<double>(judged.inside);
  return inside / static_cast<double>(window_.size());
}

double Calibration::concordance() const {
  if (pairs_ == 0) return 0.5;
  return 0.5 * static_cast<double>(half_wins_) / static_cast<double>(pairs_);
}

void Calibration::decide(bool before) {
  if (!decided()) {
    trusted_ = false;
    return;
  }
  const double n = static_cast<double>(window_.size());
  // Without skill Kendall's statistic has variance 4/(9n); concordance is half of it plus ½.
  const double skill_noise = std::sqrt(1 / (9 * n));
  const double coverage_noise = 2 * std::sqrt(kCoverage * (1 - kCoverage) / n);
  const double skill = (concordance() - 0.5) / skill_noise;
  const double off = std::abs(coverage() - kCoverage) - coverage_noise;
  trusted_ = before ? skill > kLoseDeviations && off < kLoseBand
                    : skill > kGainDeviations && off < kGainBand;
}

void Calibration::write(ImageWriter& out) const {
  out.f64(shift_);
  out.f64(log_scale_);
  out.f64(corrected_);
  out.u64(samples_);
  out.u8(trusted_ ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(window_.size()));
  for (std::size_t i = 0; i < window_.size(); ++i) {
    const Judged& judged = window_[(oldest_ + i) % window_.size()];
    out.f32(judged.mu);
    out.f32(judged.y);
    out.f32(judged.inside);
    out.u8(judged.censored ? 1 : 0);
  }
}

bool Calibration::read(ImageReader& in) {
  Calibration loaded(min_samples_);
  loaded.shift_ = in.f64_within(-kMaxShift, kMaxShift);
  loaded.log_scale_ = in.f64_within(-kMaxLogScale, kMaxLogScale);
  loaded.corrected_ = in.f64_within(0, kMemory);
  loaded.samples_ = in.u64();
  loaded.trusted_ = in.u8() == 1;
  const std::uint32_t count = in.u32();
  if (count > kWindow) return false;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Judged judged;
    judged.mu = in.f32_within(-1e3, 1e3);
    judged.y = in.f32_within(-1e3, 1e3);
    judged.inside = in.f32_within(0, 1);
    judged.censored = in.u8() == 1;
    loaded.push(judged);
  }
  if (!in.ok()) return false;
  *this = std::move(loaded);
  return true;
}

const Calibration& ModelCalibration::of(std::string_view model) const {
  const std::uint64_t key = stable_hash(model);
  for (const Model& m : models_) {
    if (m.key == key) return m.calibration.decided() ? m.calibration : all_;
  }
  return all_;
}

Calibration* ModelCalibration::find_or_claim(std::string_view name) {
  const std::uint64_t key = stable_hash(name);
  Model* poorest = nullptr;
  for (Model& model : models_) {
    if (model.key == key) {
      model.credit = std::min(model.credit + 1, kMaxCredit);
      return &model.calibration;
    }
    if (poorest == nullptr || model.credit < poorest->credit) poorest = &model;
  }
  if (models_.size() < kModels) {
    models_.push_back({key, 1, Calibration(min_samples_)});
    return &models_.back().calibration;
  }
  if (poorest->credit > 0) --poorest->credit;
  if (poorest->credit > 0) return nullptr;
  *poorest = {key, 1, Calibration(min_samples_)};
  return &poorest->calibration;
}

Law ModelCalibration::correct(std::string_view model, const Law& raw) const {
  return of(model).correct(raw);
}

bool ModelCalibration::trusted(std::string_view model) const {
  return of(model).trusted();
}

Outcome ModelCalibration::outcome(std::string_view model, const Law& raw, double y,
                                  bool censored) const {
  return of(model).outcome(raw, y, censored);
}

void ModelCalibration::adjust(std::string_view model, const Law& raw, double y, bool censored,
                              double weight) {
  all_.adjust(raw, y, censored, weight);
  if (Calibration* own = find_or_claim(model)) own->adjust(raw, y, censored, weight);
}

void ModelCalibration::remember(std::string_view model, const Outcome& outcome) {
  all_.remember(outcome);
  if (Calibration* own = find_or_claim(model)) own->remember(outcome, all_.trusted());
}

void ModelCalibration::write(ImageWriter& out) const {
  all_.write(out);
  out.u32(static_cast<std::uint32_t>(models_.size()));
  for (const Model& model : models_) {
    out.u64(model.key);
    out.u32(model.credit);
    model.calibration.write(out);
  }
}

bool ModelCalibration::read(ImageReader& in) {
  ModelCalibration loaded(min_samples_);
  if (!loaded.all_.read(in)) return false;
  const std::uint32_t count = in.u32();
  if (!in.ok() || count > kModels) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    Model model{in.u64(), std::min(in.u32(), kMaxCredit), Calibration(min_samples_)};
    if (!model.calibration.read(in)) return false;
    loaded.models_.push_back(std::move(model));
  }
  *this = std::move(loaded);
  return in.ok();
}

}  // namespace tailrace::predict
