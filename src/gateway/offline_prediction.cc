#include "gateway/offline_prediction.h"

#include "gateway/admin_json.h"
#include "gateway/json_reading.h"
#include "gateway/request_reader.h"
#include "tailrace/core/text.h"
#include "tailrace/gateway/prediction_runner.h"

namespace tailrace::gateway {
namespace {

Result<Route> route_by_members(std::string_view body) {
  json::Reader reader(kJsonDepthMax);
  const auto root = reader.parse(body);
  if (!root) return fail(root.error());
  json::Object object;
  if (root->get(object) != simdjson::SUCCESS) {
    return fail(ErrorCode::kInvalidArgument, "the body must be a JSON object");
  }
  json::Element value;
  if (json::find(object, "prompt", value)) return Route::kCompletions;
  if (json::find(object, "input", value)) return Route::kResponses;
  if (json::find(object, "messages", value)) return Route::kChat;
  // An engine would refuse it; a law for a misspelt member would look like an answer.
  return fail(ErrorCode::kInvalidArgument,
              "the request holds no messages, prompt or input; give one of them");
}

Result<void> load(predict::Predictor& predictor, const PredictConfig& config) {
  if (config.model_file.empty()) return {};
  const auto image =
      core::read_regular_file(config.model_file, PredictionThreadOptions{}.model_bytes_max);
  if (!image) return fail(image.error().with_context(config.model_file));
  if (const auto loaded = predictor.load(*image); !loaded) {
    return fail(loaded.error().with_context(config.model_file));
  }
  return {};
}

}  // namespace

std::unique_ptr<predict::Predictor> make_predictor(const PredictConfig& config) {
  return config.predictor == PredictorKind::kOnline ? predict::make_online_predictor(config.options)
                                                    : predict::make_prior_predictor(config.options);
}

Result<predict::RequestFeatures> features_of(std::string_view body, std::string_view tenant,
                                             const Config& config) {
  const auto route = route_by_members(body);
  if (!route) return fail(route.error());
  auto request = read_request(*route, body);
  if (!request) return fail(request.error());
  settle_cap(*request, config.model(request->model), config.predict.default_cap);
  request->features.tenant = tenant;
  return std::move(request->features);
}

Result<std::string> predict_offline(std::string_view body, std::string_view tenant,
                                    const Config& config) {
  const auto features = features_of(body, tenant, config);
  if (!features) return fail(features.error());
  const auto predictor = make_predictor(config.predict);
  if (const auto loaded = load(*predictor, config.predict); !loaded) return fail(loaded.error());
  const auto answer = explained(*predictor, *features);
  if (!answer) return fail(ErrorCode::kInternal, "the predictor has no law for this request");
  return prediction_json(*features, *answer,
                         answer->prediction.calibrated && config.predict.mode == PredictMode::kOn);
}

}  // namespace tailrace::gateway
