#include "tune/support/vectors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace tailrace::tune::testing {
namespace {

using Use = std::function<void(std::string_view, simdjson::dom::element, simdjson::dom::element)>;

void for_each(const std::filesystem::path& path, std::string_view group, const Use& use) {
  simdjson::dom::parser parser;
  const simdjson::dom::element document = parser.load(path.string());
  std::size_t found = 0;
  for (const simdjson::dom::element row : simdjson::dom::array(document["vectors"])) {
    if (std::string_view(row["group"]) != group) continue;
    ++found;
    use(std::string_view(row["id"]), row["inputs"], row["expected"]);
  }
  EXPECT_GT(found, 0U) << "no vector of the group " << group << " in " << path;
}

}  // namespace

bool for_each_shared_vector(std::string_view group, const Use& use) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const auto root = shared != nullptr ? std::filesystem::path(shared)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  const auto path = root / "vectors/queueing.json";
  if (!std::filesystem::exists(path)) return false;
  for_each(path, group, use);
  return true;
}

void for_each_golden_vector(std::string_view group, const Use& use) {
  for_each(std::filesystem::path(TAILRACE_SOURCE_DIR) / "tests/tune/golden/kalman.json", group,
           use);
}

}  // namespace tailrace::tune::testing
