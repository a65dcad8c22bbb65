// Faults of the metrics' side, from a Prometheus server over HTTP to replicas, in virtual time:
// replicas never fall on missing data, and all recovers by itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autoscaler/support/fakes.h"
#include "observe/support/sim_server.h"
#include "tailrace/autoscaler/collector.h"
#include "tailrace/observe/prometheus_source.h"

namespace tailrace::autoscaler {
namespace {

using observe::test::respond;
using observe::test::success;
using std::chrono::seconds;

constexpr double kScrape = 5;        ///< seconds between two scrapes
constexpr double kRemembered = 150;  ///< seconds of points

enum class Fault {
  kDown,
  kSlow,
  kHtml,
  kEmpty,
  kNan,
  kHalfThePods,
  kServerClockAhead,
  kCounterResets,
};

struct FaultCase {
  const char* name;
  Fault fault;
};

/// One engine's counters.
struct Pod {
  double requests = 0, prompt = 0, generated = 0, ttft_s = 0, itl_s = 0, itl_count = 0, running = 0;
};

class Drill : public observe::test::SimServers {
 protected:
  testing::SimCalendar calendar{loop};
  testing::FakeSettings settings{
      "targetTTFT: 150\ntargetITL: 15\nstabilisation: {downWindow: 120s}\n"};
  testing::Fleet fleet;  // only its count of replicas
  testing::FakeActuator actuator{loop, fleet};
  double rate_per_s = 100;
  std::optional<Fault> fault;
  std::map<std::string, Pod> pods;
  /// Name and pod → points.
  std::map<std::pair<std::string, std::string>, std::vector<observe::Point>> series;
  std::unique_ptr<net::Timer> scraping;
  int scrapes = 0;

  struct FleetRoster final : Roster {
    explicit FleetRoster(testing::Fleet& f) : fleet(f) {}
    void look(double, UniqueFunction<void(Known)> done) override {
      Known known;
      KnownVariant v;
      v.key = {"llm", "llama"};
      v.name = "h100";
      v.accelerator = "H100";
      v.current = fleet.replicas;
      v.max = 12;
      for (std::int64_t p = 0; p < fleet.replicas; ++p)
        v.pods.push_back({fmt::format("p{}", p), ""});
      known.variants.push_back(std::move(v));
      done(std::move(known));
    }
    testing::Fleet& fleet;
  } roster{fleet};

  observe::PrometheusSourceConfig source_config() {
    observe::PrometheusSourceConfig config;
    config.server.url = {observe::test::kPrometheusAt, ""};
    return config;
  }
  observe::PrometheusSource source{loop, network, source_config()};
  SnapshotCollector collector{roster, source, observe::ObserverConfig{}};
  std::vector<CycleReport> reports;
  std::unique_ptr<ControlLoop> control;

  void SetUp() override {
    fleet.replicas = 6;
    open_prometheus();
    scrape();
    LoopParts parts;
    parts.loop = &loop;
    parts.calendar = &calendar;
    parts.settings = &settings;
    parts.collector = &collector;
    parts.actuators = {&actuator};
    control = std::make_unique<ControlLoop>(LoopConfig{}, std::move(parts));
    control->start([this](const CycleReport& report) { reports.push_back(report); });
  }

  void open_prometheus() {
    serve(observe::test::kPrometheusAt, [this](const observe::test::Request& request,
                                               net::Exchange& to) { answer(request, to); });
  }

  double time_s() const {
    return calendar.unix_s() + (fault == Fault::kServerClockAhead ? 600 : 0);
  }

  /// The pods work for an interval; then they are scraped.
  void scrape() {
    ++scrapes;
    for (std::int64_t p = 0; p < fleet.replicas; ++p) {
      const auto name = fmt::format("p{}", p);
      Pod& pod = pods[name];
      if (fault == Fault::kCounterResets && scrapes % 8 == p % 8) pod = Pod{};
      work(pod,
           rate_per_s / double(fleet.replicas) * (1 + 0.3 * std::sin(0.3 * scrapes + double(p))));
      const bool missing = fault == Fault::kHalfThePods && p % 2 == 0;
      if (!missing) expose(name, pod);
    }
    for (auto& [key, points] : series) {
      while (!points.empty() && points.front().time_s < time_s() - kRemembered) {
        points.erase(points.begin());
      }
    }
    scraping = loop.after(seconds(static_cast<int>(kScrape)), [this] { scrape(); });
  }

