// Do the predicted laws mean what they say, and do they order answers better than chance?
//
// Judges every law by the length that came out, before that length is learned from: a running
// correction of location and scale keeps coverage honest, and the recent window decides whether to
// trust. A predictor whose medians do not rank the realised lengths (no skill, however well
// calibrated) is not trusted: order then falls back to arrival. One thread; 0.5 µs to correct,
// about 2 µs to judge.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "predict/hierarchical_prior.h"
#include "predict/image.h"

namespace tailrace::predict {

/// What was said of one answer, and how it came out.
struct Outcome {
  double said = 0;    ///< ln of the median
  double y = 0;       ///< log length that came out
  double inside = 0;  ///< of the central 80 % interval; a probability where cut or between atoms
  bool censored = false;
};

class Calibration {
 public:
  explicit Calibration(int min_samples) : min_samples_(min_samples) {}

  Law correct(const Law& raw) const;
  /// `raw` is what was predicted for this answer before anyone knew it.
  void judge(const Law& raw, double y, bool censored);

  /// The two parts of `judge`: the correction learns, with `weight` in (0, 1]; the window remembers
  /// how the law that was given came out.
  void adjust(const Law& raw, double y, bool censored, double weight);
  /// `presumed` is taken for the decision before the first one: what is doubtful leaves it.
  void remember(const Outcome& outcome, bool presumed = false);
  /// Of the corrected law itself.
  Outcome outcome(const Law& raw, double y, bool censored) const;

  bool trusted() const { return trusted_; }
  bool decided() const;     ///< enough samples to say whether to trust
  double coverage() const;  ///< of the central 80 % interval, over the window
  double concordance()
      const;  ///< share of pairs in the window that the medians rank rightly; ties ½

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kWindow = 512;

 private:
  struct Judged {
    float mu = 0;
    float y = 0;
    float inside = 0;
    bool censored = false;
  };

  void push(const Judged& judged);
  void count_pairs(const Judged& judged, std::int64_t sign);
  void decide(bool before);

  int min_samples_;
  double shift_ = 0;  // in units of sigma
  double log_scale_ = 0;
  double corrected_ = 0;       // observations behind the correction
  std::uint64_t samples_ = 0;  // outcomes ever remembered
  std::vector<Judged> window_;
  std::size_t oldest_ = 0;
  std::int64_t half_wins_ = 0;  // 2 per pair ranked rightly, 1 per tie; exact, so it never drifts
  std::int64_t pairs_ = 0;
  bool trusted_ = false;
};

/// A calibration for each served model and one for all of them, which answers for a model that has
/// too few answers of its own, and decides where the model's first own evidence is doubtful. At
/// most kModels; a new model takes the place of the least used.
class ModelCalibration {
 public:
  explicit ModelCalibration(int min_samples) : min_samples_(min_samples), all_(min_samples) {}

  Law correct(std::string_view model, const Law& raw) const;
  bool trusted(std::string_view model) const;
  void adjust(std::string_view model, const Law& raw, double y, bool censored, double weight);
  void remember(std::string_view model, const Outcome& outcome);
  Outcome outcome(std::string_view model, const Law& raw, double y, bool censored) const;

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kModels = 64;

 private:
  struct Model {
    std::uint64_t key = 0;
    std::uint32_t credit = 0;
    Calibration calibration;
  };
  const Calibration& of(std::string_view model) const;
  Calibration* find_or_claim(std::string_view model);

  int min_samples_;
  Calibration all_;
  std::vector<Model> models_;
};

}  // namespace tailrace::predict
