#include "tailrace/observe/prometheus_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "observe/support/sim_server.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

using namespace std::chrono_literals;
using test::respond;
using test::success;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr double kNow = 1'700'000'000;

std::string one_series(const std::string& name,
                       const std::string& values = R"([[5,"1"],[6,"2"]])") {
  return success("matrix",
                 R"([{"metric":{"__name__":")" + name + R"("},"values":)" + values + "}]");
}

class PrometheusSourceTest : public test::SimServers {
 protected:
  PrometheusSourceTest() { config.server.url = {test::kPrometheusAt, ""}; }

  /// Serves `answer` for selectors, and the right time for the clock's query.
  void prometheus(Answer answer) {
    serve(test::kPrometheusAt, [this, answer](const test::Request& request, net::Exchange& to) {
      if (request.form.contains("query") && request.form.at("query") == "time()") {
        return respond(to, 200, success("scalar", "[1,\"" + std::to_string(server_time()) + "\"]"));
      }
      ++selectors;
      times_s.push_back(request.time_s);
      answer(request, to);
    });
  }
  double server_time() const { return kNow + now_s() + skew_s; }

  /// One fetch, to its end.
  Fetched fetch(std::vector<std::string> names = {"x"}) {
    EXPECT_TRUE(check(config.server));
    PrometheusSource source(loop, network, config);
    return fetch_from(source, std::move(names));
  }
  Fetched fetch_from(Source& source, std::vector<std::string> names) {
    Wanted wanted;
    wanted.names = std::move(names);
    return fetch_whole(source, kNow + now_s(), wanted);
  }
  /// The one problem of a fetch that failed.
  std::string failure() {
    const Fetched fetched = fetch();
    EXPECT_TRUE(fetched.failed);
    EXPECT_THAT(fetched.series, IsEmpty());
    return fetched.problems.size() == 1 ? fetched.problems[0].message : "(not one problem)";
  }

  PrometheusSourceConfig config;
  double skew_s = 0;
  int selectors = 0;
  std::vector<double> times_s;
};

TEST_F(PrometheusSourceTest, FetchesRawPointsInFewQueries) {
  config.namespaces = {"llm", "a.b"};
  config.matchers = "cluster=\"eu\"";
  config.server.url.prefix = "/prometheus";
  prometheus([](const test::Request& request, net::Exchange& to) {
    EXPECT_EQ(request.head.method, "POST");
    EXPECT_EQ(request.head.target, "/prometheus/api/v1/query");
    EXPECT_FALSE(request.form.contains("time")) << "now is the server's";
    respond(to, 200, one_series(request.form.at("query").substr(12, 4)));
  });
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("n" + std::to_string(1000 - i % 200));
  const Fetched fetched = fetch(names);
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.problems, IsEmpty());
  EXPECT_THAT(requests, SizeIs(5)) << "however many names";
  ASSERT_THAT(fetched.series, SizeIs(4));
  EXPECT_EQ(fetched.series[0].key.name, "n100");
  ASSERT_THAT(fetched.series[0].points, SizeIs(2));
  EXPECT_EQ(fetched.series[0].points[1].time_s, 6);
  EXPECT_EQ(fetched.series[0].points[1].value, 2);
  for (const test::Request& request : requests) {
    if (request.form.at("query") == "time()") continue;
    EXPECT_THAT(request.form.at("query"),
                AllOf(StartsWith("{__name__=~\"n"),
                      HasSubstr(R"(,namespace=~"llm|a\\.b",cluster="eu"}[120000ms])")));
  }
}

TEST(RangeSelector, MatchesExactlyTheNamesAndABoundedWindow) {
  PrometheusSourceConfig config;
  EXPECT_EQ(range_selector({"vllm:a", "b"}, config, 60), "{__name__=~\"vllm:a|b\"}[60000ms]");
  config.namespaces = {"a\"b\\c\n"};
  EXPECT_EQ(range_selector({"x"}, config, 0),
            "{__name__=~\"x\",namespace=~\"a\\\"b\\\\\\\\c\\n\"}[1000ms]");
  config.namespaces.clear();
  EXPECT_EQ(range_selector({"x"}, config, std::nan("")), "{__name__=~\"x\"}[1000ms]");
  EXPECT_EQ(range_selector({"x"}, config, 1e300), "{__name__=~\"x\"}[86400000ms]");
}

