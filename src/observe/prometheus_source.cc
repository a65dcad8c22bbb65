#include "tailrace/observe/prometheus_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tailrace/core/check.h"
#include "tailrace/net/address_field.h"

namespace tailrace::observe {
namespace {

constexpr std::size_t kGroupsMax = 4;
constexpr std::size_t kNamesPerGroup = 25;  ///< while that needs no more than kGroupsMax
constexpr double kWindowMinS = 1;
constexpr double kWindowMaxS = 86'400;

/// `text` as a regular expression that matches exactly it, inside a PromQL string.
std::string exactly(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos) out += "\\\\";
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string any_of(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    if (!out.empty()) out += '|';
    out += exactly(text);
  }
  return out;
}

/// Without repetition, in order, in groups of about the same size.
std::vector<std::vector<std::string>> groups_of(const std::vector<std::string>& names) {
  const std::set<std::string> unique(names.begin(), names.end());
  const std::size_t groups =
      std::min(kGroupsMax, (unique.size() + kNamesPerGroup - 1) / kNamesPerGroup);
  std::vector<std::vector<std::string>> out(groups);
  std::size_t i = 0;
  for (const std::string& name : unique) out[i++ * groups / unique.size()].push_back(name);
  return out;
}

}  // namespace

std::string range_selector(const std::vector<std::string>& names,
                           const PrometheusSourceConfig& config, double window_s) {
  std::string selector = "{__name__=~\"" + any_of(names) + "\"";
  if (!config.namespaces.empty()) selector += ",namespace=~\"" + any_of(config.namespaces) + "\"";
  if (!config.matchers.empty()) selector += "," + config.matchers;
  // The comparison is this way round for a window that is not a number.
  const double window = window_s > kWindowMinS ? std::min(window_s, kWindowMaxS) : kWindowMinS;
  return fmt::format("{}}}[{:.0f}ms]", selector, std::ceil(window * 1e3));
}

struct PrometheusSource::Impl {
  Impl(net::EventLoop& l, net::Network& network, PrometheusSourceConfig c)
      : loop(l), config(std::move(c)), api(l, network, config.server) {
    server = net::to_string(config.server.url);
  }

  void start(double now_s, const Wanted& wanted);
  void ask(const std::vector<std::string>& names, double window_s);
  void take(const std::string& subject, Result<PrometheusAnswer> answer);
  void take_clock(const Result<PrometheusAnswer>& answer);
  void finish_one();

  net::EventLoop& loop;
  const PrometheusSourceConfig config;
  PrometheusApi api;
  std::string server;

  std::vector<std::unique_ptr<PrometheusQuery>> queries;
  UniqueFunction<void(Fetched)> done;
  Fetched fetched;
  std::vector<Error> failures;
  std::size_t selectors = 0, running = 0;
  double now_s = 0;
  MonoTime started{};
};

void PrometheusSource::Impl::start(double now, const Wanted& wanted) {
  now_s = now;
  started = loop.now();
  fetched = {};
  failures.clear();
  queries.clear();
  const auto groups = groups_of(wanted.names);
  selectors = groups.size();
  running = selectors + 1;
  for (const auto& names : groups) ask(names, wanted.window_s);
  queries.push_back(
      api.query("time()", std::nullopt, [this](const Result<PrometheusAnswer>& answer) {
        take_clock(answer);
        finish_one();
      }));
}

void PrometheusSource::Impl::ask(const std::vector<std::string>& names, double window_s) {
  const std::string selector = range_selector(names, config, window_s);
  const std::string subject =
      names.size() == 1 ? names.front() : fmt::format("{} to {}", names.front(), names.back());
  queries.push_back(
      api.query(selector, std::nullopt, [this, subject](Result<PrometheusAnswer> answer) {
        take(subject, std::move(answer));
        finish_one();
      }));
}

void PrometheusSource::Impl::take(const std::string& subject, Result<PrometheusAnswer> answer) {
  if (answer && answer->kind != PrometheusAnswer::Kind::kMatrix) {
    answer = fail(ErrorCode::kDataLoss, "the server did not answer a range selector with a matrix");
  }
  if (!answer) {
    fetched.problems.push_back({subject, answer.error().message});
    failures.push_back(std::move(answer.error()));
    return;
  }
  for (std::string& warning : answer->warnings) {
    fetched.problems.push_back({server, "the server warns: " + std::move(warning)});
  }
  for (std::string& problem : answer->problems) {
    fetched.problems.push_back({server, std::move(problem)});
  }
  std::move(answer->series.begin(), answer->series.end(), std::back_inserter(fetched.series));
}

void PrometheusSource::Impl::take_clock(const Result<PrometheusAnswer>& answer) {
  if (!answer || answer->kind != PrometheusAnswer::Kind::kScalar) return;
  const double ours = now_s + to_seconds(loop.now() - started);
  const double ahead = answer->series.front().points.front().value - ours;
  if (!(std::abs(ahead) > config.clock_skew_max_s)) return;
  fetched.problems.push_back(
      {server, fmt::format("the server's clock is {:.1f} s {} ours, and ages are wrong by as much: "
                           "let both follow the same time",
                           std::abs(ahead), ahead > 0 ? "ahead of" : "behind")});
}

void PrometheusSource::Impl::finish_one() {
  if (--running > 0) return;
  if (selectors > 0 && failures.size() == selectors) {
    // One reason for all: said once, of the server.
    fetched.failed = true;
    fetched.problems.assign(1, {server, failures.front().message});
  }
  std::sort(fetched.series.begin(), fetched.series.end(),
            [](const Series& a, const Series& b) { return a.key < b.key; });
  auto report = std::move(done);
  report(std::move(fetched));
}

PrometheusSource::PrometheusSource(net::EventLoop& loop, net::Network& network,
                                   PrometheusSourceConfig config)
    : impl_(std::make_unique<Impl>(loop, network, std::move(config))) {}
PrometheusSource::~PrometheusSource() = default;

void PrometheusSource::fetch(double now_s, const Wanted& wanted,
                             UniqueFunction<void(Fetched)> done) {
  TAILRACE_CHECK(!impl_->done);
  impl_->done = std::move(done);
  impl_->start(now_s, wanted);
}

}  // namespace tailrace::observe
