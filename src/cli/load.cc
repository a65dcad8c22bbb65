// `tailrace load`: open-loop load on a server that speaks the OpenAI API.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "tailrace/core/open_files.h"
#include "tailrace/core/text.h"
#include "tailrace/loadgen/load_report.h"
#include "tailrace/loadgen/load_run.h"

namespace tailrace::cli {
namespace {

constexpr std::size_t kInputBytesMax = std::size_t{1} << 30;
constexpr std::int64_t kCountMax = 10'000'000;

struct Options {
  std::string url = "http://127.0.0.1:8080";
  std::string requests_file;
  std::string synthetic;
  std::string trace_file;
  double rate = 0;
  std::uint64_t seed = 1;
  std::optional<double> duration_s;
  std::optional<std::int64_t> count_given;
  std::optional<std::size_t> count;  // the same, when checked
  std::vector<std::string> headers;
  loadgen::Targets targets;
  bool json = false;
  bool print_requests = false;
  std::string csv_file;
  loadgen::LoadOptions load;
};

struct Workload {
  std::vector<loadgen::LoadRequest> requests;
  std::vector<loadgen::PlannedRequest> plan;
};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::vector<loadgen::LoadRequest>> read_requests(const Options& options) {
  if (options.requests_file.empty() == options.synthetic.empty()) {
    return bad("give either --requests FILE or --synthetic SPEC");
  }
  if (!options.synthetic.empty()) {
    if (!options.count) return bad("--synthetic needs --count N");
    return loadgen::synthetic_requests(options.synthetic, *options.count, options.seed);
  }
  auto text = core::read_file(options.requests_file, kInputBytesMax);
  if (!text) return fail(text.error());
  auto requests = loadgen::parse_requests(*text);
  if (!requests) return fail(requests.error().with_context(options.requests_file));
  return requests;
}

/// Arrival times: the requests' own, a trace's, or a Poisson process.
Result<std::vector<double>> read_arrivals(const Options& options,
                                          const std::vector<loadgen::LoadRequest>& requests) {
  if (!options.trace_file.empty()) {
    auto text = core::read_file(options.trace_file, kInputBytesMax);
    if (!text) return fail(text.error());
    auto arrivals = loadgen::parse_arrivals(*text);
    if (!arrivals) return fail(arrivals.error().with_context(options.trace_file));
    return arrivals;
  }
  if (options.rate > 0) {
    const auto count = options.count || options.duration_s
                           ? options.count
                           : std::optional<std::size_t>(requests.size());
    return loadgen::poisson_arrivals(options.rate, count, options.duration_s,
                                     Rng(options.seed).fork("arrivals"));
  }
  return loadgen::own_arrivals(requests);
}

Result<Workload> plan_load(const Options& options) {
  Workload workload;
  auto requests = read_requests(options);
  if (!requests) return fail(requests.error());
  workload.requests = std::move(*requests);
  if (options.print_requests) return workload;
  auto arrivals = read_arrivals(options, workload.requests);
  if (!arrivals) return fail(arrivals.error());
  for (const double at : *arrivals) {
    if (options.duration_s && at >= *options.duration_s) break;
    if (options.count && workload.plan.size() == *options.count) break;
    workload.plan.push_back({at, workload.plan.size() % workload.requests.size()});
  }
  if (workload.plan.empty()) return bad("no request arrives within --duration");
  return workload;
}

Result<loadgen::LoadOptions> load_options(const Options& options) {
  loadgen::LoadOptions load = options.load;
  auto url = net::parse_url(options.url);
  if (!url) return fail(url.error().with_context("--url"));
  load.target = std::move(*url);
  const Output csv{"--csv", options.csv_file};
  const std::vector<std::string> inputs = {options.requests_file, options.trace_file};
  if (auto writable = may_write_all({&csv, 1}, inputs); !writable) return fail(writable.error());
  if (!(load.time_scale > 0)) {
    return bad(fmt::format("--time-scale is {}; it must be above 0", load.time_scale));
  }
  for (const std::string& header : options.headers) {
    const std::size_t colon = header.find(':');
    if (colon == std::string::npos || colon == 0) {
      return bad(fmt::format("--header is {}; write it as \"name: value\"", core::quoted(header)));
    }
    load.headers.push_back({header.substr(0, colon),
                            std::string(core::trim(std::string_view(header).substr(colon + 1)))});
  }
  return load;
}

/// Refreshes one line on a terminal's standard error, once a second; nothing elsewhere.
class ProgressLine {
 public:
  ProgressLine(net::EventLoop& loop, const loadgen::LoadRun& run) : loop_(loop), run_(run) {
    if (isatty(STDERR_FILENO)) show();
  }
  ~ProgressLine() {
    if (timer_) fmt::print(stderr, "\r\033[K");
  }

