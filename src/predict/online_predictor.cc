#include <string>

#include "predict/calibration.h"
#include "predict/hierarchical_prior.h"
#include "predict/learning.h"
#include "predict/linear_model.h"
#include "predict/request_text.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

constexpr std::string_view kKind = "online";
constexpr std::uint32_t kVersion = 1;

class OnlinePredictor final : public Predictor {
 public:
  explicit OnlinePredictor(const PredictorOptions& options)
      : table_bits_(options.table_bits),
        prior_(options.prior_mu, options.prior_sigma),
        model_(options.table_bits),
        calibration_(options.min_samples) {
    features_.reserve(kMaxFeatures);
  }

  std::string_view name() const override { return kKind; }

  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    predictions.reserve(batch.size());
    for (const RequestFeatures& request : batch) {
      extract_features(request, features_);
      const Law raw = model_.predict(prior_.predict(request).mu, features_);
      predictions.push_back(to_prediction(calibration_.correct(raw), calibration_.trusted()));
    }
    return predictions;
  }

  void observe(const RequestFeatures& request, const Observation& observation) override {
    const auto y = learnable(observation);
    if (!y) return;
    extract_features(request, features_);
    const double base_mu = prior_.predict(request).mu;
    calibration_.judge(model_.predict(base_mu, features_), *y, observation.censored);
    model_.learn(base_mu, features_, *y, observation.censored);
    prior_.observe(request, *y, observation.censored);
  }

  std::string save() const override {
    ImageWriter out(kKind, kVersion);
    out.u8(static_cast<std::uint8_t>(table_bits_));
    prior_.write(out);
    calibration_.write(out);
    model_.write(out);
    return std::move(out).finish();
  }

  Result<void> load(std::string_view image) override {
    auto in = ImageReader::open(image, kKind, kVersion);
    if (!in) return fail(in.error());
    const int bits = in->u8();
    if (in->ok() && bits != table_bits_) {
      return fail(ErrorCode::kUnsupported, "predictor image: learned with table_bits " +
                                               std::to_string(bits) + ", configured are " +
                                               std::to_string(table_bits_));
    }
    HierarchicalPrior prior = prior_;
    Calibration calibration = calibration_;
    LinearModel model(table_bits_);
    if (!prior.read(*in) || !calibration.read(*in) || !model.read(*in) || !in->complete()) {
      return damaged_payload();
    }
    prior_ = std::move(prior);
    calibration_ = std::move(calibration);
    model_ = std::move(model);
    return {};
  }

 private:
  int table_bits_;
  HierarchicalPrior prior_;
  LinearModel model_;
  Calibration calibration_;
  FeatureList features_;
};

}  // namespace

std::unique_ptr<Predictor> make_online_predictor(const PredictorOptions& options) {
  return std::make_unique<OnlinePredictor>(sane(options));
}

}  // namespace tailrace::predict
