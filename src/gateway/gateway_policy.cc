// Which order is in force: the configured policy where laws can be trusted, arrival otherwise.
#include <algorithm>
#include <utility>

#include "gateway/gateway_impl.h"
#include "tailrace/core/log.h"

namespace tailrace::gateway {
namespace {

/// So many uncalibrated predictions in a row mean that the predictor has lost its calibration; one
/// calibrated prediction means that it has it.
constexpr int kUncalibratedMax = 256;
constexpr Duration kAskedPredictionMax = std::chrono::seconds(5);
constexpr std::size_t kAskedPredictionsMax = 64;
constexpr std::string_view kArrivalOrder = "fcfs";

}  // namespace

Result<void> Gateway::Impl::set_policy(std::string_view name) {
  // Asked of the dispatcher, which knows the names; then put right for what is trusted.
  if (auto set = dispatcher.set_policy(name); !set) return set;
  effective_policy = name;
  configured_policy = name;
  log::info("policy_set", {{"policy", name}});
  apply_policy();
  return {};
}

void Gateway::Impl::apply_policy() {
  const std::string wanted = law_trusted ? configured_policy : std::string(kArrivalOrder);
  if (wanted == effective_policy) return;
  if (auto set = dispatcher.set_policy(wanted); !set) {
    log::warn("policy_not_set", {{"policy", wanted}, {"error", set.error().message}});
    return;
  }
  effective_policy = wanted;
  const std::string reason = policy().reason;
  log::info("policy_in_force", {{"policy", effective_policy},
                                {"configured", configured_policy},
                                {"reason", reason.empty() ? "as configured" : reason}});
  pump();
}

AdminActions::PolicyState Gateway::Impl::policy() const {
  PolicyState state{configured_policy, effective_policy, ""};
  if (configured_policy == effective_policy) return state;
  switch (config.predict.mode) {
    case PredictMode::kOff:
      state.reason = "predict.mode is off: without laws jobs go in the order of arrival";
      break;
    case PredictMode::kShadow:
      state.reason = "predict.mode is shadow: predictions are learned and measured, not used";
      break;
    case PredictMode::kOn:
      state.reason = "predictions are not calibrated yet: jobs go in the order of arrival";
      break;
  }
  return state;
}

void Gateway::Impl::saw_prediction(bool calibrated) {
  if (config.predict.mode != PredictMode::kOn || config.predict.accept_given_laws) return;
  uncalibrated_in_row = calibrated ? 0 : std::min(uncalibrated_in_row + 1, kUncalibratedMax);
  if (calibrated) {
    law_trusted = true;
  } else if (uncalibrated_in_row >= kUncalibratedMax) {
    law_trusted = false;
  }
  apply_policy();
}

void Gateway::Impl::predict(predict::RequestFeatures features,
                            UniqueFunction<void(Result<ExplainedPrediction>)> done) {
  if (!prediction) {
    done(fail(ErrorCode::kUnsupported, "predict.mode is off, so nothing is predicted"));
    return;
  }
  if (asked_predictions.size() >= kAskedPredictionsMax) {
    done(fail(ErrorCode::kResourceExhausted, "too many predictions are asked for at once"));
    return;
  }
  const JobId id = next_id();
  if (!prediction->explain(id, std::move(features))) {
    done(fail(ErrorCode::kResourceExhausted, "the predictor's inbox is full"));
    return;
  }
  auto deadline = loop.after(kAskedPredictionMax, [this, id] {
    auto node = asked_predictions.extract(id);
    if (node.empty()) return;
    node.mapped().done(fail(ErrorCode::kDeadlineExceeded, "the predictor did not answer in 5 s"));
  });
  asked_predictions.emplace(id, AskedPrediction{std::move(done), std::move(deadline)});
}

void Gateway::Impl::prediction_arrived(JobId id, const predict::Prediction& result) {
  if (const auto it = requests.find(id); it != requests.end()) {
    const auto request = it->second;
    request->predicted(result);
  }
}

void Gateway::Impl::explanation_arrived(JobId id, const ExplainedPrediction& result) {
  auto node = asked_predictions.extract(id);
  if (!node.empty()) node.mapped().done(result);
}

}  // namespace tailrace::gateway