 private:
  void show() {
    const loadgen::LoadProgress p = run_.progress();
    fmt::print(stderr, "\r\033[Ksent {}/{}, in flight {}, completed {}, failed {}", p.sent,
               p.planned, p.in_flight, p.completed, p.failed);
    std::fflush(stderr);
    timer_ = loop_.after(std::chrono::seconds(1), [this] { show(); });
  }
  net::EventLoop& loop_;
  const loadgen::LoadRun& run_;
  std::unique_ptr<net::Timer> timer_;
};

int print_requests(const Workload& workload) {
  for (const auto& request : workload.requests) fmt::print("{}\n", loadgen::to_json_line(request));
  return 0;
}

int report_run(const Options& options, const loadgen::LoadRun& run) {
  loadgen::LoadReport report = loadgen::summarise_run(run.outcomes(), run.token_gaps(),
                                                      options.targets, options.load.time_scale);
  report.first_errors = run.first_errors();
  fmt::print("{}", options.json ? to_json(report) + "\n" : to_text(report));
  if (!options.csv_file.empty()) {
    const auto written =
        core::write_file_atomically(options.csv_file, loadgen::to_csv(run.outcomes()));
    if (!written) {
      fmt::print(stderr, "tailrace load: --csv: {}\n", written.error().message);
      return kExitFailed;
    }
  }
  return report.completed == 0 ? kExitFailed : 0;
}

int run_load(const Options& options, Workload workload, loadgen::LoadOptions load) {
  core::allow_open_files(load.in_flight_max);
  auto loop = net::make_event_loop();
  auto network = net::make_socket_network(*loop);
  auto client = net::HttpClient::make(*loop, *network);
  auto run = loadgen::LoadRun::make(*loop, *client, std::move(workload.requests),
                                    std::move(workload.plan), std::move(load));
  {
    ProgressLine line(*loop, *run);
    loop->on_terminate([&](int) { run->cancel(); });
    run->start([&] { loop->stop(); });
    loop->run();
  }
  return report_run(options, *run);
}

/// Signed on the command line, so that -1 is told as -1.
Result<void> settle_count(Options& options) {
  if (!options.count_given) return {};
  if (*options.count_given < 1 || *options.count_given > kCountMax) {
    return bad(
        fmt::format("--count is {}; it must be from 1 to {}", *options.count_given, kCountMax));
  }
  options.count = static_cast<std::size_t>(*options.count_given);
  return {};
}

int execute(Options& options) {
  auto counted = settle_count(options);
  auto workload = counted ? plan_load(options) : fail(counted.error());
  auto load = workload ? load_options(options) : fail(workload.error());
  if (!load) {
    fmt::print(stderr, "tailrace load: {}\n", load.error().message);
    return kExitUsage;
  }
  if (options.print_requests) return print_requests(*workload);
  return run_load(options, std::move(*workload), std::move(*load));
}

/// The library's own checks print the largest double with all its digits.
std::string number_above_zero(const std::string& text) {
  const auto value = core::parse_double(text);
  return value && *value > 0 && std::isfinite(*value) ? "" : text + " is not a number above 0";
}
std::string number_from_zero(const std::string& text) {
  const auto value = core::parse_double(text);
  return value && *value >= 0 && std::isfinite(*value) ? "" : text + " is not a number from 0 on";
}

void add_workload_options(CLI::App& command, Options& options) {
  command.add_option("--requests", options.requests_file, "JSON lines, one request each");
  command.add_option("--synthetic", options.synthetic,
                     "Drawn requests: heavy-tail[:mu=4.6,mu_sd=0.9,sigma=0.75,sigma_log_sd=0.4,"
                     "nu=3.5,cap=2048]");
  command.add_flag("--print-requests", options.print_requests,
                   "Write the requests as JSON lines and send nothing");
  command.add_option("--rate", options.rate, "Poisson arrivals per second")
      ->check(number_above_zero, "NUMBER > 0");
  command
      .add_option("--trace", options.trace_file,
                  "Arrival times: CSV with a column t_s or arrival_s")
      ->excludes("--rate");
  command.add_option("--seed", options.seed, "Seed of arrivals and drawn requests")
      ->capture_default_str();
  command.add_option("--count", options.count_given,
                     "Requests to send; a shorter file is used again from its start");
  command.add_option("--duration", options.duration_s, "Seconds within which requests arrive")
      ->check(number_above_zero, "NUMBER > 0");
}

void add_target_options(CLI::App& command, Options& options) {
  loadgen::LoadOptions& load = options.load;
  command.add_option("--url", options.url, "Server, before /v1")->capture_default_str();
  command.add_option("--model", load.model, "Model name to ask for")->capture_default_str();
  command.add_flag("--stream,!--no-stream", load.stream, "Ask for an event stream (default)");
  command
      .add_option("--time-scale", load.time_scale,
                  "Emulated seconds per real second: every time given and reported is emulated")
      ->capture_default_str();
  command
      .add_option("--max-in-flight", load.in_flight_max,
                  "Requests under way at once; later ones wait and their latency counts")
      ->check(number_above_zero, "NUMBER > 0")
      ->capture_default_str();
  command.add_flag("--send-laws", load.send_laws,
                   "Send each request's law as x-tailrace-length-law (the gateway reads it only "
                   "with predict.accept_given_laws: true)");
  command.add_flag("--send-lengths", load.send_lengths,
                   "Send each request's true length as emulator_output_tokens, for tailrace "
                   "engine");
  command.add_option("--header", options.headers, "\"Name: value\" for every request; repeatable");
  command.add_option("--timeout", load.timeout_s, "Seconds after which a request counts as failed")
      ->check(number_from_zero, "NUMBER >= 0");
}

void add_report_options(CLI::App& command, Options& options) {
  command.add_option("--ttft", options.targets.ttft_s, "Goodput target for time to first token, s");
  command.add_option("--itl", options.targets.itl_s,
                     "Goodput target for mean time between tokens, s");
  command.add_flag("--json", options.json, "Print one JSON document");
  command.add_option("--csv", options.csv_file, "Write one line per request there");
}

}  // namespace

void add_load(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "load",
      "Send open-loop load and report latencies from the intended send time.\n\n"
      "Example: tailrace load --url http://127.0.0.1:8080 --model emulated --synthetic heavy-tail "
      "--count 200 --rate 10 --send-lengths\n"
      "Exit codes: 0 some request completed, 1 every request failed, 2 bad usage or input");
  auto options = std::make_shared<Options>();
  options->load.model = "emulated";
  add_workload_options(*command, *options);
  add_target_options(*command, *options);
  add_report_options(*command, *options);
  command->callback([options, &exit_code] { exit_code = execute(*options); });
}

}  // namespace tailrace::cli
