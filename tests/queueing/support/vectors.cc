#include "queueing/support/vectors.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tailrace::queueing::testing {
namespace {

const boost::json::value* find(const boost::json::object& object, std::string_view name) {
  const auto dot = name.find('.');
  const auto* value = object.if_contains(name.substr(0, dot));
  if (dot == std::string_view::npos || value == nullptr) return value;
  return find(value->as_object(), name.substr(dot + 1));
}

double number(const std::string& id, const boost::json::object& object, std::string_view name) {
  const auto* value = find(object, name);
  if (value == nullptr) throw std::runtime_error(id + " has no " + std::string(name));
  return value->to_number<double>();
}

bool named(std::string_view id, std::string_view prefix) {
  if (!id.starts_with(prefix)) return false;
  return id.size() == prefix.size() || std::isdigit(static_cast<unsigned char>(id[prefix.size()]));
}

}  // namespace

double Vector::in(std::string_view name) const {
  return number(id, inputs, name);
}
double Vector::want(std::string_view name) const {
  return number(id, expected, name);
}
bool Vector::wants(std::string_view name) const {
  return find(expected, name) != nullptr;
}

IterationModel Vector::iteration() const {
  return {.alpha_ms = in("alpha"), .beta_ms = in("beta"), .gamma_ms = in("gamma")};
}

Workload Vector::workload() const {
  const double rate = inputs.contains("lambda_rps") ? in("lambda_rps") : 0;
  return Workload::of(rate, in("in_"), in("out"));
}

ServiceModel Vector::closed_form() const {
  ServiceModel model;
  model.mode = Mode::kClosedForm;
  model.iteration = iteration();
  return model;
}

ServiceModel Vector::chain() const {
  ServiceModel model = closed_form();
  model.mode = Mode::kChain;
  model.limits.max_num_seqs = static_cast<std::int64_t>(in("max_batch"));
  if (inputs.contains("max_queue")) {
    model.limits.max_queue = static_cast<std::int64_t>(in("max_queue"));
  }
  return model;
}

Targets Vector::targets() const {
  return {.ttft_ms = in("target_TTFT"), .itl_ms = in("target_ITL")};
}

std::optional<std::vector<Vector>> vectors(std::string_view prefix) {
  const char* folder = std::getenv("TAILRACE_SHARED");
  const auto root = folder != nullptr ? std::filesystem::path(folder)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  std::ifstream file(root / "vectors/queueing.json");
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  std::vector<Vector> rows;
  const auto document = boost::json::parse(text.str());
  for (const auto& row : document.at("vectors").as_array()) {
    Vector vector{std::string(row.at("id").as_string()), row.at("inputs").as_object(),
                  row.at("expected").as_object()};
    if (named(vector.id, prefix)) rows.push_back(std::move(vector));
  }
  return rows;
}

IterationModel llama_8b_h100() {
  return {.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5};
}

IterationModel qwen_14b_h100() {
  return {.alpha_ms = 10.645377, .beta_ms = 0.041760195, .gamma_ms = 5.770509e-5};
}

double relative_error(double actual, double expected) {
  const double error = std::fabs(actual - expected);
  return expected == 0 ? error : error / std::fabs(expected);
}

}  // namespace tailrace::queueing::testing
