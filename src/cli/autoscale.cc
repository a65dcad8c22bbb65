#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "tailrace/autoscaler/service.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/net/event_loop.h"

namespace tailrace::cli {
namespace {

struct AutoscaleOptions {
  std::string config = "autoscaler.yaml";
  std::string ports_file;
  bool once = false, dry_run = false, json = false;
};

int complain(const Error& error, int code) {
  fmt::print(stderr, "tailrace autoscale: {}\n", error.message);
  return code;
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported
             ? kExitUsage
             : kExitFailed;
}

Result<autoscaler::Config> read(const AutoscaleOptions& options) {
  auto config = autoscaler::load_config(options.config, core::process_environment());
  std::error_code unasked;
  if (!config && !std::filesystem::exists(options.config, unasked)) {
    config.error().message += "; name the file with -c";
  }
  return config;
}

/// 1: it could not decide, or not do. 3: it could, and no number of replicas that it may have keeps
/// the SLO.
int exit_code_of(const autoscaler::CycleReport& report) {
  if (report.failed()) return kExitFailed;
  for (const auto& [id, result] : report.results) {
    if (!result.done) return kExitFailed;
  }
  return report.slo_unreachable() ? kExitInfeasible : 0;
}

class Autoscale {
 public:
  explicit Autoscale(const AutoscaleOptions& options)
      : options_(options),
        loop_(net::make_event_loop()),
        network_(net::make_socket_network(*loop_)) {}

  int run();

 private:
  Result<void> launch(autoscaler::Config config,
                      std::shared_ptr<autoscaler::Database> database = nullptr,
                      bool must_go_on = false);
  Result<void> announce() const;
  void end();
  void reload();
  void show(const autoscaler::CycleReport& report) const;

