#include "capacity/support/vectors.h"

#include <algorithm>
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

namespace {

std::vector<Vector> all_vectors() {
  std::vector<Vector> rows;
  const auto text = core::read_file(shared_path("vectors/queueing.json"), std::size_t{16} << 20);
  if (!text) return rows;
  const auto document = boost::json::parse(*text);
  for (const auto& row : document.at("vectors").as_array()) {
    rows.push_back({std::string(row.at("id").as_string()), std::string(row.at("group").as_string()),
                    row.at("inputs").as_object(), row.at("expected").as_object()});
  }
  return rows;
}

}  // namespace

std::vector<Vector> queueing_vectors(const std::string& prefix) {
  auto rows = all_vectors();
  std::erase_if(rows, [&prefix](const Vector& row) { return !row.id.starts_with(prefix); });
  return rows;
}

std::vector<Vector> queueing_vectors_of(const std::set<std::string>& parts) {
  auto rows = all_vectors();
  std::erase_if(rows, [&parts](const Vector& row) {
    return std::none_of(parts.begin(), parts.end(), [&row](const std::string& part) {
      return row.group.find(part) != std::string::npos;
    });
  });
  return rows;
}

}  // namespace tailrace::testing
