#include "gateway/models.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tailrace::gateway {
namespace {

std::shared_ptr<Backend> backend(std::vector<std::string> models, std::string listed) {
  auto made = std::make_shared<Backend>();
  made->models = std::move(models);
  made->models_json = std::move(listed);
  return made;
}

TEST(Models, ListedOnesComeFirstThenConfiguredThenAwaitedOnesAndEachOnce) {
  const std::vector<std::shared_ptr<Backend>> backends{
      backend({"c", "a", "b"}, R"([{"id":"b"},{"id":"hidden"},{"id":"a","n":1},{"id":"b"}])"),
      backend({"a", "d"}, R"([{"id":"a","n":2}])")};
  const auto own = [](const std::string& id) {
    return R"({"id":")" + id + R"(","object":"model","created":0,"owned_by":"tailrace"})";
  };
  EXPECT_EQ(merged_models(backends, {"e", "d"}),
            R"({"object":"list","data":[{"id":"b"},{"id":"a","n":1},)" + own("c") + "," + own("d") +
                "," + own("e") + "]}");
  EXPECT_EQ(merged_model(backends, {"e"}, "a"), R"({"id":"a","n":1})");
  EXPECT_EQ(merged_model(backends, {"e"}, "e"), own("e"));
  EXPECT_EQ(merged_model(backends, {"e"}, "hidden"), std::nullopt);
}

// Quadratic in names this would take minutes.
TEST(Models, AHundredThousandNamesAreMergedAtOnce) {
  std::vector<std::string> names;
  std::string listed = "[";
  for (int i = 0; i < 100'000; ++i) {
    names.push_back("model-" + std::to_string(i));
    listed += (i == 0 ? "" : ",") + ("{\"id\":\"" + names.back() + "\"}");
  }
  const std::string merged = merged_models({backend(names, listed + "]")}, names);
  EXPECT_NE(merged.find("model-99999"), std::string::npos);
  EXPECT_EQ(merged.find("tailrace"), std::string::npos) << "each of them was listed";
}

}  // namespace
}  // namespace tailrace::gateway
