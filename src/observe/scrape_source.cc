#include "tailrace/observe/scrape_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/net/whole_answer.h"

namespace tailrace::observe {
namespace {

/// The older text is asked for first: both say the same of what is wanted here, and it is smaller.
constexpr std::string_view kAccepted =
    "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5";

/// Errors: kUnsupported for the type of something that is no page of metrics.
Result<ExpositionFormat> format_of(const net::ResponseHead& head) {
  const auto header = head.headers.find("content-type");
  if (!header) return ExpositionFormat::kPrometheusText;  // small exporters leave it out
  const std::string_view type = core::trim(header->substr(0, header->find(';')));
  if (core::iequals(type, "text/plain")) return ExpositionFormat::kPrometheusText;
  if (core::iequals(type, "application/openmetrics-text")) return ExpositionFormat::kOpenMetrics;
  return fail(ErrorCode::kUnsupported,
              fmt::format("the content type is {} instead of text/plain: this is no page of "
                          "metrics; is the path right?",
                          core::quoted(*header)));
}

std::string_view remedy_for(int status) {
  switch (status) {
    case 404:
      return "; is the path right, and are the engine's metrics switched on?";
    case 401:
    case 403:
      return "; the exporter wants a key, which direct scraping does not send: read it through a "
             "Prometheus server";
    default:
      return "";
  }
}

}  // namespace

struct ScrapeSource::Impl {
  Impl(net::EventLoop& l, net::Network& network, ScrapeConfig c)
      : loop(l), client(net::HttpClient::make(l, network)), config(c) {}

  struct Scrape {
    std::unique_ptr<net::Question> question;
    std::vector<Series> series;
    std::vector<SourceProblem> problems;
    bool reached = false;
  };

  void start(double now_s, const Wanted& wanted);
  void start_more();
  void ask(std::size_t index);
  void take(std::size_t index, double time_s, const Result<net::WholeAnswer>& answer);
  Result<void> read(std::size_t index, double time_s, const Result<net::WholeAnswer>& answer);
  void add_labels(const ScrapeTarget& target, std::vector<Series>& series) const;
  std::vector<Series> joined();
  void finish();

  net::EventLoop& loop;
  std::unique_ptr<net::HttpClient> client;
  const ScrapeConfig config;

  std::set<std::string, std::less<>> names;
  std::vector<ScrapeTarget> targets;
  std::vector<Scrape> scrapes;  ///< one for each target
  std::unique_ptr<net::Timer> timer;
  UniqueFunction<void(Fetched)> done;
  std::size_t next = 0, running = 0, ended = 0;
  double begun_s = 0;  ///< the caller's calendar at `begun`
  MonoTime begun{};
};

void ScrapeSource::Impl::start(double now_s, const Wanted& wanted) {
  names = {wanted.names.begin(), wanted.names.end()};
  targets = wanted.targets;
  scrapes.clear();
  scrapes.resize(targets.size());
  next = running = ended = 0;
  begun_s = now_s;
  begun = loop.now();
  if (targets.empty()) {
    timer = loop.after({}, [this] { finish(); });
    return;
  }
  timer = loop.after(config.total_timeout, [this] {
    for (std::size_t i = 0; i < next; ++i) {
      if (!scrapes[i].question) continue;
      scrapes[i].problems.push_back({targets[i].name,
                                     "it did not answer before the time for all "
                                     "targets was over"});
    }
    for (std::size_t i = next; i < targets.size(); ++i) {
      scrapes[i].problems.push_back(
          {targets[i].name,
           "it was not asked: others took the whole time; raise the number of "
           "targets that are read at once"});
    }
    finish();
  });
  start_more();
}

void ScrapeSource::Impl::start_more() {
  while (next < targets.size() && running < std::max<std::size_t>(1, config.parallel_max)) {
    ask(next++);
  }
}

void ScrapeSource::Impl::ask(std::size_t index) {
  ++running;
  const net::Url& url = targets[index].url;
  net::RequestHead head;
  head.method = "GET";
  head.target = url.prefix.empty() ? "/" : url.prefix;
  head.headers.add("Accept", std::string(kAccepted));
  const double time_s = begun_s + to_seconds(loop.now() - begun);
  scrapes[index].question =
      net::ask_whole(loop, *client, url.endpoint, std::move(head), nullptr,
                     {config.target_timeout, config.page_bytes_max},
                     [this, index, time_s](const Result<net::WholeAnswer>& answer) {
                       take(index, time_s, answer);
                     });
}

void ScrapeSource::Impl::take(std::size_t index, double time_s,
                              const Result<net::WholeAnswer>& answer) {
  Scrape& scrape = scrapes[index];
  scrape.question.reset();
  if (const auto ok = read(index, time_s, answer); ok) {
    scrape.reached = true;
  } else {
    scrape.problems.push_back({targets[index].name, ok.error().message});
  }
  --running;
  if (++ended == targets.size()) return finish();
  start_more();
}

Result<void> ScrapeSource::Impl::read(std::size_t index, double time_s,
                                      const Result<net::WholeAnswer>& answer) {
  if (!answer) return fail(answer.error());
  const int status = answer->head.status;
  if (status != 200) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("it answered {} {}{}", status, net::reason_phrase(status), remedy_for(status)));
  }
  const auto format = format_of(answer->head);
  if (!format) return fail(format.error());
  ExpositionOptions options;
  options.format = *format;
  options.time_s = time_s;
  options.only = &names;
  options.series_max = config.series_max;
  options.problems_max = config.problems_max;
  Exposition page = parse_exposition(answer->body, options);
  if (page.samples == 0 && !page.problems.empty()) {
    return fail(ErrorCode::kDataLoss,
                fmt::format("no line of its page can be read; line {}: {}",
                            page.problems.front().line, page.problems.front().message));
  }
  Scrape& scrape = scrapes[index];
  for (const LineProblem& problem : page.problems) {
    scrape.problems.push_back(
        {targets[index].name, fmt::format("line {}: {}", problem.line, problem.message)});
  }
  if (page.problems_left_out > 0) {
    scrape.problems.push_back(
        {targets[index].name, fmt::format("and {} more lines", page.problems_left_out)});
  }
  add_labels(targets[index], page.series);
  scrape.series = std::move(page.series);
  return {};
}

