#include "length/support/fit_vectors.h"

#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace tailrace::length::testing {
namespace {

using simdjson::dom::element;

std::vector<double> number_list(const element& list) {
  std::vector<double> out;
  for (const element item : simdjson::dom::array(list)) out.push_back(double(item));
  return out;
}

std::string text(const element& value) {
  const std::string_view view = value;
  return std::string(view);
}

KnownFit known(const LengthSample& sample, std::string name, const element& numbers) {
  KnownFit out{sample, std::move(name), {}, false};
  for (const auto field : simdjson::dom::object(numbers)) {
    double value = 0;
    if (field.value.get(value) == simdjson::SUCCESS) out.numbers[std::string(field.key)] = value;
    if (field.key == "at_bound") out.at_bound = bool(field.value);
  }
  return out;
}

}  // namespace

std::optional<MleVectors> shared_mle_vectors() {
  const char* folder = std::getenv("TAILRACE_SHARED");
  const auto root = folder != nullptr ? std::filesystem::path(folder)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  const auto path = root / "vectors/scheduling.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  simdjson::dom::parser parser;
  const element document = parser.load(path.string());
  MleVectors out;
  for (const element row : simdjson::dom::array(document["mle"])) {
    const std::string name = text(row["name"]);
    const LengthSample open{name, number_list(row["samples"]), {}};
    const LengthSample capped{name, open.lengths, double(row["generator"]["cap"])};
    for (const auto field : simdjson::dom::object(row)) {
      if (field.key == "fixed_nu" || field.key == "free_nu" || field.key == "lognormal") {
        out.fits.push_back(known(open, std::string(field.key), field.value));
      } else if (field.key == "censored_fixed_nu") {
        out.fits.push_back(known(capped, std::string(field.key), field.value));
      }
    }
  }
  for (const element row : simdjson::dom::array(document["mle_degeneracy"]["example"])) {
    if (!row["samples"].is_array()) continue;  // told in words: the test builds it
    const LengthSample sample{"near degenerate", number_list(row["samples"]), {}};
    out.near_degenerate.push_back(known(sample, "fixed_nu", row));
  }
  return out;
}

std::vector<KnownFit> golden_fits() {
  const auto path =
      std::filesystem::path(TAILRACE_SOURCE_DIR) / "tests/length/golden" / "fits.json";
  simdjson::dom::parser parser;
  const element document = parser.load(path.string());
  std::vector<KnownFit> out;
  for (const element row : simdjson::dom::array(document)) {
    LengthSample sample{text(row["id"]), number_list(row["lengths"]), {}};
    double cap = 0;
    if (row["cap"].get(cap) == simdjson::SUCCESS) sample.cap = cap;
    for (const auto field : simdjson::dom::object(row["fits"])) {
      out.push_back(known(sample, std::string(field.key), field.value));
    }
  }
  return out;
}

double loglik_of(const LengthLaw& law, const LengthSample& sample) {
  double sum = 0;
  for (const double length : sample.lengths) {
    sum +=
        std::log(sample.cap && length == *sample.cap ? law.survival(length) : law.density(length));
  }
  return sum;
}

}  // namespace tailrace::length::testing
