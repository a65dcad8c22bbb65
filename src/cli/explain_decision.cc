#include "cli/explain_decision.h"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "cli/admin_call.h"
#include "cli/commands.h"
#include "tailrace/autoscaler/database.h"
#include "tailrace/autoscaler/history.h"
#include "tailrace/core/text.h"
#include "tailrace/report/table.h"

namespace tailrace::cli {
namespace json = boost::json;
namespace {

/// Cells of a table are ASCII; a name may be anything.
std::string cell(const json::value& value) {
  std::string out = text(value);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) > 126) c = '?';
  }
  return out;
}

Result<std::string> from_file(const DecisionQuestion& question) {
  const auto database = autoscaler::Database::open_to_read(question.from);
  if (!database) return fail(database.error());
  const autoscaler::History history(**database);
  std::optional<std::int64_t> number;
  if (question.cycle) {
    number = core::parse_int(*question.cycle);
    if (!number || *number < 1) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("--cycle: {} is no number of a cycle",
                                                           core::quoted(*question.cycle)));
    }
  }
  const auto found =
      number ? history.of_cycle(static_cast<std::uint64_t>(*number)) : history.latest();
  if (!found) return fail(found.error());
  if (*found) return (*found)->document;
  return fail(ErrorCode::kNotFound, number ? fmt::format("cycle {} is not in the history of {}",
                                                         *number, core::quoted(question.from, 256))
                                           : fmt::format("{} has no history of cycles",
                                                         core::quoted(question.from, 256)));
}

Result<std::string> document_of(const DecisionQuestion& question) {
  if (!question.from.starts_with("http://") && !question.from.starts_with("https://")) {
    return from_file(question);
  }
  if (question.cycle) {
    return fail(ErrorCode::kInvalidArgument,
                "--cycle: a running autoscaler tells its latest cycle only; give its database");
  }
  auto answer = call_admin({.admin = question.from,
                            .token_env = "",
                            .path = "/tailrace/v1/decisions",
                            .wanted = "cycle",
                            .server = "autoscaler",
                            .listener = "metrics"});
  if (!answer) return fail(answer.error());
  return std::move(answer->text);
}

bool asked_for(const DecisionQuestion& question, const json::object& variant) {
  return question.variant.empty() || text(at(variant, "variant")) == question.variant;
}

std::string sentence(std::string_view before, const json::value& value) {
  return value.is_string() && !value.get_string().empty()
             ? fmt::format("    {}{}.\n", before, text(value))
             : std::string();
}

std::string parameters_text(const json::object& variant) {
  const auto& p = object_of(at(variant, "parameters"));
  if (!at(p, "alpha_ms").is_number()) return sentence("Parameters: ", at(p, "reason"));
  return fmt::format(
      "    Parameters: alpha {} ms, beta {} ms, gamma {} ms, {}.\n", text(at(p, "alpha_ms")),
      text(at(p, "beta_ms")), text(at(p, "gamma_ms")),
      at(p, "identified") == json::value(true) ? "identified" : "not identified by data alone");
}

/// One variant's sentences.
std::string why(const json::object& variant) {
  std::string out = fmt::format("  {}: {} serve, {} on their way, {} wanted.\n",
                                text(at(variant, "variant")), text(at(variant, "current")),
                                text(at(variant, "pending")), text(at(variant, "desired")));
  out += sentence("", at(variant, "reason"));
  out += sentence("Waits for ", at(variant, "waits_for"));
  if (at(variant, "per_replica_per_s").is_number() &&
      at(variant, "evidence") == json::value("sized")) {
    out += fmt::format("    A replica takes {} requests/s, bound by {}.\n",
                       text(at(variant, "per_replica_per_s")),
                       text(at(object_of(at(variant, "sizing")), "binding")));
    out += sentence("That is out of the formula's range: ",
                    at(object_of(at(variant, "sizing")), "rate_out_of_range"));
  }
  out += sentence("No capacity is known: ", at(variant, "failure"));
  out += parameters_text(variant);
  if (const auto* steps = at(variant, "steps").if_array(); steps && steps->size() > 1) {
    for (const auto& step : *steps) {
      const auto& s = object_of(step);
      out += fmt::format("    {}: {} ({} to {}).\n", text(at(s, "rule")), text(at(s, "text")),
                         text(at(s, "before")), text(at(s, "after")));
    }
  }
  return out;
}

