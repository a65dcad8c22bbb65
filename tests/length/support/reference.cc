#include "length/support/reference.h"

#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tailrace::length::testing {
namespace {

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) out.push_back(cell);
  return out;
}

Row numbers(const simdjson::dom::element& object) {
  Row row;
  for (const auto field : simdjson::dom::object(object)) {
    double value = 0;
    if (field.value.get(value) == simdjson::SUCCESS) row[std::string(field.key)] = value;
  }
  return row;
}

std::vector<double> list(const simdjson::dom::element& array) {
  std::vector<double> out;
  for (const auto item : simdjson::dom::array(array)) out.push_back(double(item));
  return out;
}

LengthLaw law_of(const simdjson::dom::element& spec) {
  const std::string_view family = spec["family"];
  if (family == "mixture") {
    return LengthLaw::mixture(double(spec["weight"]), law_of(spec["first"]), law_of(spec["second"]))
        .value();
  }
  if (family == "binned") {
    return LengthLaw::binned(list(spec["edges"]), list(spec["masses"])).value();
  }
  const std::vector<double> p = list(spec["parameters"]);
  if (family == "log-t") return LengthLaw::log_t(p.at(0), p.at(1), p.at(2)).value();
  if (family == "log-normal") return LengthLaw::log_normal(p.at(0), p.at(1)).value();
  if (family == "gamma") return LengthLaw::gamma(p.at(0), p.at(1)).value();
  if (family == "weibull") return LengthLaw::weibull(p.at(0), p.at(1)).value();
  if (family == "exponential") return LengthLaw::exponential(p.at(0)).value();
  if (family == "lomax") return LengthLaw::lomax(p.at(0), p.at(1)).value();
  throw std::runtime_error("unknown family " + std::string(family));
}

void append(std::vector<Row>& rows, const simdjson::dom::element& list) {
  for (const auto item : simdjson::dom::array(list)) rows.push_back(numbers(item));
}

}  // namespace

std::vector<Row> golden_rows(const std::string& name) {
  const auto path = std::filesystem::path(TAILRACE_SOURCE_DIR) / "tests/length/golden" / name;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error("cannot read " + path.string());
  const auto names = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const auto values = cells(line);
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = std::stod(values.at(i));
    rows.push_back(row);
  }
  return rows;
}

std::vector<FamilyRow> family_rows() {
  const auto path =
      std::filesystem::path(TAILRACE_SOURCE_DIR) / "tests/length/golden/families.json";
  simdjson::dom::parser parser;
  const simdjson::dom::element document = parser.load(path.string());
  std::vector<FamilyRow> rows;
  for (const auto item : simdjson::dom::array(document)) {
    rows.push_back({law_of(item), numbers(item)});
  }
  return rows;
}

std::optional<SharedVectors> shared_vectors() {
  const char* folder = std::getenv("TAILRACE_SHARED");
  const auto root = folder != nullptr ? std::filesystem::path(folder)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  const auto path = root / "vectors/scheduling.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  simdjson::dom::parser parser;
  const simdjson::dom::element document = parser.load(path.string());
  SharedVectors vectors;
  vectors.constants = numbers(document["constants"]);
  append(vectors.t_survival, document["constants"]["t_sf_at"]);
  append(vectors.moments, document["vectors"]);
  append(vectors.moments, document["vectors_other_nu"]);
  append(vectors.whole, document["residual_and_gittins"]["rows"]);
  for (const auto item : simdjson::dom::array(document["mle"])) {
    FitExample example{
        {}, numbers(item["fixed_nu"]), numbers(item["free_nu"]), numbers(item["lognormal"])};
    for (const auto value : simdjson::dom::array(item["samples"])) {
      example.samples.push_back(static_cast<double>(value.get_int64().value()));
    }
    vectors.mle.push_back(std::move(example));
  }
  return vectors;
}

double relative_error(double actual, double expected) {
  return std::fabs(actual / expected - 1);
}

}  // namespace tailrace::length::testing
