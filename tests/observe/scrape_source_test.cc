#include "tailrace/observe/scrape_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>

#include "observe/support/sim_server.h"

namespace tailrace::observe {
namespace {

using namespace std::chrono_literals;
using test::respond;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kNow = 1'700'000'000;

class ScrapeSourceTest : public test::SimServers {
 protected:
  static net::Endpoint at(int i) { return {"pod" + std::to_string(i), 8000, false}; }

  /// A target for a server that may be there or not.
  ScrapeTarget& target(int i) {
    ScrapeTarget added;
    added.name = "llm/pod" + std::to_string(i);
    added.url = {at(i), "/metrics"};
    added.labels = {{"namespace", "llm"}, {"pod", "pod" + std::to_string(i)}};
    wanted.targets.push_back(added);
    return wanted.targets.back();
  }
  void page(int i, const std::string& text, const std::string& type = "text/plain") {
    target(i);
    serve(at(i), [text, type](const auto&, net::Exchange& to) { respond(to, 200, text, type); });
  }
  Fetched fetch() {
    ScrapeSource source(loop, network, config);
    return fetch_from(source);
  }
  Fetched fetch_from(Source& source) { return fetch_whole(source, kNow + now_s(), wanted); }
  /// The one problem of the only target.
  std::string failure() {
    const Fetched fetched = fetch();
    EXPECT_TRUE(fetched.failed);
    EXPECT_THAT(fetched.missed, SizeIs(1));
    return fetched.problems.size() == 1 ? fetched.problems[0].message : "(not one problem)";
  }

  ScrapeConfig config;
  Wanted wanted{{"x", "y"}, 60, {}};
};

TEST_F(ScrapeSourceTest, ReadsManyTargetsAndAddsTheirLabels) {
  page(0, "x{a=\"b\"} 1\nother 5\n");
  page(1, "x{pod=\"its own\"} 2\ny 3\n", "text/plain; version=0.0.4; charset=utf-8");
  page(2, "x 4\n# EOF\n", "application/openmetrics-text; version=1.0.0");
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.problems, IsEmpty());
  EXPECT_THAT(fetched.reached, ElementsAre("llm/pod0", "llm/pod1", "llm/pod2"));
  ASSERT_THAT(fetched.series, SizeIs(4));
  EXPECT_EQ(fetched.series[0].key,
            (SeriesKey{"x", {{"a", "b"}, {"namespace", "llm"}, {"pod", "pod0"}}}));
  EXPECT_EQ(fetched.series[1].key.labels.at("pod"), "its own");
  EXPECT_EQ(fetched.series[3].key.name, "y");
  EXPECT_NEAR(fetched.series[0].points.at(0).time_s, kNow, 0.01);
  EXPECT_EQ(requests.at(0).head.target, "/metrics");
  EXPECT_THAT(std::string(requests.at(0).head.headers.find("accept").value_or("")),
              HasSubstr("text/plain;version=0.0.4"));
}

TEST_F(ScrapeSourceTest, KeepsItsConnections) {
  page(0, "x 1\n");
  ScrapeSource source(loop, network, config);
  fetch_from(source);
  loop.run_for(1s);
  fetch_from(source);
  EXPECT_THAT(requests, SizeIs(2));
  EXPECT_THAT(network.connections(), SizeIs(1));
}

TEST_F(ScrapeSourceTest, UsesTheTargetsThatAnswer) {
  page(0, "x 1\n");
  target(1);  // refuses connections
  target(2);
  serve(at(2), [](const auto&, net::Exchange&) {});  // never answers
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.series, SizeIs(1));
  EXPECT_THAT(fetched.reached, ElementsAre("llm/pod0"));
  EXPECT_THAT(fetched.missed, ElementsAre("llm/pod1", "llm/pod2"));
  ASSERT_THAT(fetched.problems, SizeIs(2));
  EXPECT_EQ(fetched.problems[0].subject, "llm/pod1");
  EXPECT_THAT(fetched.problems[1].message, HasSubstr("no whole answer within 5 s"));
  EXPECT_NEAR(now_s(), 5, 0.1);
}

TEST_F(ScrapeSourceTest, AsksOnlySoManyAtOnceAndEndsInTime) {
  config.parallel_max = 2;
  // Shared: an answer that nobody waits for any more comes after the test's end.
  struct Counts {
    std::size_t open = 0, most = 0;
  };
  const auto counts = std::make_shared<Counts>();
  for (int i = 0; i < 6; ++i) {
    target(i);
    serve(at(i), [this, counts](const auto&, net::Exchange&) {
      counts->most = std::max(counts->most, ++counts->open);
      loop.post_at(loop.now() + 4s, [counts, exchange = held.back()] {
        --counts->open;
        respond(*exchange, 200, "x 1\n", "text/plain");
      });
    });
  }
  const Fetched fetched = fetch();
  EXPECT_EQ(counts->most, 2U);
  EXPECT_NEAR(now_s(), 10, 0.1);
  EXPECT_THAT(fetched.reached, SizeIs(4));
  EXPECT_THAT(fetched.missed, ElementsAre("llm/pod4", "llm/pod5"));
  EXPECT_THAT(fetched.problems, SizeIs(2));
  EXPECT_NEAR(fetched.series.at(2).points.at(0).time_s, kNow + 4, 0.1) << "when it was asked";
}

