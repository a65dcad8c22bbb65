// Which numbers does a run have, by name?
#include <array>

#include "tailrace/simulate/results.h"

namespace tailrace::simulate {
namespace {

using Value = std::optional<double>;

template <std::optional<Spread> RunResult::* Which, double Spread::* What>
Value spread(const RunResult& r) {
  const std::optional<Spread>& found = r.*Which;
  return found ? Value((*found).*What) : std::nullopt;
}

template <std::optional<double> RunResult::* What>
Value maybe(const RunResult& r) {
  return r.*What;
}

template <std::size_t Class, double ClassMeans::* What>
Value of_class(const RunResult& r) {
  return r.classes[Class].count > 0 ? Value(r.classes[Class].*What) : std::nullopt;
}

#define TAILRACE_SPREAD(name, member, help)                                                     \
  Metric{name ".mean", help ", mean", spread<&RunResult::member, &Spread::mean>},               \
      Metric{name ".p50", help ", median", spread<&RunResult::member, &Spread::p50>},           \
      Metric{name ".p90", help ", P90", spread<&RunResult::member, &Spread::p90>},              \
      Metric{name ".p99", help ", P99", spread<&RunResult::member, &Spread::p99>},              \
      Metric{name ".p999", help ", P99.9", spread<&RunResult::member, &Spread::p999>}, Metric { \
    name ".max", help ", longest", spread<&RunResult::member, &Spread::max>                     \
  }

#define TAILRACE_CLASS(index, name, help)                                                       \
  Metric{name ".slow_down", help ": time in the system over the time alone",                    \
         of_class<index, &ClassMeans::slow_down>},                                              \
      Metric{name ".e2e_s", help ": mean time in the system",                                   \
             of_class<index, &ClassMeans::e2e_s>},                                              \
      Metric {                                                                                  \
    name ".wait_s", help ": mean wait for the first slot", of_class<index, &ClassMeans::wait_s> \
  }

constexpr std::array kMetrics = {
    TAILRACE_SPREAD("ttft_s", ttft, "seconds from arrival to the first token"),
    TAILRACE_SPREAD("e2e_s", e2e, "seconds from arrival to the last token"),
    TAILRACE_SPREAD("per_token_s", per_token, "e2e_s over the answer's tokens"),
    TAILRACE_SPREAD("wait_s", wait, "seconds from arrival to the first slot"),
    TAILRACE_SPREAD("itl_s", itl, "mean seconds between a request's tokens"),
    Metric{"requests_per_s", "completed over the run's length", maybe<&RunResult::requests_per_s>},
    Metric{"output_tokens_per_s", "tokens of completed answers over the run's length",
           maybe<&RunResult::output_tokens_per_s>},
    Metric{"computed_tokens_per_s", "prompt, answer and recomputed tokens over the run's length",
           maybe<&RunResult::computed_tokens_per_s>},
    Metric{"seconds", "simulated, from time 0 to the end", maybe<&RunResult::seconds>},
    Metric{"seconds_to_30_percent", "until 30 % of all that came had completed",
           maybe<&RunResult::seconds_to_30_percent>},
    Metric{"goodput", "share of the offered that met the SLO", maybe<&RunResult::goodput>, 0, 1},
    Metric{"preemptions_per_request", "by memory and by review",
           maybe<&RunResult::preemptions_per_request>},
    Metric{"preempted_share", "of completed requests", maybe<&RunResult::preempted_share>, 0, 1},
    Metric{"recomputed_tokens", "computed more than once", maybe<&RunResult::recomputed_tokens>},
    Metric{"utilisation", "share of the engines' time in iterations",
           maybe<&RunResult::utilisation>, 0, 1},
    Metric{"kv_share", "of KV blocks held, averaged over time", maybe<&RunResult::kv_share>, 0, 1},
    Metric{"waiting_at_last", "share that was in no batch when the last request came",
           maybe<&RunResult::waiting_at_last>, 0, 1},
    Metric{"refused", "share that no engine could hold, or the dispatcher sent away",
           maybe<&RunResult::refused>, 0, 1},
    Metric{"unfinished", "share that the horizon cut off", maybe<&RunResult::unfinished>, 0, 1},
    Metric{"starved", "share that waited over 10 times as long as they then ran",
           maybe<&RunResult::starved>, 0, 1},
    Metric{"tau", "Kendall's, of predicted medians and lengths", maybe<&RunResult::tau>, -1, 1},
    Metric{"within_50", "share of lengths within their laws' central 50 %",
           maybe<&RunResult::within_50>, 0, 1},
    Metric{"within_90", "share of lengths within their laws' central 90 %",
           maybe<&RunResult::within_90>, 0, 1},
    Metric{"report_age_s.mean", "of the oldest report that an engine was chosen by",
           [](const RunResult& r) { return r.totals.mean_report_age_s; }},
    Metric{"report_age_s.max", "of the oldest report that an engine was chosen by",
           [](const RunResult& r) { return r.totals.max_report_age_s; }},
    TAILRACE_CLASS(0, "shortest_quarter", "shortest quarter"),
    TAILRACE_CLASS(1, "second_quarter", "second quarter"),
    TAILRACE_CLASS(2, "third_quarter", "third quarter"),
    TAILRACE_CLASS(3, "75_to_95", "lengths from 75 to 95 %"),
    TAILRACE_CLASS(4, "longest_5", "longest 5 %"),
};

#undef TAILRACE_SPREAD
#undef TAILRACE_CLASS

}  // namespace

std::span<const Metric> metrics() {
  return kMetrics;
}

}  // namespace tailrace::simulate
