#include "tailrace/kubernetes/events.h"

#include <gmock/gmock.h>

#include "kubernetes/support/cluster.h"

namespace tailrace::kubernetes::testing {
namespace {

class EventsTest : public ClusterTest {
 protected:
  EventsTest() {
    EventsConfig config;
    config.instance = "tailrace-0";
    config.waiting_max = 5;
    recorder = EventRecorder::make(*api, calendar, config);
  }
  static EventNote note(const std::string& text, const std::string& name = "llama") {
    EventNote made;
    made.about = {"apps/v1", "Deployment", "llm", name, "uid-of-" + name};
    made.reason = "ScaledUp";
    made.note = text;
    return made;
  }
  void record(std::uint64_t cycle, const EventNote& what) {
    recorder->record(cycle, what);
    run(seconds(15));
    calendar.set(calendar.unix_s() + 15);
  }
  int created() const { return server.count("POST", "/events"); }
  int counted() const { return server.count("PATCH", "/events/"); }
  boost::json::object last() const {
    return boost::json::parse(server.seen.back().body).as_object();
  }

  std::unique_ptr<EventRecorder> recorder;
};

TEST_F(EventsTest, SaysWhatWasDoneToWhom) {
  record(1, note("3 to 5: demand"));
  ASSERT_EQ(created(), 1);
  EXPECT_EQ(server.seen.back().target, "/apis/events.k8s.io/v1/namespaces/llm/events");
  const auto event = last();
  EXPECT_EQ(event.at("reason"), "ScaledUp");
  EXPECT_EQ(event.at("action"), "ScaledUp");
  EXPECT_EQ(event.at("type"), "Normal");
  EXPECT_EQ(event.at("note"), "3 to 5: demand");
  EXPECT_EQ(event.at("regarding").at("uid"), "uid-of-llama");
  EXPECT_EQ(event.at("reportingInstance"), "tailrace-0");
  EXPECT_EQ(recorder->seen().sent, 1U);
}

TEST_F(EventsTest, SaysAtMostOneThingOfAVariantInACycle) {
  record(1, note("one"));
  record(1, note("two"));
  EXPECT_EQ(created(), 1);
  record(1, note("one", "other"));
  EXPECT_EQ(created(), 2);
  record(2, note("two"));
  EXPECT_EQ(created(), 3);
}

TEST_F(EventsTest, CountsWhatItSaysAgainAndAgain) {
  for (std::uint64_t cycle = 1; cycle <= 100; ++cycle) record(cycle, note("held: no metrics"));
  EXPECT_EQ(created(), 1);
  EXPECT_EQ(counted(), 2) << "in 25 minutes";
  EXPECT_EQ(last().at("series").at("count"), 81);
  record(101, note("3 to 5"));
  record(102, note("held: no metrics"));
  EXPECT_EQ(created(), 3);
}

TEST_F(EventsTest, MakesANewOneWhenTheOldHasExpired) {
  record(1, note("held"));
  const auto name = last().at("metadata").at("name").as_string();
  server.remove("/apis/events.k8s.io/v1/namespaces/llm/events/" + std::string(name.c_str()));
  for (std::uint64_t cycle = 2; cycle <= 50; ++cycle) record(cycle, note("held"));
  EXPECT_EQ(created(), 2);
}

TEST_F(EventsTest, NeverHarmsTheCaller) {
  server.fault = [](const SeenRequest&) { return failing(403); };
  record(1, note("one"));
  server.stop();
  for (std::uint64_t cycle = 2; cycle <= 40; ++cycle) {
    for (int i = 0; i < 10; ++i) recorder->record(cycle, note("two", "v" + std::to_string(i)));
  }
  EXPECT_GT(recorder->seen().dropped, 0U) << "no more than five wait";
  run(seconds(30));
  EXPECT_GT(recorder->seen().failed, 0U);
  server.start();
  server.fault = nullptr;
  record(41, note("two"));
  EXPECT_EQ(recorder->seen().sent, 1U);
  recorder->record(42, note("three"));
  recorder.reset();
  run(seconds(30));
}

TEST_F(EventsTest, CutsWhatTheServerWouldRefuse) {
  EventNote longer = note(std::string(5000, 'x') + "\xff");
  longer.reason = std::string(300, 'R');
  longer.about.ns = "";
  record(1, longer);
  const auto event = last();
  EXPECT_LE(event.at("note").as_string().size(), 1024U);
  EXPECT_LE(event.at("reason").as_string().size(), 128U);
  EXPECT_EQ(event.at("metadata").at("namespace"), "default");
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