void ScrapeSource::Impl::add_labels(const ScrapeTarget& target, std::vector<Series>& series) const {
  for (Series& one : series) {
    for (const auto& [name, value] : target.labels) {
      if (!value.empty()) one.key.labels.try_emplace(name, value);
    }
  }
}

/// All series, by key. Of a series that two targets have the earlier target's stays.
std::vector<Series> ScrapeSource::Impl::joined() {
  std::vector<std::pair<std::size_t, Series>> all;
  for (std::size_t i = 0; i < scrapes.size(); ++i) {
    for (Series& series : scrapes[i].series) all.emplace_back(i, std::move(series));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.key, a.first) < std::tie(b.second.key, b.first);
  });
  std::vector<Series> out;
  std::set<std::size_t> told;
  std::size_t kept = 0;
  for (auto& [target, series] : all) {
    if (out.empty() || out.back().key != series.key) {
      kept = target;
      out.push_back(std::move(series));
    } else if (told.insert(target).second) {
      scrapes[target].problems.push_back(
          {targets[target].name,
           fmt::format(
               "{} gives the series {} with the same labels, and this one is not used: give "
               "each target labels of its own, or list it once",
               targets[kept].name, core::quoted(series.key.name))});
    }
  }
  return out;
}

/// The last thing that happens here: `done` may destroy this object.
void ScrapeSource::Impl::finish() {
  timer.reset();
  Fetched fetched;
  fetched.series = joined();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Scrape& scrape = scrapes[i];
    (scrape.reached ? fetched.reached : fetched.missed).push_back(targets[i].name);
    std::move(scrape.problems.begin(), scrape.problems.end(), std::back_inserter(fetched.problems));
  }
  fetched.failed = !targets.empty() && fetched.reached.empty();
  scrapes.clear();
  auto report = std::move(done);
  report(std::move(fetched));
}

ScrapeSource::ScrapeSource(net::EventLoop& loop, net::Network& network, ScrapeConfig config)
    : impl_(std::make_unique<Impl>(loop, network, config)) {}
ScrapeSource::~ScrapeSource() = default;

void ScrapeSource::fetch(double now_s, const Wanted& wanted, UniqueFunction<void(Fetched)> done) {
  TAILRACE_CHECK(!impl_->done);
  impl_->done = std::move(done);
  impl_->start(now_s, wanted);
}

}  // namespace tailrace::observe