TEST_F(PrometheusSourceTest, NoSeriesIsAnAnswerAndNoZero) {
  prometheus([](const auto&, net::Exchange& to) { respond(to, 200, success("matrix", "[]")); });
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.series, IsEmpty());
  EXPECT_THAT(fetched.problems, IsEmpty());
}

TEST_F(PrometheusSourceTest, NaNStaysNaN) {
  prometheus(
      [](const auto&, net::Exchange& to) { respond(to, 200, one_series("x", R"([[1,"NaN"]])")); });
  EXPECT_TRUE(std::isnan(fetch().series.at(0).points.at(0).value));
}

TEST_F(PrometheusSourceTest, AServerThatIsDownIsToldAsOneProblem) {
  EXPECT_THAT(failure(), AllOf(HasSubstr("prometheus:9090"), HasSubstr("after 4 attempts")));
  EXPECT_LE(now_s(), 10);
}

TEST_F(PrometheusSourceTest, AServerThatIsSilentIsGivenUpWithinTheTimeOut) {
  prometheus([](const auto&, net::Exchange&) {});
  EXPECT_THAT(failure(), HasSubstr("no whole answer"));
  EXPECT_NEAR(now_s(), 10, 0.1);
  EXPECT_EQ(selectors, 2) << "an attempt of 5 s, a pause, and what is left";
}

TEST_F(PrometheusSourceTest, AnAnswerThatDripsIsGivenUpWithinTheTimeOut) {
  std::vector<std::unique_ptr<net::Timer>> drops;
  std::function<void(net::Exchange*)> drip = [&](net::Exchange* to) {
    to->write(" ");
    drops.push_back(loop.after(200ms, [&drip, to] { drip(to); }));
  };
  prometheus([&](const auto&, net::Exchange& to) {
    to.begin({200, "", {}});
    drip(&to);
  });
  EXPECT_THAT(failure(), HasSubstr("no whole answer"));
  EXPECT_NEAR(now_s(), 10, 0.1);
  drops.clear();
}

TEST_F(PrometheusSourceTest, TriesAgainAfterGrowingPauses) {
  prometheus([](const auto&, net::Exchange& to) {
    respond(to, 503, "no healthy upstream", "text/plain");
  });
  EXPECT_THAT(failure(), AllOf(HasSubstr("503 Service Unavailable: no healthy upstream"),
                               HasSubstr("after 4 attempts")));
  ASSERT_THAT(times_s, SizeIs(4));
  EXPECT_NEAR(times_s[1] - times_s[0], 0.25, 0.05);
  EXPECT_NEAR(times_s[2] - times_s[1], 0.5, 0.05);
  EXPECT_NEAR(times_s[3] - times_s[2], 1, 0.05);
}

TEST_F(PrometheusSourceTest, RecoversWithinOneFetch) {
  prometheus([&](const auto&, net::Exchange& to) {
    if (selectors == 1) return respond(to, 503, "");
    if (selectors == 2) return respond(to, 200, R"({"status":"success","data":{"resul)");
    if (selectors == 3) {
      to.begin({200, "", {}}, 1000);
      to.write("{\"status\":");
      loop.post([&to] { to.abort(); });
      return;
    }
    respond(to, 200, one_series("x"));
  });
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.problems, IsEmpty());
  EXPECT_THAT(fetched.series, SizeIs(1));
  EXPECT_EQ(selectors, 4);
}

TEST_F(PrometheusSourceTest, DoesNotRepeatWhatTheServerCallsWrong) {
  prometheus([](const auto&, net::Exchange& to) {
    respond(to, 400, R"({"status":"error","errorType":"bad_data","error":"parse error"})");
  });
  EXPECT_THAT(failure(), HasSubstr("bad_data: parse error"));
  EXPECT_EQ(selectors, 1);
}

