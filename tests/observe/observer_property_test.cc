// What holds of readings whatever comes, in whatever order.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "observe/series_history.h"
#include "observe/support/scrapes.h"

namespace tailrace::observe {
namespace {

using testing::kNow;
using testing::pod_labels;
using testing::variant;
using testing::with;

int up_to(int most) {
  return *rc::gen::inRange(0, most + 1);
}

/// A pod's counters and levels over some minutes, restarts included.
std::vector<std::pair<SeriesKey, Point>> any_points() {
  std::vector<std::pair<SeriesKey, Point>> out;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  const char* const counters[] = {
      "vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
      "vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds_count"};
  const char* const levels[] = {"vllm:num_requests_running", "vllm:num_requests_waiting"};
  const int scrapes = 2 + up_to(12);
  std::vector<double> totals(std::size(counters));
  for (int i = 0; i < scrapes; ++i) {
    const double t = kNow - 15.0 * (scrapes - 1 - i) + up_to(100) / 100.0 - 1;
    const bool restart = up_to(9) == 0;
    for (std::size_t c = 0; c < std::size(counters); ++c) {
      totals[c] = (restart ? 0 : totals[c]) + up_to(50);
      out.push_back({{counters[c], pod}, {t, totals[c]}});
    }
    for (const auto* level : levels) {
      out.push_back({{level, pod}, {t, static_cast<double>(up_to(40))}});
    }
  }
  return out;
}

Fetched fetch_of(const std::vector<std::pair<SeriesKey, Point>>& points) {
  Fetched out;
  for (const auto& [key, point] : points) out.series.push_back({key, {point}});
  return out;
}

void expect_same(const Measured& a, const Measured& b) {
  RC_ASSERT(a.value == b.value);
  RC_ASSERT(a.age_s == b.age_s);
}

RC_GTEST_PROP(Readings, DependOnThePointsAndNotOnTheFetchesThatBroughtThem, ()) {
  const auto expected = std::vector{variant("llm", "llama", "llama", {"llama-0"})};
  auto points = any_points();
  Observer whole({});
  const auto a = whole.read(kNow, fetch_of(points), expected);
  for (std::size_t i = points.size(); i > 1; --i) {
    std::swap(points[i - 1], points[static_cast<std::size_t>(up_to(static_cast<int>(i) - 1))]);
  }
  Observer parts({});
  Reading b;
  while (!points.empty()) {
    const auto taken = std::min(points.size(), 1 + static_cast<std::size_t>(up_to(20)));
    const std::vector<std::pair<SeriesKey, Point>> part(points.end() - taken, points.end());
    // Some come twice.
    if (up_to(1) == 0) points.resize(points.size() - taken);
    b = parts.read(kNow, fetch_of(part), expected);
  }
  RC_ASSERT(a.variants[0].pods.size() == b.variants[0].pods.size());
  for (std::size_t i = 0; i < a.variants[0].pods.size(); ++i) {
    const auto &x = a.variants[0].pods[i], &y = b.variants[0].pods[i];
    for (const auto quantity : {&PodReading::rate, &PodReading::completed,
                                &PodReading::input_tokens, &PodReading::output_tokens,
                                &PodReading::ttft_ms, &PodReading::running, &PodReading::waiting}) {
      expect_same(x.*quantity, y.*quantity);
    }
  }
}

RC_GTEST_PROP(Readings, AreFiniteAndNeverNegativeWhateverComes, ()) {
  const std::vector<EngineKind> engines{EngineKind::kVllm, EngineKind::kSglang,
                                        EngineKind::kTensorRtLlm, EngineKind::kLlamaCpp};
  const auto names = Observer::names_of(engines);
  const std::vector<double> values{0,      -0.0, 1,   -1,     1e308,        -1e308,
                                   5e-324, 1e18, 0.5, 1e-300, std::nan(""), HUGE_VAL};
  const std::vector<std::string> edges{"0", "1", "+Inf", "x", "-1", "1e400", "nan"};
  auto expected = std::vector{variant("llm", "llama", "llama", {"llama-0", "llama-1"})};
  expected[0].model_aliases = {""};
  Observer observer({});
  double now_s = kNow;
  for (int cycle = 0; cycle < 4; ++cycle) {
    Fetched fetched;
    const int many = up_to(40);
    for (int i = 0; i < many; ++i) {
      const auto name = names[static_cast<std::size_t>(up_to(static_cast<int>(names.size()) - 1))];
      auto labels = pod_labels("llm", up_to(2) == 0 ? "llama-1" : "llama-0", "llama");
      if (name.ends_with("_bucket")) {
        labels = with(labels, "le", edges[static_cast<std::size_t>(up_to(6))]);
      }
      Series series{{name, labels}, {}};
      const int points = 1 + up_to(4);
      for (int p = 0; p < points; ++p) {
        series.points.push_back(
            {now_s - up_to(120) / 2.0, values[static_cast<std::size_t>(up_to(11))]});
      }
      fetched.series.push_back(std::move(series));
    }
    const auto reading = observer.read(now_s, fetched, expected);
    const auto check = [](const Measured& m) {
      RC_ASSERT(!m.value || (std::isfinite(*m.value) && *m.value >= 0));
      RC_ASSERT(std::isfinite(m.age_s) && m.age_s >= 0);
      RC_ASSERT(m.value || !m.missing.empty());
    };
    for (const auto& pod : reading.variants[0].pods) {
      for (const auto quantity :
           {&PodReading::rate, &PodReading::completed, &PodReading::input_tokens,
            &PodReading::output_tokens, &PodReading::ttft_ms, &PodReading::itl_ms,
            &PodReading::ttft_p99_ms, &PodReading::itl_p99_ms, &PodReading::running,
            &PodReading::waiting, &PodReading::kv_usage, &PodReading::kv_tokens,
            &PodReading::prefix_hit, &PodReading::itl_per_stream_ratio,
            &PodReading::itl_per_stream_error}) {
        check(pod.*quantity);
      }
    }
    for (const auto& gateway : reading.gateways) {
      for (const auto quantity :
           {&GatewayReading::arrivals_per_s, &GatewayReading::relayed_per_s,
            &GatewayReading::waiting_requests, &GatewayReading::waiting_tokens,
            &GatewayReading::input_tokens, &GatewayReading::output_tokens,
            &GatewayReading::input_cv, &GatewayReading::output_cv}) {
        check(gateway.*quantity);
      }
    }
    now_s += up_to(200);
  }
}

}  // namespace
}  // namespace tailrace::observe
