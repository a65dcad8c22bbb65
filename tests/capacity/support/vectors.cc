#include "capacity/support/vectors.h"

#include <cstdlib>

#include "tailrace/core/text.h"

namespace tailrace::testing {

double number(const boost::json::value& value) {
  return value.to_number<double>();
}

double Vector::in(const char* key) const {
  return number(inputs.at(key));
}

double Vector::out(const char* key) const {
  return number(expected.at(key));
}

std::string shared_path(const std::string& below) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string(TAILRACE_SOURCE_DIR "/../shared")) +
         "/" + below;
}

std::vector<Vector> queueing_vectors(const std::string& prefix) {
  std::vector<Vector> rows;
  const auto text = core::read_file(shared_path("vectors/queueing.json"), std::size_t{16} << 20);
  if (!text) return rows;
  const auto document = boost::json::parse(*text);
  for (const auto& row : document.at("vectors").as_array()) {
    const std::string id(row.at("id").as_string());
    if (!id.starts_with(prefix)) continue;
    rows.push_back({id, row.at("inputs").as_object(), row.at("expected").as_object()});
  }
  return rows;
}

}  // namespace tailrace::testing