TEST_F(PrometheusSourceTest, TellsHtmlFromAnAnswer) {
  prometheus([](const auto&, net::Exchange& to) {
    respond(to, 200, "<html><body>Sign in</body></html>", "text/html");
  });
  EXPECT_THAT(failure(), HasSubstr("HTML instead of JSON"));
}

TEST_F(PrometheusSourceTest, SaysWhatToDoAboutAStatus) {
  int status = 401;
  prometheus([&](const auto&, net::Exchange& to) { respond(to, status, "<html>", "text/html"); });
  EXPECT_THAT(failure(), HasSubstr("401 Unauthorized; give a token"));
  status = 404;
  EXPECT_THAT(failure(), HasSubstr("prefix"));
  prometheus([](const auto&, net::Exchange& to) {
    to.respond({302, "", {{"Location", "https://sso/login"}}}, "");
  });
  EXPECT_THAT(failure(), AllOf(HasSubstr("https://sso/login"), HasSubstr("not followed")));
  EXPECT_EQ(selectors, 3) << "none of these heals by itself";
}

TEST_F(PrometheusSourceTest, RefusesAnAnswerOverTheBound) {
  config.server.answer_bytes_max = 1000;
  prometheus([](const auto&, net::Exchange& to) { respond(to, 200, std::string(2000, ' ')); });
  EXPECT_THAT(failure(), HasSubstr("longer than the bound of 1000 bytes"));
  EXPECT_EQ(selectors, 1);
  prometheus([](const auto&, net::Exchange& to) {
    to.begin({200, "", {}});
    to.write(std::string(2000, ' '));
    to.finish();
  });
  EXPECT_THAT(failure(), HasSubstr("longer than the bound")) << "without a length in its head";
}

TEST_F(PrometheusSourceTest, RefusesACompressedAnswer) {
  prometheus([](const test::Request& request, net::Exchange& to) {
    EXPECT_EQ(request.head.headers.find("accept-encoding"), "identity");
    to.respond({200, "", {{"Content-Encoding", "gzip"}}}, "\x1f\x8b");
  });
  EXPECT_THAT(failure(), HasSubstr("compressed"));
}

TEST_F(PrometheusSourceTest, UsesThePartThatCame) {
  prometheus([](const test::Request& request, net::Exchange& to) {
    if (request.form.at("query").find("\"n10") != std::string::npos) {
      return respond(to, 422,
                     R"({"status":"error","errorType":"execution","error":"too many samples"})");
    }
    respond(to, 200, one_series("later"));
  });
  std::vector<std::string> names;
  for (int i = 100; i < 130; ++i) names.push_back("n" + std::to_string(i));
  const Fetched fetched = fetch(names);
  EXPECT_FALSE(fetched.failed);
  EXPECT_THAT(fetched.series, SizeIs(1));
  ASSERT_THAT(fetched.problems, SizeIs(1));
  EXPECT_EQ(fetched.problems[0].subject, "n100 to n114");
  EXPECT_THAT(fetched.problems[0].message, HasSubstr("too many samples"));
}

TEST_F(PrometheusSourceTest, PassesOnTheServersWarnings) {
  prometheus([](const auto&, net::Exchange& to) {
    respond(to, 200,
            R"({"status":"success","warnings":["store is away"],
                "data":{"resultType":"matrix","result":[{"metric":{}}]}})");
  });
  const Fetched fetched = fetch();
  EXPECT_FALSE(fetched.failed);
  ASSERT_THAT(fetched.problems, SizeIs(2));
  EXPECT_EQ(fetched.problems[0].subject, "http://prometheus:9090");
  EXPECT_THAT(fetched.problems[0].message, HasSubstr("store is away"));
}

