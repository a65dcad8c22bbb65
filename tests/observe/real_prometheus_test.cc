// Against the real Prometheus, where one is installed: what it remembers of an exporter is what we
// read there ourselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "support/temp_folder.h"
#include "tailrace/core/calendar.h"
#include "tailrace/core/text.h"
#include "tailrace/net/http_server.h"
#include "tailrace/observe/prometheus_source.h"
#include "tailrace/observe/scrape_source.h"

namespace tailrace::observe {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string program_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : core::split(path != nullptr ? path : "", ':')) {
    const std::string file = std::string(folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// A child process that ends with the test.
class Child {
 public:
  Child(const std::vector<std::string>& words, const std::string& log) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(126);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t pid_ = -1;
};

class RealPrometheus : public testing::Test {
 protected:
  void SetUp() override {
    const std::string program = program_on_path("prometheus");
    if (program.empty()) GTEST_SKIP() << "no prometheus on PATH: install the package prometheus";
    start_exporter();
    const std::string settings = folder_.file("prometheus.yml");
    ASSERT_TRUE(core::write_file_atomically(
        settings,
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n"
        "- job_name: engines\n  static_configs:\n  - targets: ['" +
            net::to_string(exporter_->local()) +
            "']\n    labels: {namespace: llm, pod: llama-0}\n"));
    const net::Endpoint at = free_port();
    child_.emplace(std::vector<std::string>{program, "--config.file=" + settings,
                                            "--storage.tsdb.path=" + folder_.file("data"),
                                            "--web.listen-address=" + net::to_string(at),
                                            "--web.route-prefix=/prefix"},
                   folder_.file("log"));
    config_.server.url = {at, "/prefix"};
    config_.namespaces = {"llm"};
  }
  void TearDown() override { child_.reset(); }

  /// A page that an engine of ours has sent, with one more series whose value grows.
  void start_exporter() {
    const auto recorded =
        core::read_file(TAILRACE_SOURCE_DIR "/tests/observe/data/engine_under_load.prom", 1 << 20);
    ASSERT_TRUE(recorded);
    auto server = net::HttpServer::listen(
        *loop_, *network_, {"127.0.0.1", 0, false}, {},
        [this, page = *recorded](std::shared_ptr<net::Exchange> exchange) {
          exchange->respond({200, "", {{"Content-Type", "text/plain; version=0.0.4"}}},
                            page + "reads_total{odd=\"\\\"\\\\ \\n{}\"} " +
                                std::to_string(++reads_) + "\nnot_a_number NaN\nlarge +Inf\n");
        });
    ASSERT_TRUE(server) << server.error().message;
    exporter_ = std::move(*server);
  }
  /// One that nobody else listens at just now.
  net::Endpoint free_port() {
    const auto listener =
        network_->listen({"127.0.0.1", 0, false}, [](const std::unique_ptr<net::Stream>&) {});
    return (*listener)->local();
  }

  Fetched fetch(Source& source, const Wanted& wanted) {
    std::optional<Fetched> result;
    source.fetch(SystemCalendar().unix_s(), wanted, [&](Fetched fetched) {
      result = std::move(fetched);
      loop_->stop();
    });
    const auto guard = loop_->after(12s, [&] { loop_->stop(); });
    loop_->run();
    EXPECT_TRUE(result);
    return result.value_or(Fetched{});
  }
  /// Fetches until the server has read the exporter so often.
  Fetched fetch_when_read(PrometheusSource& source, const Wanted& wanted, std::size_t times) {
    Fetched fetched;
    for (int i = 0; i < 100; ++i) {
      fetched = fetch(source, wanted);
      for (const Series& series : fetched.series) {
        if (series.key.name == "reads_total" && series.points.size() >= times) return fetched;
      }
      const auto pause = loop_->after(100ms, [&] { loop_->stop(); });
      loop_->run();
    }
    ADD_FAILURE() << core::read_file(folder_.file("log"), 1 << 20).value_or("(no log)");
    return fetched;
  }
  Result<PrometheusAnswer> ask(const std::string& expression, std::optional<double> time_s = {}) {
    PrometheusApi api(*loop_, *network_, config_.server);
    Result<PrometheusAnswer> result = fail(ErrorCode::kInternal, "not answered");
    const auto query = api.query(expression, time_s, [&](Result<PrometheusAnswer> answer) {
      result = std::move(answer);
      loop_->stop();
    });
    loop_->run();
    return result;
  }

  void compare_with_our_own_reading();
  void look_at_a_counter();
  void ask_queries();

  std::unique_ptr<net::EventLoop> loop_ = net::make_event_loop();
  std::unique_ptr<net::Network> network_ = net::make_socket_network(*loop_);
  std::unique_ptr<net::HttpServer> exporter_;
  TempFolder folder_;
  std::optional<Child> child_;
  PrometheusSourceConfig config_;
  int reads_ = 0;
};

void RealPrometheus::compare_with_our_own_reading() {
  ScrapeSource scraping(*loop_, *network_);
  Wanted wanted;
  wanted.targets = {{"llm/llama-0",
                     {exporter_->local(), "/metrics"},
                     {{"namespace", "llm"},
                      {"pod", "llama-0"},
                      {"job", "engines"},
                      {"instance", net::to_string(exporter_->local())}}}};
  // All names of the page, which one look without a filter tells.
  const auto page = parse_exposition(
      core::read_file(TAILRACE_SOURCE_DIR "/tests/observe/data/engine_under_load.prom", 1 << 20)
          .value(),
      {});
  for (const Series& series : page.series) wanted.names.push_back(series.key.name);
  wanted.names.insert(wanted.names.end(), {"reads_total", "not_a_number", "large"});

  PrometheusSource remembering(*loop_, *network_, config_);
  const Fetched remembered = fetch_when_read(remembering, wanted, 3);
  EXPECT_THAT(remembered.problems, IsEmpty()) << remembered.problems.at(0).message;
  const Fetched read = fetch(scraping, wanted);
  EXPECT_THAT(read.problems, IsEmpty()) << read.problems.at(0).message;

  ASSERT_EQ(remembered.series.size(), read.series.size());
  EXPECT_EQ(read.series.size(), page.series.size() + 3);
  for (std::size_t i = 0; i < read.series.size(); ++i) {
    const Series& theirs = remembered.series[i];
    const Series& ours = read.series[i];
    EXPECT_EQ(theirs.key, ours.key) << theirs.key.name << " and " << ours.key.name;
    EXPECT_NEAR(theirs.points.back().time_s, ours.points.back().time_s, 10);
    if (ours.key.name == "reads_total") continue;
    const double a = theirs.points.back().value, b = ours.points.back().value;
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
        << ours.key.name << ": " << a << " " << b;
  }
}

void RealPrometheus::look_at_a_counter() {
  PrometheusSource source(*loop_, *network_, config_);
  Wanted wanted;
  wanted.names = {"reads_total", "no_such_series"};
  const Fetched fetched = fetch_when_read(source, wanted, 4);
  ASSERT_THAT(fetched.series, SizeIs(1));
  const Series& reads = fetched.series[0];
  for (std::size_t i = 1; i < reads.points.size(); ++i) {
    EXPECT_GT(reads.points[i].value, reads.points[i - 1].value) << "each page has one more";
  }
}

void RealPrometheus::ask_queries() {
  EXPECT_EQ(ask("1 + 1")->series.at(0).points.at(0).value, 2);
  EXPECT_EQ(ask("time()", 1700.5)->series.at(0).points.at(0).value, 1700.5);
  EXPECT_THAT(ask("no_such_series")->series, IsEmpty());
  EXPECT_EQ(ask("count(reads_total) by (pod)")->series.at(0).key.labels.at("pod"), "llama-0");
  EXPECT_EQ(ask("\"text\"")->text, "text");
  const auto refused = ask("sum(");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("unclosed left parenthesis"));

  config_.server.url.prefix.clear();
  const auto elsewhere = ask("1");
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("prefix"));
}

// One test, since a server takes seconds before it reads its first page.
TEST_F(RealPrometheus, RemembersWhatWeReadOurselvesAndAnswersQueries) {
  compare_with_our_own_reading();
  look_at_a_counter();
  ask_queries();
}

}  // namespace
}  // namespace tailrace::observe
