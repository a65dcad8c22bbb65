#include "tune/kalman_memory.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <limits>

#include "tune/json_numbers.h"
#include "tune/saved_state.h"

namespace tailrace::tune {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kDocumentBytesMax = 64 * 1024;
constexpr std::int64_t kRejectedMax = std::int64_t{1} << 53;

namespace dom = simdjson::dom;

tl::unexpected<Error> damaged(std::string_view what) {
  return damaged_state("kalman", what);
}

std::optional<double> number_in(const dom::object& object, std::string_view name, double low,
                                double high) {
  double value = 0;
  if (object[name].get(value) != simdjson::SUCCESS) return std::nullopt;
  if (!(value >= low && value <= high)) return std::nullopt;
  return value;
}

/// Exactly N finite numbers.
template <std::size_t N>
std::optional<std::array<double, N>> numbers(const dom::array& array) {
  if (array.size() != N) return std::nullopt;
  std::array<double, N> out{};
  std::size_t i = 0;
  for (const dom::element item : array) {
    double value = 0;
    if (item.get(value) != simdjson::SUCCESS || !std::isfinite(value)) return std::nullopt;
    out[i++] = value;
  }
  return out;
}

/// The list of that name.
template <std::size_t N>
std::optional<std::array<double, N>> numbers(const dom::object& object, std::string_view name) {
  dom::array array;
  if (object[name].get(array) != simdjson::SUCCESS) return std::nullopt;
  return numbers<N>(array);
}

Result<KalmanMemory::Parameters> read_parameters(const dom::object& root) {
  const auto state = numbers<3>(root, "parameters");
  if (!state || !((*state)[0] > 0 && (*state)[1] > 0 && (*state)[2] > 0)) {
    return damaged("`parameters` is no list of three numbers above 0");
  }
  const auto uncertainty = numbers<9>(root, "covariance");
  if (!uncertainty) return damaged("`covariance` is no list of nine numbers");
  return KalmanMemory::Parameters{*state, *uncertainty};
}

Result<CycleLengths> read_lengths(const dom::object& root) {
  dom::object lengths;
  if (root["lengths"].get(lengths) != simdjson::SUCCESS) return damaged("`lengths` is no object");
  // Means over pods may round a little out of what the pods themselves may be.
  const double most = std::numeric_limits<double>::max();
  const auto input = number_in(lengths, "input", 0, most);
  const auto output = number_in(lengths, "output", 1, most);
  const auto input_cv = number_in(lengths, "input_cv", 0, most);
  const auto output_cv = number_in(lengths, "output_cv", 0, most);
  const auto prefix_hit = number_in(lengths, "prefix_hit", 0, 1);
  if (!input || !output || !input_cv || !output_cv || !prefix_hit) {
    return damaged("`lengths` lacks a number, or one is out of range");
  }
  return CycleLengths{*input, *output, *input_cv, *output_cv, *prefix_hit};
}

bool is_null(const simdjson::simdjson_result<dom::element>& element) {
  return element.error() == simdjson::SUCCESS && element.value_unsafe().is_null();
}

}  // namespace

std::string write_memory(const KalmanMemory& m) {
  std::string jacobians;
  for (const auto& jacobian : m.jacobians) {
    jacobians += (jacobians.empty() ? "" : ",") + json_list(jacobian);
  }
  const auto lengths =
      m.lengths ? fmt::format(
                      R"({{"input":{},"output":{},"input_cv":{},"output_cv":{},"prefix_hit":{}}})",
                      m.lengths->input, m.lengths->output, json_number(m.lengths->input_cv),
                      json_number(m.lengths->output_cv), json_number(m.lengths->prefix_hit))
                : "null";
  return fmt::format(
      R"({{"estimator":"kalman","version":{},"parameters":{},"covariance":{},"lengths":{},)"
      R"("jacobians":[{}],"rejected_in_a_row":{}}})",
      kVersion, m.parameters ? json_list(m.parameters->state) : "null",
      m.parameters ? json_list(m.parameters->uncertainty) : "null", lengths, jacobians,
      m.rejected_in_a_row);
}

Result<KalmanMemory> read_memory(std::string_view document) {
  dom::parser parser;
  const auto opened = open_state(parser, document, "kalman", kVersion, kDocumentBytesMax);
  if (!opened) return fail(opened.error());
  const dom::object& root = *opened;
  KalmanMemory memory;
  if (!is_null(root["parameters"]) || !is_null(root["covariance"])) {
    const auto parameters = read_parameters(root);
    if (!parameters) return fail(parameters.error());
    memory.parameters = *parameters;
  }
  if (!is_null(root["lengths"])) {
    const auto lengths = read_lengths(root);
    if (!lengths) return fail(lengths.error());
    memory.lengths = *lengths;
  }
  dom::array jacobians;
  if (root["jacobians"].get(jacobians) != simdjson::SUCCESS ||
      jacobians.size() > KalmanMemory::kJacobiansMax) {
    return damaged(
        fmt::format("`jacobians` is no list of at most {}", KalmanMemory::kJacobiansMax));
  }
  for (const dom::element item : jacobians) {
    dom::array cells;
    std::optional<std::array<double, 6>> jacobian;
    if (item.get(cells) == simdjson::SUCCESS) jacobian = numbers<6>(cells);
    if (!jacobian) return damaged("one of `jacobians` is no list of six numbers");
    memory.jacobians.push_back(*jacobian);
  }
  if (root["rejected_in_a_row"].get(memory.rejected_in_a_row) != simdjson::SUCCESS ||
      memory.rejected_in_a_row < 0 || memory.rejected_in_a_row > kRejectedMax) {
    return damaged("`rejected_in_a_row` is no count");
  }
  return memory;
}

}  // namespace tailrace::tune
