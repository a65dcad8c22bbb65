#include <gmock/gmock.h>

#include "kubernetes/support/cluster.h"

namespace tailrace::kubernetes::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMaps = "/api/v1/namespaces/llm/configmaps";

class WatchTest : public ClusterTest {
 protected:
  void put(const std::string& name, const std::string& value = "1") {
    server.put(kMaps + "/" + name, R"({"data":{"v":")" + value + R"("}})");
  }
  void start() {
    WatchHandlers handlers;
    handlers.on_event = [this](std::string_view type, std::string_view object) {
      const auto parsed =
          boost::json::parse(boost::json::string_view(object.data(), object.size()));
      told.push_back(std::string(type) + " " +
                     parsed.at_pointer("/metadata/name").as_string().c_str());
      if (end_in_handler) call.reset();
    };
    handlers.on_restart = [this] { told.emplace_back("restart"); };
    handlers.on_synced = [this] { told.emplace_back("synced"); };
    handlers.on_interrupted = [this](const Error& error) { errors.push_back(error.message); };
    call = api->watch(kMaps, std::move(handlers));
    run(seconds(1));
  }
  std::vector<std::string> take() { return std::exchange(told, {}); }

  std::vector<std::string> told, errors;
  bool end_in_handler = false;
  std::unique_ptr<ApiCall> call;
};

TEST_F(WatchTest, TellsWhatIsThereAndThenWhatChanges) {
  put("a");
  start();
  EXPECT_THAT(take(), ElementsAre("restart", "ADDED a", "synced"));
  put("b");
  put("b", "2");
  server.remove(kMaps + "/a");
  run(seconds(1));
  EXPECT_THAT(take(), ElementsAre("ADDED b", "MODIFIED b", "DELETED a"));
  EXPECT_TRUE(errors.empty());
}

TEST_F(WatchTest, GoesOnWhereItWasWhenTheServerClosesItEveryFewMinutes) {
  start();
  put("a");
  run(std::chrono::minutes(10));
  put("b");
  run(seconds(1));
  EXPECT_THAT(take(), ElementsAre("restart", "synced", "ADDED a", "ADDED b"))
      << "no new list, nothing twice";
  EXPECT_GE(server.count("GET", "watch=1"), 5);
  EXPECT_TRUE(errors.empty()) << "a clean end is normal";
}

TEST_F(WatchTest, LosesNothingWhileTheServerIsAway) {
  put("a");
  start();
  take();
  server.stop();
  put("b");
  run(seconds(90));
  EXPECT_FALSE(errors.empty());
  server.start();
  run(seconds(40));
  EXPECT_THAT(take(), ElementsAre("ADDED b"));
}

TEST_F(WatchTest, AsksLessAndLessOftenWhileTheServerIsAway) {
  start();
  server.stop();
  run(std::chrono::minutes(10));
  EXPECT_LE(errors.size(), 40U);
  EXPECT_GE(errors.size(), 10U);
}

TEST_F(WatchTest, ListsAnewWhenItsPlaceIsForgotten) {
  put("a");
  start();
  take();
  server.stop();
  server.remove(kMaps + "/a");
  put("b");
  put("c");
  server.compact();
  server.start();
  run(seconds(60));
  EXPECT_THAT(take(), ElementsAre("restart", "ADDED b", "ADDED c", "synced"));
}

TEST_F(WatchTest, ListsAnewAfter410AsAStatusToo) {
  put("a");
  int refusals = 1;
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.target.find("watch=1") != std::string::npos && refusals-- > 0) return failing(410);
    return std::nullopt;
  };
  start();
  run(seconds(5));
  EXPECT_THAT(take(), ElementsAre("restart", "ADDED a", "synced", "restart", "ADDED a", "synced"));
  EXPECT_THAT(errors, ElementsAre(HasSubstr("not now")));
}

TEST_F(WatchTest, MovesItsPlaceWithBookmarks) {
  put("a");
  start();
  take();
  for (int i = 0; i < 5; ++i) server.put("/api/v1/namespaces/llm/pods/p", "{}");
  server.bookmark();
  run(seconds(1));
  server.compact();
  server.end_watches();
  run(seconds(5));
  put("b");
  run(seconds(1));
  EXPECT_THAT(take(), ElementsAre("ADDED b")) << "the bookmark was young enough to go on from";
}

TEST_F(WatchTest, NoticesACutCable) {
  start();
  take();
  for (const auto& connection : network.connections()) connection->freeze();
  put("a");
  run(std::chrono::minutes(3));
  EXPECT_THAT(take(), ElementsAre("ADDED a"));
}

TEST_F(WatchTest, TakesNoHarmFromWhatIsNoEvent) {
  put("a");
  start();
  const std::string lines[] = {
      "no json\n",
      "{}\n",
      R"({"type":"ADDED","object":3})"
      "\n",
      R"({"type":"ADDED","object":{}})"
      "\n",
      R"({"type":"NEW","object":{"metadata":{"resourceVersion":"5"}}})"
      "\n",
      R"({"type":"ERROR","object":{"code":500,"message":"etcd"}})"
      "\n",
  };
  for (const std::string& line : lines) {
    take();
    errors.clear();
    server.say_on_watches(line);
    run(seconds(60));
    EXPECT_THAT(take(), ElementsAre("restart", "ADDED a", "synced")) << line;
    EXPECT_EQ(errors.size(), 1U) << line;
  }
}

TEST_F(WatchTest, BoundsALine) {
  ApiConfig config;
  config.line_bytes_max = 10'000;
  api = Api::make(loop, network, server.access(), config);
  start();
  server.say_on_watches(std::string(20'000, 'x'));
  run(seconds(5));
  EXPECT_THAT(errors, ElementsAre(HasSubstr("longer than 10000 bytes")));
}

TEST_F(WatchTest, ReadsEventsHoweverTheyAreCut) {
  net::SimLink link;
  link.random_read_bytes_max = 3;
  network.set_link(link);
  put("a");
  start();
  put("b");
  run(seconds(10));
  EXPECT_THAT(take(), ElementsAre("restart", "ADDED a", "synced", "ADDED b"));
}

TEST_F(WatchTest, MayBeEndedByItsHandler) {
  put("a");
  put("b");
  end_in_handler = true;
  start();
  run(seconds(10));
  EXPECT_THAT(take(), ElementsAre("restart", "ADDED a"));
  EXPECT_EQ(server.watches(), 0U);
}

TEST_F(WatchTest, WaitsForAKindThatIsNotInstalledYet) {
  bool installed = false;
  server.fault = [&](const SeenRequest&) -> std::optional<Fault> {
    if (installed) return std::nullopt;
    return failing(404);
  };
  start();
  run(std::chrono::minutes(2));
  EXPECT_TRUE(take().empty());
  EXPECT_FALSE(errors.empty());
  installed = true;
  run(seconds(60));
  EXPECT_THAT(take(), ElementsAre("restart", "synced"));
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
