#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/gateway/config.h"
#include "tailrace/gateway/gateway.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::cli {
namespace {

struct ServeOptions {
  std::string config = "tailrace.yaml";
  std::string ports_file;
};

int complain(const Error& error, int code) {
  fmt::print(stderr, "tailrace serve: {}\n", error.message);
  return code;
}

Result<void> announce(const gateway::Gateway& gateway, const ServeOptions& options) {
  const auto open = gateway.public_endpoint();
  const auto admin = gateway.admin_endpoint();
  log::info("listening", {{"public", net::to_string(open)},
                          {"admin", admin ? net::to_string(*admin) : std::string("off")},
                          {"version", TAILRACE_VERSION}});
  if (options.ports_file.empty()) return {};
  return core::write_file_atomically(
      options.ports_file, fmt::format("{{\"public\":{},\"admin\":{}}}\n", open.port,
                                      admin ? std::to_string(admin->port) : std::string("null")));
}

int serve(const ServeOptions& options) {
  auto config = gateway::load_config(options.config);
  if (!config) {
    std::error_code unasked;
    if (!std::filesystem::exists(options.config, unasked)) {
      config.error().message +=
          "; name the file with -c, or begin with a copy of examples/tailrace.yaml";
    }
    return complain(config.error(), kExitUsage);
  }
  log::configure(config->logging.level, config->logging.format);
  for (const auto& doubt :
       gateway::doubtful_overrides(*config, gateway::process_environment_names())) {
    log::warn("environment", {{"doubt", doubt}});
  }
  const auto loop = net::make_event_loop();
  const auto network = net::make_socket_network(*loop);
  gateway::GatewayParts parts;
  parts.version = TAILRACE_VERSION;
  auto gateway = gateway::Gateway::start(std::move(*config), *loop, *network, std::move(parts));
  if (!gateway) return complain(gateway.error(), kExitFailed);

  int exit_code = 0;
  bool leaving = false;
  loop->on_terminate([&](int signal) {
    if (leaving) {
      // Asked twice: now. Only what still runs is lost.
      const auto active = (*gateway)->active_requests();
      log::warn("exit_now", {{"signal", signal}, {"cut", static_cast<std::uint64_t>(active)}});
      if (active > 0) exit_code = kExitFailed;
      (*gateway)->cut_everything();
      loop->stop();
      return;
    }
    leaving = true;
    (*gateway)->begin_drain([&](bool clean) {
      if (!clean) exit_code = kExitFailed;
      loop->stop();
    });
  });
  if (auto announced = announce(**gateway, options); !announced) {
    return complain(announced.error(), kExitFailed);
  }
  loop->run();
  gateway->reset();  // saves what was learned
  log::info("stopped", {{"exit_code", exit_code}});
  return exit_code;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "serve",
      "Run the gateway in front of engines that speak the OpenAI API.\n\n"
      "SIGTERM, SIGINT or SIGHUP drains it: running answers finish, new requests get "
      "503; a second one exits at "
      "once.\n\nExample: tailrace serve -c tailrace.yaml");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("-c,--config", options->config, "Configuration file (YAML)")
      ->capture_default_str();
  command->add_option("--ports-file", options->ports_file,
                      "Write {\"public\":PORT,\"admin\":PORT} here once listening");
  command->callback([options, &exit_code] { exit_code = serve(*options); });
}

}  // namespace tailrace::cli
