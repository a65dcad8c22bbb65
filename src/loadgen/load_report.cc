#include "tailrace/loadgen/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "tailrace/core/text.h"
#include "tailrace/report/table.h"

namespace tailrace::loadgen {
namespace {

using report::figure;
using report::Summary;

// A generator that sends late measures itself: tell when one request in a hundred is this late
// (real time).
constexpr double kSendLagRealSecondsMax = 0.02;
constexpr std::size_t kShownErrorBytesMax = 256;

bool meets(const RequestOutcome& outcome, const Targets& targets) {
  if (!outcome.ok()) return false;
  // Without streaming the whole answer arrives at once: its first token is its last.
  const double ttft = outcome.ttft_s.value_or(outcome.e2e_s);
  if (targets.ttft_s && ttft > *targets.ttft_s) return false;
  return !targets.itl_s || !outcome.itl_mean_s || *outcome.itl_mean_s <= *targets.itl_s;
}

void add_warnings(LoadReport& report) {
  if (report.lengths.count() > 1 && report.lengths.largest_share() == 1.0) {
    report.warnings.push_back(
        "all answers have one length: this run cannot tell one scheduler from another");
  } else if (report.lengths.count() > 10 && report.lengths.largest_share() > 0.5) {
    report.warnings.push_back(fmt::format(
        "{:.0f} % of the answers have one length, as when a limit cuts them: look at the histogram",
        100 * report.lengths.largest_share()));
  }
  if (report.send_lag_s && report.send_lag_s->p99 > kSendLagRealSecondsMax * report.time_scale) {
    report.warnings.push_back(
        fmt::format("the generator was late: P99 of sent minus intended is {} s (emulated); "
                    "latencies include it",
                    figure(report.send_lag_s->p99)));
  }
  if (report.tokens_estimated) {
    report.warnings.push_back(
        "some answers carried no usage: their tokens are counted events, an estimate");
  }
}

boost::json::value to_json(const std::optional<Summary>& s) {
  if (!s) return nullptr;
  return {{"count", s->count}, {"mean", s->mean}, {"p50", s->p50},
          {"p90", s->p90},     {"p99", s->p99},   {"max", s->max}};
}

boost::json::value to_json(const std::optional<double>& value) {
  if (!value) return nullptr;
  return *value;
}

boost::json::array bins_json(const report::LengthHistogram& lengths) {
  boost::json::array bins;
  for (const report::LengthBin& bin : lengths.bins()) {
    bins.push_back({{"low", bin.low}, {"high", bin.high}, {"count", bin.count}});
  }
  return bins;
}

double per_second(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

/// RFC 4180: quotes where a cell needs them.
std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string csv_number(const std::optional<double>& value) {
  return value ? fmt::format("{:.6f}", *value) : "";
}

}  // namespace

LoadReport summarise_run(std::span<const RequestOutcome> outcomes,
                         const report::LatencySketch& token_gaps, const Targets& targets,
                         double time_scale) {
  LoadReport report;
  report.targets = targets;
  report.time_scale = time_scale;
  report.offered = outcomes.size();
  std::vector<double> ttft;
  std::vector<double> per_token;
  std::vector<double> e2e;
  std::vector<double> lag;
  double last_end = 0;
  for (const RequestOutcome& outcome : outcomes) {
    if (outcome.error != "cancelled") lag.push_back(outcome.sent_s - outcome.intended_s);
    last_end = std::max(last_end, outcome.intended_s + outcome.e2e_s);
    if (meets(outcome, targets)) ++report.met_targets;
    if (!outcome.ok()) {
      ++report.failed;
      ++report.errors[outcome.error];
      continue;
    }
    ++report.completed;
    report.output_tokens += outcome.output_tokens;
    report.tokens_estimated = report.tokens_estimated || !outcome.tokens_from_usage;
    report.lengths.add(outcome.output_tokens);
    if (outcome.ttft_s) ttft.push_back(*outcome.ttft_s);
    per_token.push_back(outcome.per_token_s());
    e2e.push_back(outcome.e2e_s);
  }
  if (!outcomes.empty()) report.duration_s = last_end - outcomes.front().intended_s;
  report.ttft_s = report::summarise(std::move(ttft));
  report.itl_s = token_gaps.summary();
  report.per_token_s = report::summarise(std::move(per_token));
  report.e2e_s = report::summarise(std::move(e2e));
  report.send_lag_s = report::summarise(std::move(lag));
  add_warnings(report);
  return report;
}

std::string to_text(const LoadReport& report) {
  std::string out = fmt::format(
      "{} requests offered, {} completed, {} failed, in {} s; {} answer tokens, {} tokens/s\n",
      report.offered, report.completed, report.failed, figure(report.duration_s),
      report.output_tokens,
      figure(per_second(static_cast<double>(report.output_tokens), report.duration_s)));
  for (const auto& [kind, count] : report.errors) {
    const auto said = report.first_errors.find(kind);
    out += fmt::format("  failed {}: {}{}\n", kind, count,
                       said == report.first_errors.end()
                           ? ""
                           : "; the first: " + core::quoted(said->second, kShownErrorBytesMax));
  }
  report::Table table({{"seconds", report::Table::Align::kLeft},
                       {"mean"},
                       {"P50"},
                       {"P90"},
                       {"P99"},
                       {"max"},
                       {"samples"}});
  const auto row = [&](const char* name, const std::optional<Summary>& s) {
    if (!s) return;
    table.add_row({name, figure(s->mean), figure(s->p50), figure(s->p90), figure(s->p99),
                   figure(s->max), fmt::format("{}", s->count)});
  };
  row("time to first token", report.ttft_s);
  row("between tokens", report.itl_s);
  row("per token (end to end / tokens)", report.per_token_s);
  row("end to end", report.e2e_s);
  row("sent late by", report.send_lag_s);
  out += "\n" + table.text();
  out += fmt::format(
      "\ngoodput: {} of {} requests within the targets{}, {} /s\n", report.met_targets,
      report.offered, report.targets.ttft_s || report.targets.itl_s ? "" : " (none set)",
      figure(per_second(static_cast<double>(report.met_targets), report.duration_s)));
  if (report.lengths.count() > 0) {
    out += "\nrealised answer lengths, tokens\n" + report.lengths.text();
  }
  for (const std::string& warning : report.warnings) out += "warning: " + warning + "\n";
  return out;
}

std::string to_json(const LoadReport& report) {
  boost::json::object errors;
  for (const auto& [kind, count] : report.errors) errors[kind] = count;
  boost::json::object first_errors;
  for (const auto& [kind, said] : report.first_errors)
    first_errors[kind] = boost::json::string(core::valid_utf8(said));
  boost::json::array warnings;
  for (const std::string& warning : report.warnings) warnings.emplace_back(warning);
  const double share = report.offered == 0 ? 0
                                           : static_cast<double>(report.met_targets) /
                                                 static_cast<double>(report.offered);
  const boost::json::object document{
      {"offered", report.offered},
      {"completed", report.completed},
      {"failed", report.failed},
      {"errors", std::move(errors)},
      {"first_errors", std::move(first_errors)},
      {"time_scale", report.time_scale},
      {"duration_s", report.duration_s},
      {"output_tokens", report.output_tokens},
      {"output_tokens_estimated", report.tokens_estimated},
      {"output_tokens_per_s",
       per_second(static_cast<double>(report.output_tokens), report.duration_s)},
      {"ttft_s", to_json(report.ttft_s)},
      {"itl_s", to_json(report.itl_s)},
      {"per_token_s", to_json(report.per_token_s)},
      {"e2e_s", to_json(report.e2e_s)},
      {"send_lag_s", to_json(report.send_lag_s)},
      {"goodput",
       {{"met", report.met_targets},
        {"share", share},
        {"per_s", per_second(static_cast<double>(report.met_targets), report.duration_s)},
        {"ttft_target_s", to_json(report.targets.ttft_s)},
        {"itl_target_s", to_json(report.targets.itl_s)}}},
      {"lengths",
       {{"largest_share", report.lengths.largest_share()}, {"bins", bins_json(report.lengths)}}},
      {"warnings", std::move(warnings)}};
  return boost::json::serialize(document);
}

std::string to_csv(std::span<const RequestOutcome> outcomes) {
  std::string out =
      "id,intended_s,sent_s,ttft_s,itl_mean_s,e2e_s,per_token_s,output_tokens,tokens_from_usage,"
      "status,finish_reason,error,queue_ms,request_id,backend\n";
  for (const RequestOutcome& o : outcomes) {
    out += fmt::format("{},{:.6f},{:.6f},{},{},{:.6f},{:.6f},{},{},{},{},{},{},{},{}\n",
                       csv_cell(o.id), o.intended_s, o.sent_s, csv_number(o.ttft_s),
                       csv_number(o.itl_mean_s), o.e2e_s, o.per_token_s(), o.output_tokens,
                       o.tokens_from_usage, o.status, csv_cell(o.finish_reason), csv_cell(o.error),
                       o.queue_ms ? fmt::format("{}", *o.queue_ms) : "", csv_cell(o.request_id),
                       csv_cell(o.backend));
  }
  return out;
}

}  // namespace tailrace::loadgen