TEST_F(PrometheusSourceTest, AnAnswerOfAnotherKindIsAProblem) {
  prometheus([](const auto&, net::Exchange& to) { respond(to, 200, success("vector", "[]")); });
  EXPECT_THAT(failure(), HasSubstr("matrix"));
}

TEST_F(PrometheusSourceTest, NoticesThatTheClocksDiffer) {
  prometheus([](const auto&, net::Exchange& to) { respond(to, 200, one_series("x")); });
  skew_s = 37;
  const Fetched ahead = fetch();
  EXPECT_FALSE(ahead.failed);
  EXPECT_THAT(ahead.series, SizeIs(1));
  EXPECT_THAT(ahead.problems.at(0).message, HasSubstr("37.0 s ahead of ours"));
  skew_s = -600;
  EXPECT_THAT(fetch().problems.at(0).message, HasSubstr("600.0 s behind ours"));
  skew_s = 2;
  EXPECT_THAT(fetch().problems, IsEmpty());
}

TEST_F(PrometheusSourceTest, SendsItsTokenAndHeadersAndReadsTheTokenAnew) {
  const TempFolder folder;
  const std::string path = folder.file("token");
  config.server.bearer_token_file = path;
  config.server.headers = {{"X-Scope-OrgID", "team"}};
  std::vector<std::string> seen;
  prometheus([&](const test::Request& request, net::Exchange& to) {
    seen.emplace_back(request.head.headers.find("authorization").value_or(""));
    EXPECT_EQ(request.head.headers.find("x-scope-orgid"), "team");
    respond(to, 200, one_series("x"));
  });
  PrometheusSource source(loop, network, config);
  ASSERT_TRUE(core::write_file_atomically(path, "first\n"));
  fetch_from(source, {"x"});
  ASSERT_TRUE(core::write_file_atomically(path, "second\n"));
  fetch_from(source, {"x"});
  EXPECT_THAT(seen, ElementsAre("Bearer first", "Bearer second"));

  ::setenv("TAILRACE_TEST_TOKEN", "third", 1);
  config.server.bearer_token_file.clear();
  config.server.bearer_token_env = "TAILRACE_TEST_TOKEN";
  fetch();
  EXPECT_EQ(seen.back(), "Bearer third");
  ::unsetenv("TAILRACE_TEST_TOKEN");
  EXPECT_THAT(failure(), HasSubstr("TAILRACE_TEST_TOKEN"));
  EXPECT_EQ(seen.size(), 3U) << "nothing is sent without the token";
  ASSERT_TRUE(core::write_file_atomically(path, "two words"));
  config.server.bearer_token_env.clear();
  config.server.bearer_token_file = path;
  EXPECT_THAT(failure(), AllOf(HasSubstr("bearer_token_file"), Not(HasSubstr("two words"))));
  ASSERT_TRUE(core::write_file_atomically(path, " \n"));
  EXPECT_THAT(failure(), HasSubstr("is empty"));
  ::remove(path.c_str());
  EXPECT_THAT(failure(), HasSubstr("bearer_token_file"));
}

TEST_F(PrometheusSourceTest, ShowsNoSecretEvenWhenTheServerRepeatsIt) {
  ::setenv("TAILRACE_TEST_TOKEN", "s3cr3t-token", 1);
  config.server.bearer_token_env = "TAILRACE_TEST_TOKEN";
  config.server.headers = {{"X-Api-Key", "k3y-of-ours"}};
  prometheus([](const auto&, net::Exchange& to) {
    respond(to, 403, "s3cr3t-token and k3y-of-ours are unknown", "text/plain");
  });
  EXPECT_THAT(failure(), AllOf(HasSubstr("[secret] and [secret] are unknown"),
                               Not(HasSubstr("s3cr3t")), Not(HasSubstr("k3y"))));
  ::unsetenv("TAILRACE_TEST_TOKEN");
}

