#include <algorithm>
#include <cmath>
#include <string>

#include "predict/calibration.h"
#include "predict/explain.h"
#include "predict/hierarchical_prior.h"
#include "predict/learning.h"
#include "predict/linear_model.h"
#include "predict/output_law.h"
#include "predict/request_text.h"
#include "predict/tenant_shares.h"
#include "tailrace/core/rng.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

constexpr std::string_view kKind = "online";
constexpr std::uint32_t kVersion = 4;

/// How the given law came out: atoms and cut answers count by the share of them that lies inside.
Outcome outcome(const Bins& law, double y, const Observation& observation) {
  constexpr double kLow = 0.1, kHigh = 0.9;
  const auto tokens = static_cast<double>(std::max<std::int64_t>(observation.length.count(), 1));
  const double from = cumulative(law, observation.censored ? tokens : tokens - 1);
  const double to = observation.censored ? 1 : cumulative(law, tokens);
  const double inside = std::min(to, kHigh) - std::max(from, kLow);
  return {std::log(quantile(law, 0.5)), y, to > from ? std::max(inside, 0.0) / (to - from) : 0.0,
          observation.censored};
}

class OnlinePredictor final : public Predictor {
 public:
  explicit OnlinePredictor(const PredictorOptions& options)
      : options_(options),
        prior_(options.prior_mu, options.prior_sigma),
        model_(options.table_bits),
        calibration_(options.min_samples),
        output_(options) {
    features_.reserve(kMaxFeatures);
  }

  std::string_view name() const override { return kKind; }

  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    predictions.reserve(batch.size());
    for (const RequestFeatures& request : batch) {
      extract_features(request, features_);
      const Law law = calibration_.correct(
          request.model,
          model_.predict(prior_.predict(request).mu, features_, stable_hash(request.tenant)));
      const bool trusted = calibration_.trusted(request.model);
      if (options_.output == Output::kLogT) {
        predictions.push_back(to_prediction(law, trusted));
      } else {
        predictions.push_back({to_length_law(output_.consult(request, bounded(law))), trusted});
      }
    }
    return predictions;
  }

  void observe(const RequestFeatures& request, const Observation& observation) override {
    if (observation.running) {
      if (observation.length.count() < 1) return;
      output_.learn_running(request, observation.length, observation.reported,
                            shares_.weight(request.tenant));
      return;
    }
    const auto y = learnable(observation);
    if (!y) return;
    if (observation.reported.count() > 0) {
      output_.take_back(request, observation.reported, shares_.weight(request.tenant));
    }
    const TenantShares::Share share = shares_.observe(request.tenant);
    extract_features(request, features_);
    const double base_mu = prior_.predict(request).mu;
    const Law raw = model_.predict(base_mu, features_, stable_hash(request.tenant));
    const Bins& bins = output_.consult(request, bounded(calibration_.correct(request.model, raw)));
    // First judged, then learned from.
    if (share.sampled) {
      calibration_.remember(request.model,
                            options_.output == Output::kLogT
                                ? calibration_.outcome(request.model, raw, *y, observation.censored)
                                : outcome(bins, *y, observation));
    }
    calibration_.adjust(request.model, raw, *y, observation.censored, share.weight);
    output_.learn(observation, share.weight);
    model_.learn(base_mu, features_, stable_hash(request.tenant), *y, observation.censored,
                 share.weight);
    prior_.observe(request, *y, observation.censored, share.weight);
  }

  std::vector<Influence> explain(const RequestFeatures& request, std::size_t limit) const override {
    return predict::explain(prior_, model_, request, limit);
  }

  std::string save() const override {
    ImageWriter out(kKind, kVersion);
    out.u8(static_cast<std::uint8_t>(options_.table_bits));
    prior_.write(out);
    calibration_.write(out);
    model_.write(out);
    output_.write(out);
    shares_.write(out);
    return std::move(out).finish();
  }

  Result<void> load(std::string_view image) override {
    auto in = ImageReader::open(image, kKind, kVersion);
    if (!in) return fail(in.error());
    const int bits = in->u8();
    if (in->ok() && bits != options_.table_bits) {
      return fail(ErrorCode::kUnsupported, "predictor image: learned with table_bits " +
                                               std::to_string(bits) + ", configured are " +
                                               std::to_string(options_.table_bits));
    }
    HierarchicalPrior prior = prior_;
    ModelCalibration calibration = calibration_;
    LinearModel model(options_.table_bits);
    auto output = std::make_unique<OutputLaw>(options_);
    TenantShares shares;
    if (!prior.read(*in) || !calibration.read(*in) || !model.read(*in) || !output->read(*in) ||
        !shares.read(*in) || !in->complete()) {
      return damaged_payload();
    }
    prior_ = std::move(prior);
    calibration_ = std::move(calibration);
    model_ = std::move(model);
    output_ = std::move(*output);
    shares_ = std::move(shares);
    return {};
  }

 private:
  PredictorOptions options_;
  HierarchicalPrior prior_;
  LinearModel model_;
  ModelCalibration calibration_;
  OutputLaw output_;
  TenantShares shares_;
  FeatureList features_;
};

}  // namespace

std::unique_ptr<Predictor> make_online_predictor(const PredictorOptions& options) {
  return std::make_unique<OnlinePredictor>(sane(options));
}

}  // namespace tailrace::predict
