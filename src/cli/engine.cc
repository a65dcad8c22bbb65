// `tailrace engine`: an emulated engine behind an OpenAI-compatible server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/presets.h"
#include "tailrace/core/log.h"
#include "tailrace/core/open_files.h"
#include "tailrace/core/text.h"
#include "tailrace/emulator/emulator.h"
#include "tailrace/engine/presets.h"
#include "tailrace/engine/profile.h"

namespace tailrace::cli {
namespace {

struct Options {
  std::string preset{engine::presets().front().name};
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string ports_file;
  std::string fault;
  double drain_s = 30;
  bool list_presets = false;
  bool json = false;
  emulator::EmulatorConfig config;
  // Absent: the preset's.
  std::optional<double> alpha_ms, beta_ms, gamma_ms, knee_tokens;
  std::optional<std::int64_t> max_num_seqs, max_batched_tokens, max_model_len, kv_tokens, kv_blocks,
      block_tokens, long_prefill_tokens;
  bool prefix_caching = false;
  std::string scheduling = "fcfs";
  std::optional<engine::TimeFit> fit;  // of the profile's measured times
};

int usage_error(std::string_view message) {
  fmt::print(stderr, "tailrace engine: {}\n", message);
  return kExitUsage;
}

Result<void> apply_memory(const Options& options, engine::EngineConfig& engine) {
  if (options.kv_tokens && options.kv_blocks) {
    return fail(ErrorCode::kInvalidArgument,
                "--kv-tokens and --kv-blocks both say how much memory there is; give one of them");
  }
  std::int64_t kv_tokens = engine.usable_blocks() * engine.block_tokens;
  if (options.kv_tokens) kv_tokens = *options.kv_tokens;
  if (options.block_tokens) engine.block_tokens = *options.block_tokens;
  // Checked here too, since what follows divides by it.
  if (auto ok = engine.check(); !ok) return ok;
  constexpr std::int64_t kMost = 1'000'000'000'000;
  if (kv_tokens < 1 || kv_tokens > kMost) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--kv-tokens is {}; it must be from 1 to {}", kv_tokens, kMost));
  }
  if (kv_tokens < engine.block_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--kv-tokens is {}, less than one block of {}; give more, or a smaller "
                            "--block-size",
                            kv_tokens, engine.block_tokens));
  }
  if (options.kv_tokens || options.block_tokens) {
    engine.kv_blocks = engine::EngineConfig::blocks_for(kv_tokens, engine.block_tokens);
  }
  if (options.kv_blocks) engine.kv_blocks = *options.kv_blocks;
  return {};
}

Result<void> apply_preset(Options& options) {
  auto profile = engine::find_profile(options.preset);
  if (!profile) return fail(profile.error());
  engine::EngineConfig& engine = options.config.engine;
  engine = profile->config;
  options.fit = profile->fit;
  if (options.alpha_ms) engine.cost.alpha_ms = *options.alpha_ms;
  if (options.beta_ms) engine.cost.beta_ms = *options.beta_ms;
  if (options.gamma_ms) engine.cost.gamma_ms = *options.gamma_ms;
  if (options.knee_tokens) engine.cost.knee_tokens = *options.knee_tokens;
  if (options.max_num_seqs) engine.max_num_seqs = *options.max_num_seqs;
  if (options.max_batched_tokens) engine.max_batched_tokens = *options.max_batched_tokens;
  if (options.max_model_len) engine.max_model_len = *options.max_model_len;
  if (options.long_prefill_tokens) engine.long_prefill_tokens = *options.long_prefill_tokens;
  if (options.prefix_caching) engine.prefix_caching = true;
  if (auto ok = apply_memory(options, engine); !ok) return ok;
  if (options.scheduling == "priority") {
    options.config.scheduling = emulator::EmulatorConfig::Scheduling::kPriority;
  } else if (options.scheduling != "fcfs") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--scheduling-policy {} is unknown; use fcfs or priority",
                            core::quoted(options.scheduling)));
  }
  if (!options.fault.empty()) {
    auto fault = emulator::parse_fault(options.fault);
    if (!fault) return fail(fault.error());
    options.config.fault = *fault;
  }
  return {};
}

