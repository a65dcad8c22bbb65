#include <memory>
#include <utility>

#include "tailrace/gateway/prediction_runner.h"

namespace tailrace::gateway {
namespace {

class InlinePredictionRunner final : public PredictionRunner {
 public:
  InlinePredictionRunner(net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor)
      : loop_(loop), predictor_(std::move(predictor)), handler_(std::make_shared<OnResult>()) {}

  void on_result(OnResult handler) override { *handler_ = std::move(handler); }

  bool predict(JobId id, predict::RequestFeatures features) override {
    auto predictions = predictor_->predict({&features, 1});
    if (predictions.empty()) return true;
    // Posted, because a result never arrives inside the call that asked for it.
    loop_.post([weak = std::weak_ptr<OnResult>(handler_), id, prediction = predictions.front()] {
      if (auto handler = weak.lock(); handler && *handler) (*handler)(id, prediction);
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
  net::EventLoop& loop_;
  std::unique_ptr<predict::Predictor> predictor_;
  std::shared_ptr<OnResult> handler_;
};

}  // namespace

std::unique_ptr<PredictionRunner> make_inline_prediction_runner(
    net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor) {
  return std::make_unique<InlinePredictionRunner>(loop, std::move(predictor));
}

}  // namespace tailrace::gateway