  const AutoscaleOptions& options_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<net::Network> network_;
  std::unique_ptr<autoscaler::Service> service_;
  autoscaler::Config config_;  ///< of the service
  int exit_code_ = 0;
  bool leaving_ = false, reloading_ = false, again_ = false, reported_ = false;
};

Result<void> Autoscale::launch(autoscaler::Config config,
                               std::shared_ptr<autoscaler::Database> database, bool must_go_on) {
  log::configure(config.log_level, config.log_format);
  autoscaler::Config kept = config;
  autoscaler::ServiceOptions options;
  options.once = options_.once;
  options.dry_run = options_.dry_run;
  options.version = TAILRACE_VERSION;
  options.database = std::move(database);
  options.must_go_on = must_go_on;
  auto service = autoscaler::Service::make(*loop_, *network_, std::move(config), options);
  if (!service) return fail(service.error());
  service_ = std::move(*service);
  config_ = std::move(kept);
  service_->start([this](const autoscaler::CycleReport& report) {
    show(report);
    reported_ = true;
    exit_code_ = exit_code_of(report);
    end();
  });
  return {};
}

Result<void> Autoscale::announce() const {
  const auto endpoint = service_->endpoint();
  if (endpoint) {
    log::info("listening", {{"metrics", net::to_string(*endpoint)}, {"version", TAILRACE_VERSION}});
  }
  if (options_.ports_file.empty()) return {};
  return core::write_file_atomically(
      options_.ports_file,
      fmt::format("{{\"metrics\":{}}}\n", endpoint ? std::to_string(endpoint->port) : "null"));
}

void Autoscale::show(const autoscaler::CycleReport& report) const {
  if (options_.json) {
    fmt::print("{}\n", autoscaler::report_json(report));
  } else {
    fmt::print("{}", autoscaler::report_table(report));
  }
}

void Autoscale::end() {
  leaving_ = true;
  // Not inside the loop's own call.
  loop_->post([this] { service_->stop([this] { loop_->stop(); }); });
}

/// Ends and begins again with the file as it is now: as a restart, which moves no replica. With the
/// old one where the new one cannot be launched.
void Autoscale::reload() {
  if (reloading_) {
    again_ = true;  // the file may have changed since it was read
    return;
  }
  std::error_code unasked;
  if (std::filesystem::exists(options_.config, unasked) &&
      !std::filesystem::is_regular_file(options_.config, unasked)) {
    return log::error("reload", {{"message", core::quoted(options_.config, 256) +
                                                 " is no regular file, and others are not waited "
                                                 "for; the old one stays in force"}});
  }
  auto config = read(options_);
  if (!config) {
    log::error("reload", {{"message", config.error().message + "; the old one stays in force"}});
    return;
  }
  reloading_ = true;
  log::info("reload", {{"config", options_.config}});
  service_->stop([this, config = std::move(*config)]() mutable {
    loop_->post([this, config = std::move(config)]() mutable {
      const auto database = service_->database();
      service_.reset();
      reloading_ = false;
      if (leaving_) return loop_->stop();
      const autoscaler::Config old = config_;
      auto launched = launch(std::move(config), database);
      if (!launched) {
        log::error("reload", {{"message", launched.error().message + "; back to the old one"}});
        launched = launch(old, database, true);
        if (launched) log::info("reload", {{"message", "the old one is in force again"}});
      }
      if (!launched) {
        exit_code_ = complain(launched.error(), exit_code_of(launched.error()));
        return loop_->stop();
      }
      if (auto announced = announce(); !announced) {
        log::error("ports_file", {{"message", announced.error().message}});
      }
      if (std::exchange(again_, false)) reload();
    });
  });
}

int Autoscale::run() {
  auto config = read(options_);
  if (!config) return complain(config.error(), kExitUsage);
  if (options_.once && options_.json && !options_.dry_run && config->decision_log.file == "-") {
    return complain({ErrorCode::kInvalidArgument,
                     "--json and decision_log.file \"-\" would both write to standard output; "
                     "leave out --json, or name a file in decision_log.file"},
                    kExitUsage);
  }
  // Before anybody can know that it is there: the loop hands on what comes sooner.
  loop_->on_terminate([this](int signal) {
    if (signal == SIGHUP) {
      if (!options_.once) return reload();
      return log::info("signal_ignored", {{"signal", signal}, {"message", "--once reads once"}});
    }
    if (leaving_) {
      log::warn("exit_now", {{"signal", signal}});
      exit_code_ = kExitFailed;
      return loop_->stop();
    }
    leaving_ = true;
    log::info("stopping", {{"signal", signal}});
    if (!reloading_) service_->stop([this] { loop_->stop(); });
  });
  auto launched = launch(std::move(*config));
  if (launched) launched = announce();
  if (!launched) return complain(launched.error(), exit_code_of(launched.error()));
  loop_->run();
  service_.reset();
  if (options_.once && !reported_) {
    return complain({ErrorCode::kUnavailable, "ended by a signal before it had decided"},
                    kExitFailed);
  }
  return exit_code_;
}

}  // namespace

void add_autoscale(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "autoscale",
      "Size the replicas of each model by what its pods and gateways report.\n\n"
      "SIGTERM or SIGINT ends it: orders under way are waited for, replicas stay; a second one "
      "exits at once. SIGHUP reads the file again. With --once it decides one time: exit code 0, 1 "
      "when it could not decide or not carry out, or a signal ended it first, 3 when no replicas "
      "that it may have keep the "
      "SLO.\n\n"
      "Example: tailrace autoscale -c autoscaler.yaml --once --dry-run");
  auto options = std::make_shared<AutoscaleOptions>();
  command->add_option("-c,--config", options->config, "Configuration file (YAML)")
      ->capture_default_str();
  command->add_flag("--once", options->once,
                    "One cycle, then exit. Exporters that are scraped are read twice, an interval "
                    "or at most 5 s apart: rates need two readings");
  command->add_flag("--dry-run", options->dry_run,
                    "Change nothing: no replica, no record; may run beside another one");
  command->add_flag("--json", options->json, "With --once: print one JSON document");
  command->add_option("--ports-file", options->ports_file,
                      "Write {\"metrics\":PORT} here once listening");
  command->callback([options, &exit_code] { exit_code = Autoscale(*options).run(); });
}

}  // namespace tailrace::cli
