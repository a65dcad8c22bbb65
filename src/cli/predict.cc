#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/admin_call.h"
#include "cli/commands.h"
#include "gateway/offline_prediction.h"
#include "tailrace/core/text.h"

namespace tailrace::cli {
namespace json = boost::json;
namespace {

constexpr std::size_t kRequestBytesMax = std::size_t{4} << 20;

struct PredictCommand {
  std::string file;
  std::optional<std::string> prompt;
  std::string model;
  std::string max_tokens;
  std::string tenant;
  std::string admin = "http://127.0.0.1:9090";
  std::string token_env = "TAILRACE_ADMIN_TOKEN";
  std::optional<std::string> config;
  std::optional<std::string> model_file;
  bool as_json = false;
};

Result<std::string> read_standard_input() {
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, got);
    if (text.size() > kRequestBytesMax) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("standard input: more than {} bytes; give one request", kRequestBytesMax));
    }
  }
  return text;
}

/// A chat request around a bare text.
Result<std::string> chat_around(const PredictCommand& command) {
  if (core::valid_utf8(*command.prompt) != *command.prompt) {
    return fail(ErrorCode::kInvalidArgument, "--text: is not UTF-8; give UTF-8 text");
  }
  json::object request{
      {"messages", json::array{json::object{{"role", "user"}, {"content", *command.prompt}}}}};
  if (!command.model.empty()) request["model"] = command.model;
  if (!command.max_tokens.empty()) {
    const auto limit = core::parse_int(command.max_tokens);
    if (!limit || *limit < 1) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--max-tokens: {} is not a whole number of at least 1; give the "
                              "request's own limit, such as 2048",
                              core::quoted(command.max_tokens)));
    }
    request["max_tokens"] = *limit;
  }
  return json::serialize(request);
}

Result<std::string> request_of(const PredictCommand& command) {
  if (command.prompt && !command.file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--text: was given together with a file; give one of them");
  }
  if (command.prompt) return chat_around(command);
  if (!command.model.empty() || !command.max_tokens.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--model and --max-tokens go with --text; a request from a file names its own");
  }
  if (command.file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "REQUEST: missing; give a file with an OpenAI request, - for standard input, or "
                "--text");
  }
  if (command.file == "-") return read_standard_input();
  auto text = core::read_file(command.file, kRequestBytesMax);
  if (!text) return fail(ErrorCode::kInvalidArgument, text.error().message);
  return text;
}

Result<AdminAnswer> ask_here(const PredictCommand& command, const std::string& request) {
  gateway::Config config;
  if (command.config) {
    auto loaded = gateway::load_config(*command.config);
    if (!loaded) return fail(ErrorCode::kInvalidArgument, loaded.error().message);
    config = std::move(*loaded);
  }
  if (command.model_file) config.predict.model_file = *command.model_file;
  if (config.predict.model_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--model-file: missing, and the configuration names no predict.model_file; give "
                "the file in which a gateway keeps what it has learned");
  }
  auto document = gateway::predict_offline(request, command.tenant, config);
  // The request's fault or the file's, and both are what the caller gave.
  if (!document) return fail(ErrorCode::kInvalidArgument, document.error().message);
  return AdminAnswer{*document, json::parse(*document).get_object()};
}

Result<AdminAnswer> ask(const PredictCommand& command, const std::string& request) {
  if (command.config || command.model_file) return ask_here(command, request);
  if (request.empty()) {
    return fail(ErrorCode::kInvalidArgument, "REQUEST: is empty; give an OpenAI request");
  }
  return call_admin({.admin = command.admin,
                     .token_env = command.token_env,
                     .path = "/tailrace/v1/predict",
                     .body = request,
                     .tenant = command.tenant,
                     .wanted = "law"});
}

std::string whole(const json::value& value) {
  const auto number = number_of(value);
  return number ? fmt::format("{:.0f}", *number) : "-";
}

void print_table(const json::object& d) {
  const auto& law = object_of(at(d, "law"));
  fmt::print("half of such answers end by {} tokens, nine in ten by {}; the limit is {}\n",
             whole(at(d, "p50")), whole(at(d, "p90")), whole(at(d, "cap")));
  fmt::print("  {:<10} {}, mean {} tokens\n", "law", text(at(law, "family")),
             whole(at(law, "mean")));
  fmt::print("  {:<10} {}\n", "model", text(at(d, "model")));
  fmt::print("  {:<10} {} tokens (estimated)\n", "prompt", text(at(d, "prompt_tokens")));
  fmt::print("  {:<10} {}\n", "trust",
             at(d, "calibrated") == json::value(true)
                 ? "calibrated: this law may order the queue"
                 : "not calibrated yet: such a request keeps its order of arrival");
  const auto* influences = at(d, "influences").if_array();
  if (influences == nullptr || influences->empty()) return;
  fmt::print("  what moved it (times the typical length)\n");
  for (const auto& entry : *influences) {
    const auto& influence = object_of(entry);
    const auto factor = number_of(at(influence, "factor"));
    fmt::print("    {:>6}  {}\n", factor ? fmt::format("{:.2f}", *factor) : "-",
               text(at(influence, "what")));
  }
}

int run(const PredictCommand& command) {
  const auto request = request_of(command);
  const auto answer = request ? ask(command, *request) : Result<AdminAnswer>(fail(request.error()));
  if (!answer) {
    fmt::print(stderr, "tailrace predict: {}\n", answer.error().message);
    return exit_code_of(answer.error());
  }
  if (command.as_json) {
    fmt::print("{}\n", answer->text);
  } else {
    print_table(answer->document);
  }
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "predict",
      "Say how long the answer to a request will be, as a law, and what made it so.\n\n"
      "Asks a running gateway; with --model-file or --config it reads what a gateway has learned "
      "from its file instead.\n\n"
      "The limit is the request's own (max_tokens), cut by what the model's context leaves beside "
      "the prompt; without one the model's default_cap, else the rest of the context, else "
      "predict.default_cap. With --model-file alone no context is known, and it is 4096.\n\n"
      "Examples, with a gateway running here:\n"
      "  build/tailrace predict --text 'Write a poem about the sea' --model my-model\n"
      "  echo '{\"model\": \"my-model\", \"messages\": [{\"role\": \"user\", \"content\": "
      "\"Why is the sky blue?\"}]}' | build/tailrace predict -\n"
      "The same from what it has saved: --model-file and its predict.model_file");
  auto options = std::make_shared<PredictCommand>();
  command->add_option("REQUEST", options->file,
                      "A file with an OpenAI request (chat, completions or responses); - for "
                      "standard input");
  command->add_option("--text", options->prompt, "A bare prompt instead of a request");
  command->add_option("--model", options->model, "With --text: the model");
  command->add_option("--max-tokens", options->max_tokens, "With --text: the limit");
  command->add_option("--tenant", options->tenant, "The tenant that asks (x-tailrace-tenant)");
  command->add_option("--admin", options->admin, "The gateway's admin address")
      ->capture_default_str();
  command
      ->add_option("--token-env", options->token_env,
                   "Environment variable that holds the admin token, if one is needed")
      ->capture_default_str();
  command->add_option("--model-file", options->model_file,
                      "What a gateway has learned (its predict.model_file)");
  command->add_option("-c,--config", options->config,
                      "A gateway's configuration: its predict section and its models' limits");
  command->add_flag("--json", options->as_json, "Print the document instead of a table");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tailrace::cli