int serve(Options options) {
  if (auto ok = apply_preset(options); !ok) return usage_error(ok.error().message);
  if (auto ok = options.config.check(); !ok) return usage_error(ok.error().message);
  options.config.listen = {options.host, options.port, false};
  options.config.unix_start_s = std::time(nullptr);
  core::allow_open_files(net::ServerLimits{}.connections_max);
  auto loop = net::make_event_loop();
  auto network = net::make_socket_network(*loop);
  auto server = emulator::Emulator::start(*loop, *network, options.config);
  if (!server) {
    fmt::print(stderr, "tailrace engine: {}\n", server.error().message);
    return kExitFailed;
  }
  const net::Endpoint local = (*server)->local();
  if (!options.ports_file.empty()) {
    const auto written = core::write_file_atomically(options.ports_file,
                                                     fmt::format("{{\"port\":{}}}\n", local.port));
    if (!written) {
      fmt::print(stderr, "tailrace engine: {}\n", written.error().message);
      return kExitFailed;
    }
  }
  log::info("engine_listening", {{"address", net::to_string(local)},
                                 {"model", options.config.model},
                                 {"preset", options.preset},
                                 {"max_num_seqs", options.config.engine.max_num_seqs},
                                 {"time_scale", options.config.time_scale}});
  if (options.fit) {
    log::info("engine_times_fitted", {{"alpha_ms", options.fit->alpha_ms},
                                      {"beta_ms", options.fit->beta_ms},
                                      {"knee_tokens", options.fit->knee_tokens},
                                      {"rms_error", options.fit->rms_error},
                                      {"worst_error", options.fit->worst_error},
                                      {"worst_tokens", options.fit->worst_tokens}});
  }
  bool draining = false;
  loop->on_terminate([&](int) {
    if (draining) return loop->stop();  // a second signal means now
    draining = true;
    log::info("engine_draining");
    (*server)->drain(from_seconds(options.drain_s), [&] { loop->stop(); });
  });
  loop->run();
  log::info("engine_stopped");
  return 0;
}

}  // namespace

void add_engine(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "engine",
      "Run an emulated engine behind an OpenAI-compatible server.\n\n"
      "Example: tailrace engine --preset h100-8b --max-num-seqs 32 --time-scale 10 --port 8000");
  auto options = std::make_shared<Options>();
  emulator::EmulatorConfig& config = options->config;
  command
      ->add_option(
          "--preset", options->preset,
          "Engine by name (see `tailrace presets`), or a profile's file that ends in .yaml")
      ->capture_default_str();
  command->add_flag("--list-presets", options->list_presets, "List the presets and exit");
  command->add_flag("--json", options->json, "With --list-presets: one JSON document");
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port; 0 picks a free one")->capture_default_str();
  command->add_option("--ports-file", options->ports_file,
                      "Write {\"port\": N} there when listening");
  command->add_option("--model", config.model, "Served model name")->capture_default_str();
  command->add_option("--time-scale", config.time_scale, "Emulated seconds per real second")
      ->capture_default_str();
  command->add_option("--alpha", options->alpha_ms,
                      "Fixed milliseconds per iteration, instead of the preset's");
  command->add_option("--beta", options->beta_ms,
                      "Milliseconds per computed token above the knee, likewise");
  command->add_option("--gamma", options->gamma_ms, "Milliseconds per KV token, likewise");
  command->add_option("--knee", options->knee_tokens,
                      "Tokens per iteration that cost nothing, likewise");
  command->add_option("--max-num-seqs", options->max_num_seqs,
                      "Sequences in the batch (slots), likewise");
  command->add_option("--max-batched-tokens", options->max_batched_tokens,
                      "Tokens per iteration, likewise");
  command->add_option("--kv-tokens", options->kv_tokens, "KV capacity in tokens, likewise");
  command->add_option("--kv-blocks", options->kv_blocks,
                      "The same in blocks, as engines log num_gpu_blocks; one is reserved");
  command->add_option("--block-size", options->block_tokens, "Tokens in a KV block, likewise");
  command->add_flag("--prefix-caching", options->prefix_caching,
                    "Keep the KV blocks of prompts and share them with prompts that begin alike");
  command->add_option("--long-prefill-tokens", options->long_prefill_tokens,
                      "Most tokens of one prompt in an iteration; 0: no limit of its own");
  command
      ->add_option("--scheduling-policy", options->scheduling,
                   "fcfs, or priority: by the request's \"priority\", lower first")
      ->capture_default_str();
  command->add_option("--max-model-len", options->max_model_len,
                      "Prompt and answer together, tokens, instead of the preset's");
  command
      ->add_option("--max-queue", config.queued_max,
                   "Running and waiting sequences together; 503 beyond")
      ->capture_default_str();
  command
      ->add_option("--length-mu", config.lengths.mu,
                   "Drawn lengths: ln of the typical length in tokens (4.6: about 100)")
      ->capture_default_str();
  command
      ->add_option("--length-mu-sd", config.lengths.mu_sd,
                   "How far that differs from prompt to prompt (standard deviation)")
      ->capture_default_str();
  command->add_option("--length-sigma", config.lengths.sigma, "Scale of ln(length) for one prompt")
      ->capture_default_str();
  command->add_option("--seed", config.lengths.seed, "Seed of the drawn lengths")
      ->capture_default_str();
  command->add_option(
      "--fault", options->fault,
      "Fault of every request: die_before_first_byte, die_mid_stream, never_answer, "
      "error_in_stream, or status_400 to status_599");
  command->add_option("--drain-timeout", options->drain_s, "Seconds for running answers on SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->callback([options, &exit_code] {
    if (options->list_presets) {
      print_presets(options->json);
    } else {
      exit_code = serve(*options);
    }
  });
}

}  // namespace tailrace::cli
