#include "tailrace/kubernetes/config_map.h"

#include "kubernetes/support/cluster.h"

namespace tailrace::kubernetes::testing {
namespace {

class ConfigMapTest : public ClusterTest {
 protected:
  Result<std::optional<ConfigMap>> read() {
    return wait<std::optional<ConfigMap>>(
        [&](auto done) { return read_config_map(*api, "llm", "state", std::move(done)); });
  }
  Result<ConfigMap> write(const ConfigMap& map) {
    return wait<ConfigMap>([&](auto done) { return write_config_map(*api, map, std::move(done)); });
  }
};

TEST_F(ConfigMapTest, IsCreatedReadAndChanged) {
  const auto none = read();
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  ConfigMap map;
  map.ns = "llm";
  map.name = "state";
  map.labels = {{"app", "tailrace"}};
  map.data = {{"a", "1"}, {"b", "\"two\"\nlines"}};
  const auto created = write(map);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(created->data, map.data);
  EXPECT_EQ(created->labels, map.labels);
  ConfigMap next = *created;
  next.data = {{"a", "3"}};
  ASSERT_TRUE(write(next));
  const auto now = read();
  ASSERT_TRUE(now && now->has_value());
  EXPECT_EQ((*now)->data.at("a"), "3");
  EXPECT_EQ((*now)->data.at("b"), "\"two\"\nlines") << "keys that were not named stay";
}

TEST_F(ConfigMapTest, IsNotWrittenOverWhatSomebodyElseWroteMeanwhile) {
  ConfigMap map;
  map.ns = "llm";
  map.name = "state";
  map.data = {{"a", "1"}};
  const auto mine = write(map);
  ASSERT_TRUE(mine);
  EXPECT_EQ(write(map).error().code, ErrorCode::kAlreadyExists) << "created by two";
  ConfigMap theirs = *mine;
  theirs.data = {{"a", "theirs"}};
  ASSERT_TRUE(write(theirs));
  EXPECT_EQ(write(*mine).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(server.dotted(config_map_path("llm", "state"), "/data/a"), "theirs");
  server.remove(config_map_path("llm", "state"));
  EXPECT_EQ(write(*mine).error().code, ErrorCode::kNotFound);
}

TEST_F(ConfigMapTest, SaysThatTheServerIsAway) {
  server.stop();
  EXPECT_EQ(read().error().code, ErrorCode::kUnavailable);
}

TEST(ConfigMap, TakesNoHarmFromWhatIsNone) {
  for (const char* const text : {"", "[]", "{}", R"({"kind":"Secret"})",
                                 R"({"kind":"ConfigMap","metadata":{"name":"a"}})"}) {
    EXPECT_EQ(parse_config_map(text).error().code, ErrorCode::kDataLoss) << text;
  }
  const auto odd =
      parse_config_map(R"({"metadata":{"name":"a","resourceVersion":"1"},"data":{"a":1,"b":"x"}})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->data.size(), 1U);
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
