#include <cmath>

#include "predict/calibration.h"
#include "predict/hierarchical_prior.h"
#include "predict/learning.h"
#include "predict/log_t_score.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

constexpr std::string_view kKind = "prior";
constexpr std::uint32_t kVersion = 4;

class PriorPredictor final : public Predictor {
 public:
  explicit PriorPredictor(const PredictorOptions& options)
      : prior_(options.prior_mu, options.prior_sigma), calibration_(options.min_samples) {}

  std::string_view name() const override { return kKind; }

  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    predictions.reserve(batch.size());
    for (const RequestFeatures& features : batch) {
      predictions.push_back(
          to_prediction(calibration_.correct(prior_.predict(features)), calibration_.trusted()));
    }
    return predictions;
  }

  void observe(const RequestFeatures& features, const Observation& observation) override {
    const auto y = learnable(observation);
    if (!y) return;
    calibration_.judge(prior_.predict(features), *y, observation.censored);
    prior_.observe(features, *y, observation.censored);
  }

  std::string save() const override {
    ImageWriter out(kKind, kVersion);
    prior_.write(out);
    calibration_.write(out);
    return std::move(out).finish();
  }

  Result<void> load(std::string_view image) override {
    auto in = ImageReader::open(image, kKind, kVersion);
    if (!in) return fail(in.error());
    HierarchicalPrior prior = prior_;
    Calibration calibration = calibration_;
    if (!prior.read(*in) || !calibration.read(*in) || !in->complete()) return damaged_payload();
    prior_ = std::move(prior);
    calibration_ = std::move(calibration);
    return {};
  }

 private:
  HierarchicalPrior prior_;
  Calibration calibration_;
};

}  // namespace

std::unique_ptr<Predictor> make_prior_predictor(const PredictorOptions& options) {
  return std::make_unique<PriorPredictor>(sane(options));
}

}  // namespace tailrace::predict