TEST_F(PrometheusSourceTest, AsksWithGetWhereNoPostIsTaken) {
  prometheus([](const test::Request& request, net::Exchange& to) {
    if (request.head.method == "POST") return respond(to, 405, "");
    EXPECT_THAT(request.head.target, StartsWith("/api/v1/query?query=%7B__name__"));
    respond(to, 200, one_series("x"));
  });
  EXPECT_THAT(fetch().series, SizeIs(1));
}

TEST_F(PrometheusSourceTest, ACancelledFetchSaysNothingMore) {
  prometheus([](const auto&, net::Exchange&) {});
  bool said = false;
  {
    PrometheusSource source(loop, network, config);
    source.fetch(kNow, {{"x"}, 60, {}}, [&](const Fetched&) { said = true; });
    loop.run_for(1s);
  }
  loop.run_for(30s);
  EXPECT_FALSE(said);
  EXPECT_EQ(selectors, 1);
}

class PrometheusApiTest : public PrometheusSourceTest {
 protected:
  PrometheusAnswer wait(std::unique_ptr<PrometheusQuery>& query,
                        std::optional<Result<PrometheusAnswer>>& into) {
    for (int i = 0; i < 1000 && !into; ++i) loop.run_for(20ms);
    query.reset();
    EXPECT_TRUE(into && *into);
    return into && *into ? **into : PrometheusAnswer{};
  }
};

TEST_F(PrometheusApiTest, AsksAtATimeAndOverARange) {
  prometheus([](const test::Request& request, net::Exchange& to) {
    if (request.head.target == "/api/v1/query_range") return respond(to, 200, one_series("r"));
    respond(to, 200, success("vector", R"([{"metric":{"a":"b"},"value":[1,"2"]}])"));
  });
  PrometheusApi api(loop, network, config.server);
  std::optional<Result<PrometheusAnswer>> got;
  const auto keep = [&](Result<PrometheusAnswer> answer) { got = std::move(answer); };
  auto query = api.query("sum by (a) (rate(x[1m])) + 1", 1700.5, keep);
  EXPECT_EQ(wait(query, got).series.at(0).points.at(0).value, 2);
  EXPECT_EQ(
      requests.at(0).form,
      (std::map<std::string, std::string>{
          {"query", "sum by (a) (rate(x[1m])) + 1"}, {"time", "1700.500"}, {"timeout", "5000ms"}}));
  got.reset();
  query = api.query_range("x", 10, 70, 15, keep);
  EXPECT_THAT(wait(query, got).series.at(0).points, SizeIs(2));
  EXPECT_EQ(requests.at(1).form, (std::map<std::string, std::string>{{"query", "x"},
                                                                     {"start", "10.000"},
                                                                     {"end", "70.000"},
                                                                     {"step", "15.000"},
                                                                     {"timeout", "5000ms"}}));
}

TEST(PrometheusConfig, NamesTheFieldThatIsWrong) {
  const auto message = [](PrometheusConfig config) {
    const auto checked = check(config);
    return checked ? std::string() : checked.error().message;
  };
  PrometheusConfig good;
  good.url = {test::kPrometheusAt, ""};
  EXPECT_EQ(message(good), "");
  EXPECT_THAT(message({}), HasSubstr("url"));
  PrometheusConfig config = good;
  config.bearer_token_file = config.bearer_token_env = "x";
  EXPECT_THAT(message(config), HasSubstr("both given"));
  config = good;
  config.headers = {{"X Y", "1"}};
  EXPECT_THAT(message(config), HasSubstr("\"X Y\""));
  config.headers = {{"X-Key", "a\r\nb: c"}};
  EXPECT_THAT(message(config), AllOf(HasSubstr("X-Key"), Not(HasSubstr("b: c"))));
  config.headers = {{"authorization", "Basic eDp5"}};
  EXPECT_EQ(message(config), "");
  config.bearer_token_env = "X";
  EXPECT_THAT(message(config), HasSubstr("Authorization"));
  config = good;
  config.attempts_max = 0;
  EXPECT_THAT(message(config), HasSubstr("attempts_max"));
}

}  // namespace
}  // namespace tailrace::observe
