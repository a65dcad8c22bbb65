#include "cli/service_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <tuple>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/engine/presets.h"
#include "tailrace/engine/profile.h"
#include "tailrace/simulate/latency_oracle.h"

namespace tailrace::cli {
namespace {

using queueing::Iterations;
using queueing::Mode;

constexpr double kCvMax = 1000;
constexpr double kTokensMax = 1e9;

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> read_into(double& to, std::string_view flag, const std::optional<std::string>& text,
                       std::string_view remedy) {
  if (!text) return {};
  const auto value = read_real(flag, *text, remedy);
  if (!value) return fail(value.error());
  to = *value;
  return {};
}

Result<void> read_into(std::int64_t& to, std::string_view flag,
                       const std::optional<std::string>& text, std::string_view remedy) {
  if (!text) return {};
  const auto value = core::parse_int(*text);
  if (!value) {
    return bad(
        fmt::format("{}: {} is not a whole number; give {}", flag, core::quoted(*text), remedy));
  }
  to = *value;
  return {};
}

Result<Iterations> read_iterations(const ServiceFlags& flags, Mode mode) {
  const bool published = mode != Mode::kCorrected;
  if (!flags.iterations) return published ? Iterations::kOutputPlusOne : Iterations::kOutput;
  if (*flags.iterations == "output+1") return Iterations::kOutputPlusOne;
  if (*flags.iterations != "output") {
    return bad(
        fmt::format("iterations: {} is unknown; give output (the prefill makes the first "
                    "token, as in vLLM) or output+1 (as published)",
                    core::quoted(*flags.iterations)));
  }
  if (published) {
    return bad(
        fmt::format("iterations: \"output\" is not possible with --model {}, which counts "
                    "output+1; leave it out, or use --model corrected",
                    to_string(mode)));
  }
  return Iterations::kOutput;
}

/// Coefficients of variation and the share of hits.
struct Shape {
  double input_cv = 0, output_cv = 0, prefix_hit = 0;
};

/// Of lengths from `least` tokens on.
Result<void> check_cv(std::string_view flag, double cv, double mean, double least) {
  if (!(cv >= 0) || !(cv <= kCvMax)) {
    return bad(
        fmt::format("{}: {} is not a number from 0 to {}; give the standard deviation of "
                    "the lengths over their mean, such as 1",
                    flag, cv, kCvMax));
  }
  if (mean * std::hypot(1, cv) > kTokensMax) {
    return bad(
        fmt::format("{}: {} makes lengths around {} tokens exceed {} tokens; give a smaller "
                    "one",
                    flag, cv, mean, kTokensMax));
  }
  const double most = mean > 0 ? std::sqrt((mean - least) * (kTokensMax - mean)) / mean : 0;
  if (cv > most) {
    return bad(
        fmt::format("{}: {} is more than lengths of {} tokens on average can have, each of "
                    "them from {} to {}; give at most {:.6g}",
                    flag, cv, mean, least, kTokensMax, most));
  }
  return {};
}

Result<Shape> read_shape(const ServiceFlags& flags) {
  Shape shape;
  for (const auto& ok : {read_into(shape.input_cv, "input-cv", flags.input_cv,
                                   "the coefficient of variation of prompt lengths, such as 0.5"),
                         read_into(shape.output_cv, "output-cv", flags.output_cv,
                                   "the coefficient of variation of answer lengths, such as 1"),
                         read_into(shape.prefix_hit, "prefix-hit", flags.prefix_hit,
                                   "a share of prompt tokens from 0 to 1")}) {
    if (!ok) return fail(ok.error());
  }
  return shape;
}

/// The replica that --preset describes; flags beside it change it.
Result<engine::EngineConfig> read_preset(const ServiceFlags& flags, queueing::ServiceModel& model) {
  auto profile = engine::find_profile(*flags.preset);
  if (!profile) return fail(profile.error().with_context("preset"));
  const engine::EngineConfig& engine = profile->config;
  const queueing::ServiceModel described = simulate::service_model_of(engine);
  model.iteration = described.iteration;
  model.limits = described.limits;
  return engine;
}

/// What there is no preset for, the caller has to say.
Result<void> check_times_given(const ServiceFlags& flags) {
  if (flags.preset) return {};
  for (const auto& [name, given, what] :
       {std::tuple{"alpha", &flags.alpha, "milliseconds an iteration, such as 10.6"},
        {"beta", &flags.beta, "milliseconds a token computed, such as 0.042"},
        {"gamma", &flags.gamma, "milliseconds a token of context, such as 5.8e-5"}}) {
    if (*given) continue;
    return bad(fmt::format("{}: missing; give {}, or --preset NAME (tailrace presets lists them)",
                           name, what));
  }
  return {};
}

Result<queueing::ServiceModel> read_model(const ServiceFlags& flags,
                                          std::optional<engine::EngineConfig>& preset) {
  queueing::ServiceModel model;
  if (const auto ok = check_times_given(flags); !ok) return fail(ok.error());
  if (flags.preset) {
    auto engine = read_preset(flags, model);
    if (!engine) return fail(engine.error());
    preset = *engine;
  }
  const auto mode = queueing::parse_mode(flags.model);
  if (!mode) return bad("model: " + mode.error().message);
  model.mode = *mode;
  const auto iterations = read_iterations(flags, *mode);
  if (!iterations) return fail(iterations.error());
  model.iterations = *iterations;
  auto& iteration = model.iteration;
  auto& limits = model.limits;
  for (const auto& ok :
       {read_into(iteration.alpha_ms, "alpha", flags.alpha,
                  "milliseconds an iteration, such as 10.6"),
        read_into(iteration.beta_ms, "beta", flags.beta,
                  "milliseconds a token computed, such as 0.042"),
        read_into(iteration.gamma_ms, "gamma", flags.gamma,
                  "milliseconds a token of context, such as 5.8e-5"),
        read_into(iteration.knee_tokens, "knee-tokens", flags.knee_tokens,
                  "the tokens that an iteration computes at no cost, such as 0"),
        read_into(iteration.per_request_ms, "per-request", flags.per_request,
                  "milliseconds an iteration and sequence, such as 0.02"),
        read_into(limits.max_num_seqs, "max-batch", flags.max_batch,
                  "the engine's limit of concurrent sequences, such as 256"),
        read_into(limits.max_queue, "max-queue", flags.max_queue,
                  "how many may wait beside the batch, such as 100"),
        read_into(limits.max_batched_tokens, "max-batched-tokens", flags.max_batched_tokens,
                  "the engine's limit of tokens an iteration, such as 8192, or 0 for none"),
        read_into(limits.kv_tokens, "kv-tokens", flags.kv_tokens,
                  "the tokens of context that fit in memory, such as 226992, or 0 for no limit")}) {
    if (!ok) return fail(ok.error());
  }
  if (const auto ok = model.check(); !ok) return fail(ok.error());
  return model;
}

/// What was given but makes no difference in this mode.
std::vector<std::string_view> unused(const ServiceFlags& flags, Mode mode) {
  const bool corrected = mode == Mode::kCorrected;
  const std::pair<const std::optional<std::string>&, std::pair<std::string_view, bool>> all[] = {
      {flags.max_batch, {"--max-batch", mode != Mode::kClosedForm}},
      {flags.max_queue, {"--max-queue", mode == Mode::kChain}},
      {flags.max_batched_tokens, {"--max-batched-tokens", corrected}},
      {flags.kv_tokens, {"--kv-tokens", corrected}},
      {flags.knee_tokens, {"--knee-tokens", corrected}},
      {flags.per_request, {"--per-request", corrected}},
      {flags.prefix_hit, {"--prefix-hit", corrected}},
      {flags.input_cv, {"--input-cv", corrected}},
      {flags.output_cv, {"--output-cv", corrected}}};
  std::vector<std::string_view> names;
  for (const auto& [given, use] : all) {
    if (given && !use.second) names.push_back(use.first);
  }
  return names;
}

/// What an answer about a preset rests on or leaves out.
std::vector<std::string> preset_notes(const ServiceFlags& flags, const engine::EngineConfig& preset,
                                      const Service& service) {
  std::vector<std::string> notes{fmt::format(
      "times and limits that no flag gives are those of {}{}", core::printable(*flags.preset),
      engine::find_preset(*flags.preset)
          ? ", not measured at your place (tailrace presets says where they come from)"
          : "")};
  if (preset.cost.cpu_ms > 0 || preset.cost.cpu_per_request_ms > 0) {
    notes.emplace_back("its time on the CPU is left out");
  }
  const queueing::ServiceModel& model = service.model;
  if (model.mode != Mode::kCorrected) {
    notes.push_back(fmt::format("the {} model makes no use of its knee, token budget and memory",
                                to_string(model.mode)));
  }
  const double tokens = service.workload.input_mean + service.workload.output_mean;
  if (tokens > static_cast<double>(preset.max_model_len)) {
    notes.push_back(fmt::format("it takes requests of {} tokens at most, and these have {:.6g}",
                                preset.max_model_len, tokens));
  }
  return notes;
}

std::vector<std::string> assumptions(const ServiceFlags& flags, Mode mode, const Shape& shape) {
  std::vector<std::string> notes;
  if (mode != Mode::kCorrected) {
    notes.push_back(
        fmt::format("the {} model is published as it is and knows mean lengths only: where answers "
                    "vary in length it promises too much",
                    to_string(mode)));
  } else if (shape.output_cv == 0) {
    notes.emplace_back(
        "every answer has the same length (--output-cv 0): where lengths vary a replica holds "
        "less, so give their standard deviation over their mean");
  }
  auto names = unused(flags, mode);
  if (flags.simulate && mode != Mode::kCorrected) names.emplace_back("--simulate");
  if (!names.empty()) {
    notes.push_back(
        fmt::format("the {} model makes no use of {}", to_string(mode), fmt::join(names, ", ")));
  }
  return notes;
}

}  // namespace

Result<double> read_real(std::string_view flag, const std::string& text, std::string_view remedy) {
  const auto value = core::parse_double(text);
  if (value && std::isfinite(*value)) return *value == 0 ? 0 : *value;  // -0 is 0
  return bad(fmt::format("{}: {} is not a number; give {}", flag, core::quoted(text), remedy));
}

Result<Service> read_service(const ServiceFlags& flags) {
  std::optional<engine::EngineConfig> preset;
  auto model = read_model(flags, preset);
  if (!model) return fail(model.error());
  const auto input = read_real("input", flags.input, "the mean prompt length, such as 1024");
  if (!input) return fail(input.error());
  const auto output = read_real("output", flags.output, "the mean answer length, such as 256");
  if (!output) return fail(output.error());
  const auto shape = read_shape(flags);
  if (!shape) return fail(shape.error());
  Service service;
  // The means alone first: the second moments of a wrong mean would be blamed instead.
  if (const auto ok = queueing::check(queueing::Workload::of(0, *input, *output)); !ok) {
    return fail(ok.error());
  }
  if (const auto ok = check_cv("input-cv", shape->input_cv, *input, 0); !ok)
    return fail(ok.error());
  if (const auto ok = check_cv("output-cv", shape->output_cv, *output, 1); !ok) {
    return fail(ok.error());
  }
  service.workload = queueing::Workload::of(0, *input, *output, shape->input_cv, shape->output_cv);
  service.workload.prefix_hit = shape->prefix_hit;
  if (const auto ok = queueing::check(service.workload); !ok) return fail(ok.error());
  service.assumptions = assumptions(flags, model->mode, *shape);
  service.model = std::move(*model);
  if (preset) {
    for (std::string& note : preset_notes(flags, *preset, service)) {
      service.assumptions.push_back(std::move(note));
    }
  }
  if (flags.simulate) service.model.oracle = simulate::make_latency_oracle();
  return service;
}

void add_service_flags(CLI::App& command, ServiceFlags& flags) {
  command.add_option(
      "--preset", flags.preset,
      "An engine's times and limits, by name (tailrace presets lists them) or from a "
      "profile's .yaml; flags beside it win");
  command.add_option("--alpha", flags.alpha, "Milliseconds that every iteration takes");
  command.add_option("--beta", flags.beta, "Milliseconds for each token computed");
  command.add_option("--gamma", flags.gamma, "Milliseconds for each token of context touched");
  command.add_option("--input", flags.input, "Mean prompt length, tokens")->required();
  command.add_option("--output", flags.output, "Mean answer length, tokens ≥ 1")->required();
  command.add_option("--model", flags.model, "closed-form, chain or corrected")
      ->capture_default_str();
  command.add_option("--input-cv", flags.input_cv,
                     "Standard deviation of prompt lengths over their mean [0]");
  command.add_option("--output-cv", flags.output_cv,
                     "Standard deviation of answer lengths over their mean [0: all alike]");
  command.add_option("--prefix-hit", flags.prefix_hit,
                     "Share of prompt tokens found in the prefix cache [0]");
  command.add_option("--max-batch", flags.max_batch,
                     "Most sequences in a batch: vLLM's --max-num-seqs [256]");
  command.add_option("--max-batched-tokens", flags.max_batched_tokens,
                     "Most tokens computed in an iteration, 0: no limit [8192]");
  command.add_option("--kv-tokens", flags.kv_tokens,
                     "Tokens of context that fit in memory, 0: no limit [0]");
  command.add_option("--max-queue", flags.max_queue,
                     "How many may wait beside the batch; chain only [100]");
  command.add_option("--knee-tokens", flags.knee_tokens,
                     "Tokens that an iteration computes at no cost [0]");
  command.add_option("--per-request", flags.per_request,
                     "Milliseconds for each sequence in an iteration [0]");
  command.add_option("--iterations", flags.iterations,
                     "Iterations that a request takes: output (as vLLM) or output+1 (as published) "
                     "[corrected: output, else output+1]");
  command.add_flag("--simulate", flags.simulate,
                   "Where the corrected model says that it is out of range, simulate the engine "
                   "instead; takes up to a few seconds");
}

}  // namespace tailrace::cli
