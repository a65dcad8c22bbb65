#include "gateway/response_reader.h"

#include "gateway/answer_reading.h"
#include "gateway/request_reader.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kModelNamesMax = 1000;
constexpr std::size_t kModelNameBytesMax = 512;

}  // namespace

AnswerFacts read_answer(Route route, std::string_view body) {
  AnswerFacts facts;
  if (body.size() > kAnswerBytesMax) return facts;
  json::Reader reader(kJsonDepthMax);
  const auto root = reader.parse(body);
  json::Object answer;
  if (root && root->get(answer) == simdjson::SUCCESS) note_answer(route, answer, facts);
  return facts;
}

std::vector<std::string> read_model_names(std::string_view body) {
  std::vector<std::string> names;
  if (body.size() > kAnswerBytesMax) return names;
  json::Reader reader(kJsonDepthMax);
  const auto root = reader.parse(body);
  json::Object answer;
  json::Array models;
  if (!root || root->get(answer) != simdjson::SUCCESS) return names;
  if (!json::find_array(answer, "data", models)) return names;
  for (const auto item : models) {
    json::Object model;
    std::string_view id;
    if (names.size() == kModelNamesMax) break;
    if (item.get(model) != simdjson::SUCCESS || !json::find_string(model, "id", id)) continue;
    if (!id.empty() && id.size() <= kModelNameBytesMax) names.emplace_back(id);
  }
  return names;
}

}  // namespace tailrace::gateway
