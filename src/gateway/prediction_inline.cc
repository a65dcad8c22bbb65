#include <memory>
#include <utility>

#include "tailrace/gateway/prediction_runner.h"

namespace tailrace::gateway {
namespace {

class InlinePredictionRunner final : public PredictionRunner {
 public:
  InlinePredictionRunner(net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor)
      : loop_(loop), predictor_(std::move(predictor)), handlers_(std::make_shared<Handlers>()) {}

  void on_result(OnResult handler) override { handlers_->result = std::move(handler); }
  void on_explained(OnExplained handler) override { handlers_->explained = std::move(handler); }

  bool predict(JobId id, predict::RequestFeatures features) override {
    auto predictions = predictor_->predict({&features, 1});
    if (predictions.empty()) return true;
    // Posted, because a result never arrives inside the call that asked for it.
    loop_.post([weak = std::weak_ptr(handlers_), id, prediction = predictions.front()] {
      if (auto handlers = weak.lock(); handlers && handlers->result) {
        handlers->result(id, prediction);
      }
    });
    return true;
  }

  bool explain(JobId id, predict::RequestFeatures features) override {
    auto answer = explained(*predictor_, features);
    if (!answer) return true;
    loop_.post([weak = std::weak_ptr(handlers_), id, answer = std::move(*answer)] {
      if (auto handlers = weak.lock(); handlers && handlers->explained) {
        handlers->explained(id, answer);
      }
    });
    return true;
  }

  void forget(JobId) override {}

  bool observe(predict::RequestFeatures features, predict::Observation observation) override {
    predictor_->observe(features, observation);
    return true;
  }

  std::uint64_t dropped() const override { return 0; }

 private:
  struct Handlers {
    OnResult result;
    OnExplained explained;
  };
  net::EventLoop& loop_;
  std::unique_ptr<predict::Predictor> predictor_;
  std::shared_ptr<Handlers> handlers_;
};

}  // namespace

std::optional<ExplainedPrediction> explained(predict::Predictor& predictor,
                                             const predict::RequestFeatures& features) {
  auto predictions = predictor.predict({&features, 1});
  if (predictions.empty()) return std::nullopt;
  return ExplainedPrediction{std::move(predictions.front()),
                             predictor.explain(features, kInfluencesMax)};
}

std::unique_ptr<PredictionRunner> make_inline_prediction_runner(
    net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor) {
  return std::make_unique<InlinePredictionRunner>(loop, std::move(predictor));
}

}  // namespace tailrace::gateway