  void work(Pod& pod, double rate) const {
    queueing::ServiceModel model;
    model.mode = queueing::Mode::kCorrected;
    model.iteration = {.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5};
    const auto at = queueing::latency(model, queueing::Workload::of(rate, 512, 128));
    const bool stable = at && at->ttft_ms && at->itl_ms;
    const double n = rate * kScrape;
    pod.requests += n;
    pod.prompt += n * 512;
    pod.generated += n * 128;
    pod.ttft_s += n * (stable ? *at->ttft_ms : 20'000) / 1e3;
    pod.itl_s += n * 127 * (stable ? *at->itl_ms : 60) / 1e3;
    pod.itl_count += n * 127;
    pod.running = stable ? at->concurrency.value_or(0) : 256;
  }

  void expose(const std::string& name, const Pod& pod) {
    const bool nan = fault == Fault::kNan;
    const auto put = [&](const char* metric, double value) {
      series[{metric, name}].push_back({time_s(), nan ? std::nan("") : value});
    };
    put("vllm:request_success_total", pod.requests);
    for (const auto& [histogram, sum, count] :
         {std::tuple{"vllm:request_prompt_tokens", pod.prompt, pod.requests},
          {"vllm:request_generation_tokens", pod.generated, pod.requests},
          {"vllm:time_to_first_token_seconds", pod.ttft_s, pod.requests},
          {"vllm:inter_token_latency_seconds", pod.itl_s, pod.itl_count}}) {
      put((std::string(histogram) + "_sum").c_str(), sum);
      put((std::string(histogram) + "_count").c_str(), count);
    }
    put("vllm:num_requests_running", pod.running);
    put("vllm:num_requests_waiting", 0);
  }

  void answer(const observe::test::Request& request, net::Exchange& to) {
    if (fault == Fault::kHtml) return respond(to, 200, "<html>Sign in</html>", "text/html");
    const std::string query = request.form.contains("query") ? request.form.at("query") : "";
    if (query == "time()") {
      return respond(to, 200, success("scalar", fmt::format("[{},\"{}\"]", time_s(), time_s())));
    }
    std::string result;
    for (const auto& [key, points] : series) {
      const auto& [metric, pod] = key;
      if (fault == Fault::kEmpty || points.empty() || !names(query, metric)) continue;
      std::string values;
      for (const auto& point : points) {
        values += fmt::format("{}[{},\"{}\"]", values.empty() ? "" : ",", point.time_s,
                              std::isnan(point.value) ? "NaN" : fmt::format("{}", point.value));
      }
      result += fmt::format(
          R"({}{{"metric":{{"__name__":"{}","namespace":"llm","pod":"{}","model_name":"llama"}},"values":[{}]}})",
          result.empty() ? "" : ",", metric, pod, values);
    }
    respond(to, 200, success("matrix", "[" + result + "]"));
  }
  /// Is the name one of the alternatives of the selector?
  static bool names(const std::string& query, const std::string& metric) {
    for (auto at = query.find(metric); at != std::string::npos; at = query.find(metric, at + 1)) {
      const char before = at == 0 ? ' ' : query[at - 1];
      const char after = at + metric.size() < query.size() ? query[at + metric.size()] : ' ';
      if ((before == '"' || before == '|') && (after == '"' || after == '|')) return true;
    }
    return false;
  }

  void begin(Fault what) {
    fault = what;
    if (what == Fault::kDown) close(observe::test::kPrometheusAt);
    if (what == Fault::kSlow)
      network.set_reach(observe::test::kPrometheusAt, net::SimNetwork::Reach::kSilent);
  }
  void heal() {
    if (fault == Fault::kDown) open_prometheus();
    if (fault == Fault::kServerClockAhead) series.clear();  // it takes no samples from its past
    network.set_reach(observe::test::kPrometheusAt, net::SimNetwork::Reach::kNormal);
    fault.reset();
  }
  /// The fewest replicas of that time.
  std::int64_t fewest_during(Duration time) {
    std::int64_t fewest = fleet.replicas;
    for (Duration passed{0}; passed < time; passed += seconds(5)) {
      loop.run_for(seconds(5));
      fewest = std::min(fewest, fleet.replicas);
    }
    return fewest;
  }
  std::string told() const { return reports.empty() ? "" : report_table(reports.back()); }
};

class FaultDrill : public Drill, public ::testing::WithParamInterface<FaultCase> {};

// kedacore/keda#3065, llm-d/llm-d-autoscaling#1376: missing metrics looked like no load.
TEST_P(FaultDrill, ReplicasNeverFallForTenMinutesAndRecoverByThemselves) {
  loop.run_for(seconds(900));
  const auto before = fleet.replicas;
  ASSERT_GE(before, 2) << told();
  ASSERT_TRUE(reports.back().record.result.models[0].variants[0].parameters.values) << told();

  begin(GetParam().fault);
  EXPECT_GE(fewest_during(seconds(600)), before) << told();
  if (GetParam().fault != Fault::kCounterResets) {
    // Somebody is told: by a condition, or by a model that is held with the reason.
    EXPECT_TRUE(!reports.back().record.conditions.empty() || reports.back().failed()) << told();
  }

  heal();
  loop.run_for(seconds(300));
  const auto healed = fleet.replicas;
  EXPECT_GE(healed, before) << told();
  rate_per_s = 170;
  loop.run_for(seconds(300));
  EXPECT_GT(fleet.replicas, healed) << told();
  rate_per_s = 30;
  loop.run_for(seconds(600));
  EXPECT_LT(fleet.replicas, before) << told();
}

INSTANTIATE_TEST_SUITE_P(AutoscalerDrills, FaultDrill,
                         ::testing::Values(FaultCase{"PrometheusDown", Fault::kDown},
                                           FaultCase{"PrometheusSilent", Fault::kSlow},
                                           FaultCase{"Html", Fault::kHtml},
                                           FaultCase{"EmptyVectors", Fault::kEmpty},
                                           FaultCase{"NaN", Fault::kNan},
                                           FaultCase{"HalfThePodsMissing", Fault::kHalfThePods},
                                           FaultCase{"ServerClockAhead", Fault::kServerClockAhead},
                                           FaultCase{"CounterResets", Fault::kCounterResets}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace tailrace::autoscaler