std::string outcome_text(const DecisionQuestion& question, const json::object& document) {
  std::string out;
  const auto* orders = at(document, "orders").if_array();
  if (orders == nullptr) return out;
  for (const auto& order : *orders) {
    const auto& o = object_of(order);
    const auto* outcome = at(o, "outcome").if_object();
    if (outcome == nullptr || !asked_for(question, o)) continue;
    const std::string said = text(at(*outcome, "message"));
    out += fmt::format("  order {}: {}{}\n", text(at(o, "id")),
                       at(*outcome, "done") == json::value(true) ? "done" : "not done",
                       said.empty() || said == "-" ? "" : ", " + said);
  }
  return out.empty() ? out : "Outcome\n" + out;
}

std::string list_text(const json::object& document, const char* name, const char* title) {
  std::string out;
  if (const auto* list = at(document, name).if_array()) {
    for (const auto& item : *list) {
      const auto& o = object_of(item);
      out += fmt::format("  {}: {}\n", text(at(o, "subject")), text(at(o, "message")));
    }
  }
  return out.empty() ? out : fmt::format("{}\n{}", title, out);
}

std::string rate(const json::value& per_s) {
  return per_s.is_null() ? "not known how much is" : text(per_s) + " requests/s";
}

/// False: no variant of that name.
bool print(const DecisionQuestion& question, const json::object& document) {
  using Align = report::Table::Align;
  report::Table table({{"variant", Align::kLeft},
                       {"model", Align::kLeft},
                       {"current"},
                       {"pending"},
                       {"desired"},
                       {"what", Align::kLeft}});
  std::string sentences;
  bool any = false;
  if (const auto* models = at(document, "models").if_array()) {
    for (const auto& item : *models) {
      const auto& model = object_of(item);
      const std::string name = text(at(model, "namespace")) + "/" + text(at(model, "model"));
      std::string of_model;
      const auto* variants = at(model, "variants").if_array();
      for (const auto& entry : variants ? *variants : json::array()) {
        const auto& variant = object_of(entry);
        if (!asked_for(question, variant)) continue;
        any = true;
        table.add_row({cell(at(variant, "variant")), cell(json::value(name)),
                       cell(at(variant, "current")), cell(at(variant, "pending")),
                       cell(at(variant, "desired")), cell(at(variant, "action"))});
        of_model += why(variant);
      }
      if (of_model.empty()) continue;
      const auto& slo = object_of(at(model, "slo"));
      sentences +=
          fmt::format("\n{}: {} demanded, {} supplied.\n  SLO: TTFT {} ms, ITL {} ms, {} ({}).\n{}",
                      name, rate(at(model, "demand_per_s")), rate(at(model, "supply_per_s")),
                      text(at(slo, "ttft_ms")), text(at(slo, "itl_ms")), text(at(slo, "statistic")),
                      text(at(slo, "source")), of_model);
    }
  }
  fmt::print("cycle {}\n", text(at(document, "cycle")));
  if (at(document, "blind").is_string()) {
    fmt::print("No decision: {}\n", text(at(document, "blind")));
  }
  if (any) fmt::print("{}{}", table.text(), sentences);
  fmt::print("{}{}{}", outcome_text(question, document),
             list_text(document, "conditions", "Conditions"),
             list_text(document, "troubles", "Troubles"));
  return any || question.variant.empty();
}

int complain(const Error& error) {
  fmt::print(stderr, "tailrace explain: {}\n", error.message);
  return exit_code_of(error);
}

}  // namespace

int explain_decision(const DecisionQuestion& question) {
  const auto document = document_of(question);
  if (!document) return complain(document.error());
  boost::system::error_code error;
  const auto parsed = json::parse(*document, error);
  if (error || !parsed.is_object()) {
    return complain({ErrorCode::kDataLoss, "the record of the cycle cannot be read"});
  }
  if (question.json) {
    fmt::print("{}\n", core::trim(*document));
    return 0;
  }
  if (print(question, parsed.get_object())) return 0;
  return complain(
      {ErrorCode::kInvalidArgument,
       fmt::format("--decision: the cycle has no variant {}", core::quoted(question.variant))});
}

}  // namespace tailrace::cli