TEST_F(ScrapeSourceTest, SaysWhichTargetsWereNotAsked) {
  config.parallel_max = 1;
  config.target_timeout = 60s;
  for (int i = 0; i < 2; ++i) {
    target(i);
    serve(at(i), [](const auto&, net::Exchange&) {});
  }
  const Fetched fetched = fetch();
  EXPECT_TRUE(fetched.failed);
  ASSERT_THAT(fetched.problems, SizeIs(2));
  EXPECT_THAT(fetched.problems[0].message, HasSubstr("did not answer"));
  EXPECT_THAT(fetched.problems[1].message, HasSubstr("not asked"));
}

TEST_F(ScrapeSourceTest, TakesNothingThatIsNoPageOfMetrics) {
  page(0, "<html></html>\n", "text/html");
  EXPECT_THAT(failure(), HasSubstr("content type is \"text/html\""));
  page(0, "<html></html>\n", "text/plain");
  wanted.targets.pop_back();
  EXPECT_THAT(failure(), HasSubstr("no line of its page can be read; line 1"));
  serve(at(0), [](const auto&, net::Exchange& to) { respond(to, 404, "no", "text/plain"); });
  EXPECT_THAT(failure(), HasSubstr("404 Not Found; is the path right"));
  serve(at(0), [](const auto&, net::Exchange& to) {
    to.respond({200, "", {{"Content-Encoding", "gzip"}}}, "x");
  });
  EXPECT_THAT(failure(), HasSubstr("compressed"));
  config.page_bytes_max = 10;
  serve(at(0), [](const auto&, net::Exchange& to) { respond(to, 200, std::string(11, 'x')); });
  EXPECT_THAT(failure(), HasSubstr("longer than the bound of 10 bytes"));
}

TEST_F(ScrapeSourceTest, APageWithoutATypeOrWithoutASeriesIsAPage) {
  target(0);
  serve(at(0), [](const auto&, net::Exchange& to) { to.respond({200, "", {}}, "x 1\n"); });
  page(1, "");
  const Fetched fetched = fetch();
  EXPECT_THAT(fetched.problems, IsEmpty());
  EXPECT_THAT(fetched.reached, SizeIs(2));
  EXPECT_THAT(fetched.series, SizeIs(1)) << "an exporter that has nothing to say yet";
}

TEST_F(ScrapeSourceTest, TellsBrokenLinesAndUsesTheRest) {
  std::string text = "x 1\n";
  for (int i = 0; i < 20; ++i) text += "broken\n";
  page(0, text);
  const Fetched fetched = fetch();
  EXPECT_THAT(fetched.series, SizeIs(1));
  ASSERT_THAT(fetched.problems, SizeIs(6));
  EXPECT_THAT(fetched.problems[0].message, HasSubstr("line 2: "));
  EXPECT_EQ(fetched.problems[5].message, "and 15 more lines");
}

TEST_F(ScrapeSourceTest, ACutPageIsNotUsed) {
  target(0);
  serve(at(0), [&](const auto&, net::Exchange& to) {
    to.begin({200, "", {{"Content-Type", "text/plain"}}}, 100);
    to.write("x 1\n");
    loop.post([&to] { to.abort(); });
  });
  EXPECT_THAT(failure(), HasSubstr("pod0:8000"));
}

TEST_F(ScrapeSourceTest, TwoTargetsWithTheSameSeriesAreTold) {
  page(0, "x 1\n");
  page(1, "x 2\n");
  for (ScrapeTarget& one : wanted.targets) one.labels.clear();
  const Fetched fetched = fetch();
  ASSERT_THAT(fetched.series, SizeIs(1));
  EXPECT_EQ(fetched.series[0].points.at(0).value, 1);
  ASSERT_THAT(fetched.problems, SizeIs(1));
  EXPECT_EQ(fetched.problems[0].subject, "llm/pod1");
  EXPECT_THAT(fetched.problems[0].message, AllOf(HasSubstr("llm/pod0"), HasSubstr("same labels")));
}

TEST_F(ScrapeSourceTest, WithoutTargetsThereIsNothingToFail) {
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.problems, IsEmpty());
}

TEST_F(ScrapeSourceTest, ACancelledFetchSaysNothingMore) {
  target(0);
  serve(at(0), [](const auto&, net::Exchange&) {});
  bool said = false;
  {
    ScrapeSource source(loop, network, config);
    source.fetch(kNow, wanted, [&](const Fetched&) { said = true; });
    loop.run_for(1s);
  }
  loop.run_for(30s);
  EXPECT_FALSE(said);
}

}  // namespace
}  // namespace tailrace::observe
