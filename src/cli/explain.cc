#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>
#include <string>

#include "cli/admin_call.h"
#include "cli/commands.h"
#include "cli/explain_decision.h"
#include "tailrace/core/text.h"

namespace tailrace::cli {
namespace json = boost::json;
namespace {

constexpr std::string_view kIdCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";

struct ExplainOptions {
  std::string admin = "http://127.0.0.1:9090";
  std::string token_env = "TAILRACE_ADMIN_TOKEN";
  std::string request_id;
  bool as_json = false;
  bool decision = false;
  DecisionQuestion question;
};

/// Times for people: "12 ms", "3.4 s".
std::string duration(const json::value& value) {
  if (!value.is_number()) return "-";
  const double ms = value.to_number<double>();
  return ms < 1000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

void row(std::string_view name, const std::string& value) {
  fmt::print("  {:<12} {}\n", name, value);
}

/// It waits for an engine to come, and not for others to go.
bool engine_awaited(const json::object& place) {
  const auto backends = number_of(at(place, "backends"));
  return backends && *backends == 0;
}

std::string headline(const json::object& d) {
  const std::string state = text(at(d, "state"));
  if (const auto* place = at(d, "place").if_object()) {
    if (engine_awaited(*place)) return "waits for an engine";
    const auto position = number_of(at(*place, "position"));
    if (!position) return "waits";
    return *position == 0 ? "waits and goes next"
                          : fmt::format("waits behind {:.0f} other request{}", *position,
                                        *position == 1 ? "" : "s");
  }
  if (state == "ended") {
    return fmt::format("ended: {} (HTTP {})", text(at(d, "outcome")), text(at(d, "status")));
  }
  if (at(d, "backend").is_string()) return "is at the engine (" + state + ")";
  return "is " + state;
}

/// What the reader could do about it; empty where there is nothing to do.
std::string advice(const json::object& d) {
  const auto& policy = at(d, "policy");
  if (at(d, "error").is_string()) {
    const std::string outcome = text(at(d, "outcome"));
    const bool ended = at(d, "outcome").is_string();
    const bool engine_failed = outcome == "failed" || outcome == "timed_out" || !ended;
    if (engine_failed && at(d, "backend").is_string()) {
      return "The engine's side failed; look at that backend's own log and at "
             "/tailrace/v1/backends for its health.";
    }
    return outcome == "completed" ? "The engine itself answered with this error." : "";
  }
  if (const auto* place = at(d, "place").if_object()) {
    if (engine_awaited(*place)) {
      return "No engine serves " + text(at(d, "model")) + "; one is awaited.";
    }
    if (at(*place, "overdue").is_bool() && at(*place, "overdue").get_bool()) {
      return "It is past the waiting bound, so it goes before everything that is not. If many are, "
             "the engines are too few: see oldest_wait_ms in /tailrace/v1/queue.";
    }
    if (!at(d, "law").is_object()) {
      return "Nothing is known of its length yet, so it counts as long as its limit allows: a "
             "smaller "
             "max_tokens would move it forward.";
    }
  }
  if (const auto* p = policy.if_object(); p && at(*p, "reason").is_string()) {
    return "The configured policy is not in force: " + text(at(*p, "reason")) + ".";
  }
  return "";
}

void print_law(const json::object& d) {
  const auto* law = at(d, "law").if_object();
  if (!law) {
    row("length", fmt::format("unknown; at most {} tokens", text(at(d, "cap"))));
    return;
  }
  const auto whole = [&](const char* name) {
    return at(*law, name).is_number() ? fmt::format("{:.0f}", at(*law, name).to_number<double>())
                                      : std::string("-");
  };
  row("length", fmt::format("half of such answers end by {} tokens, nine in ten by {}; limit {}",
                            whole("p50"), whole("p90"), text(at(d, "cap"))));
  const bool decides = at(*law, "decides_order").is_bool() && at(*law, "decides_order").get_bool();
  row("", fmt::format("{}, {}, {} its place", text(at(*law, "source")),
                      at(*law, "calibrated") == json::value(true) ? "calibrated" : "not calibrated",
                      decides ? "decides" : "does not decide"));
}

void print_table(const json::object& d) {
  fmt::print("{} {}\n", text(at(d, "request_id")), headline(d));
  row("model", text(at(d, "model")));
  if (at(d, "tenant").is_string()) row("tenant", text(at(d, "tenant")));
  row("prompt", text(at(d, "prompt_tokens")) + " tokens (estimated)");
  print_law(d);
  if (const auto* p = at(d, "policy").if_object()) row("policy", text(at(*p, "effective")));
  if (const auto* place = at(d, "place").if_object()) {
    row("why there", text(at(*place, "rule")));
  }
  row("age", duration(at(d, "age_ms")));
  row("in queue", duration(at(d, "queue_ms")));
  row("first byte", duration(at(d, "ttft_ms")));
  row("backend", fmt::format("{} (attempts: {})", text(at(d, "backend")), text(at(d, "attempts"))));
  if (at(d, "output_tokens").is_number()) {
    row("answer", text(at(d, "output_tokens")) + " tokens" +
                      (at(d, "output_estimated") == json::value(true) ? " (counted)" : ""));
  }
  if (at(d, "error").is_string()) row("error", text(at(d, "error")));
  if (const auto* notes = at(d, "notes").if_array(); notes && !notes->empty()) {
    fmt::print("  what happened\n");
    for (const auto& note : *notes) fmt::print("    {}\n", text(note));
  }
  if (const auto hint = advice(d); !hint.empty()) fmt::print("\n{}\n", hint);
}

int complain(const std::string& message, int code) {
  fmt::print(stderr, "tailrace explain: {}\n", message);
  return code;
}

int explain(const ExplainOptions& options) {
  if (options.request_id.empty()) {
    return complain("request-id is required; or give --decision for the autoscaler", kExitUsage);
  }
  if (options.request_id.find_first_not_of(kIdCharacters) != std::string::npos) {
    return complain("request-id is " + core::quoted(options.request_id) +
                        "; it has letters, digits and -_.: only",
                    kExitUsage);
  }
  const auto answer = call_admin({.admin = options.admin,
                                  .token_env = options.token_env,
                                  .path = "/tailrace/v1/explain/" + options.request_id,
                                  .wanted = "request_id"});
  if (!answer) return complain(answer.error().message, exit_code_of(answer.error()));
  if (options.as_json) {
    fmt::print("{}\n", answer->text);
  } else {
    print_table(answer->document);
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "explain",
      "Ask a running gateway where a request is and why; or an autoscaler why there are so many "
      "replicas.\n\n"
      "The id is the answer's x-tailrace-request-id (or the x-request-id you sent).\n\n"
      "Example: tailrace explain --admin http://127.0.0.1:9090 tr-0123456789abcdef\n"
      "Example: tailrace explain --decision --autoscaler http://127.0.0.1:9091");
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("request-id", options->request_id,
                      "The request; with --decision a variant, none: all of them");
  command->add_option("--admin", options->admin, "The gateway's admin address")
      ->capture_default_str();
  command
      ->add_option("--token-env", options->token_env,
                   "Environment variable that holds the admin token, if one is needed")
      ->capture_default_str();
  command->add_flag("--decision", options->decision, "Explain a decision of the autoscaler");
  options->question.from = "http://127.0.0.1:9091";
  command
      ->add_option("--autoscaler", options->question.from,
                   "With --decision: the address of its metrics, or its database file")
      ->capture_default_str();
  command->add_option("--cycle", options->question.cycle,
                      "With --decision and a database file: that cycle, not the latest");
  command->add_flag("--json", options->as_json, "Print the document instead of a table");
  command->callback([options, &exit_code] {
    if (!options->decision) {
      exit_code = explain(*options);
      return;
    }
    options->question.variant = options->request_id;
    options->question.json = options->as_json;
    exit_code = explain_decision(options->question);
  });
}

}  // namespace tailrace::cli
