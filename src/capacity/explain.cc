#include "tailrace/capacity/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "capacity/counts.h"
#include "capacity/names.h"

namespace tailrace::capacity {
namespace {

/// How the optimizer begins the reason of a model that may not change.
constexpr std::string_view kHeld = "held: ";

const VariantCapacity* variant_of(const ModelAnalysis& model, const Decision& decision) {
  const auto found =
      std::find_if(model.variants.begin(), model.variants.end(),
                   [&decision](const VariantCapacity& v) { return v.name == decision.variant; });
  return found == model.variants.end() ? nullptr : &*found;
}

bool sized(const VariantCapacity& v) {
  return v.evidence == Evidence::kSized && std::isfinite(v.per_replica_per_s) &&
         v.per_replica_per_s > 0;
}

std::string replicas(std::int64_t n) {
  return fmt::format("{} replica{}", n, n == 1 ? "" : "s");
}

double required(const ModelAnalysis& model, Role role) {
  if (model.roles.empty()) return finite_amount(model.required_per_s);
  const auto need = model.roles.find(role);
  return need == model.roles.end() ? 0 : finite_amount(need->second.required_per_s);
}

/// `amount` of requests/s from `other` instead of `added` replicas of `chosen`.
Alternative instead(const VariantCapacity& other, const VariantCapacity& chosen, std::int64_t added,
                    double amount) {
  Alternative a;
  a.variant = other.name;
  if (!sized(other)) {
    a.text = fmt::format("{}: no capacity is known, {}", other.name,
                         other.failure.value_or(std::string(to_string(other.evidence))));
    return a;
  }
  a.replicas = count_up(amount, other.per_replica_per_s);
  const double ratio = double(a.replicas) * other.cost / (double(added) * chosen.cost);
  if (std::isfinite(ratio) && ratio >= 0) a.cost_ratio = ratio;
  a.text = fmt::format("{} of {}", replicas(a.replicas), other.name);
  if (a.cost_ratio) a.text += fmt::format(": {:.3g} times the cost", ratio);
  const double unit =
      other.cost / other.per_replica_per_s / (chosen.cost / chosen.per_replica_per_s);
  if (a.cost_ratio && ratio < 1 && std::isfinite(unit)) {
    a.text += fmt::format(" for this little, but {:.3g} times per request/s", unit);
  }
  const std::int64_t there = add_counts(other.current, other.pending);
  if (other.max && *other.max - std::min(*other.max, there) < a.replicas) {
    a.text += fmt::format("; its maximum is {}", *other.max);
  }
  return a;
}

std::string slo_text(const SloTarget& slo) {
  const std::string which = targets_text(slo.targets);
  if (which.empty()) return slo.reason.empty() ? "none" : "none, " + slo.reason;
  return fmt::format("{} ({}{}{})", which, to_string(slo.source), slo.reason.empty() ? "" : ": ",
                     slo.reason);
}

std::string parameters_text(const tune::ParameterEstimate& p) {
  if (!p.values) return p.reason;
  std::string text = fmt::format("alpha {:.4g} ms, beta {:.4g} ms, gamma {:.4g} ms, {}",
                                 p.values->alpha_ms, p.values->beta_ms, p.values->gamma_ms,
                                 p.identified ? "identified" : "not identified by data alone");
  if (p.condition) text += fmt::format(", condition {:.3g}", *p.condition);
  if (p.rate_low_per_s && p.rate_high_per_s) {
    text += fmt::format(", {:.4g} to {:.4g} requests/s within the SLO (90 %)", *p.rate_low_per_s,
                        *p.rate_high_per_s);
  }
  if (!p.reason.empty()) text += "; " + p.reason;
  return text;
}

std::string capacity_text(const VariantCapacity& v) {
  if (!sized(v)) {
    return fmt::format("no capacity ({}): {}", to_string(v.evidence),
                       v.failure.value_or("nothing is known"));
  }
  std::string text = fmt::format("{:.4g} requests/s per replica", v.per_replica_per_s);
  if (!v.sizing) return text;
  text += fmt::format(", bound by {}", limit_text(*v.sizing));
  if (!v.sizing->reason.empty()) text += "; " + v.sizing->reason;
  return text;
}

/// A variant's lines. Each thing is said once: not what `said`, the model's own sentence, or a line
/// before says already.
std::string lines_of(const ModelAnalysis& model, const Decision& d, std::string said) {
  std::string out = "  " + d.variant;
  if (!d.accelerator.empty()) out += " on " + d.accelerator;
  const VariantCapacity* v = variant_of(model, d);
  if (v != nullptr && v->role != Role::kBoth) out += fmt::format(", {}", role_text(v->role));
  out += ": ";
  out += d.action == Action::kHold ? fmt::format("stays at {}", replicas(d.desired))
                                   : fmt::format("{} to {}", d.observed(), replicas(d.desired));
  if (d.pending > 0) out += fmt::format(" ({} serve, {} on their way)", d.current, d.pending);
  out += ".";
  const auto is_new = [&said](const std::string& text) {
    if (said.find(text) != std::string::npos) return false;
    said += text + "\n";
    return true;
  };
  // One step is the reason; several are told below, in their order.
  const bool one_step = d.steps.size() <= 1;
  std::string reason = d.reason;
  if (reason.starts_with(kHeld)) reason.erase(0, kHeld.size());
  if (one_step && model.active && is_new(reason)) out += " " + reason + ".";
  out += "\n";
  if (v != nullptr) {
    const bool known = sized(*v) || v->failure;
    if (known && is_new(v->failure.value_or(capacity_text(*v)))) {
      out += "    Capacity: " + capacity_text(*v) + ".\n";
    }
    const bool looked_for = v->parameters.values || !v->parameters.reason.empty();
    if (looked_for && is_new(parameters_text(v->parameters))) {
      out += "    Parameters: " + parameters_text(v->parameters) + ".\n";
    }
  }
  for (const DecisionStep& step : d.steps) {
    if (one_step) break;
    out += step.before == step.after ? fmt::format("    {}: {}.\n", step.rule, step.text)
                                     : fmt::format("    {}: {} ({} to {}).\n", step.rule, step.text,
                                                   step.before, step.after);
  }
  for (const Alternative& a : alternatives(model, d)) out += "    Rejected: " + a.text + ".\n";
  if (!d.waits_for.empty() && model.active) out += "    Waits for " + d.waits_for + ".\n";
  return out;
}

}  // namespace

std::vector<Alternative> alternatives(const ModelAnalysis& model, const Decision& decision) {
  std::vector<Alternative> out;
  const VariantCapacity* chosen = variant_of(model, decision);
  if (chosen == nullptr || !sized(*chosen) || decision.action != Action::kScaleUp) return out;
  const std::int64_t added = decision.desired - decision.observed();
  double amount = double(added) * chosen->per_replica_per_s;
  if (const double need = required(model, chosen->role); need > 0) amount = std::min(amount, need);
  for (const VariantCapacity& other : model.variants) {
    if (&other == chosen || other.role != chosen->role) continue;
    out.push_back(instead(other, *chosen, added, amount));
  }
  return out;
}

std::string explain(const ModelAnalysis& model, std::span<const Decision> decisions) {
  std::string out = fmt::format("{}: ", model.key.text());
  std::string said;
  if (model.failure || !model.active) {
    said = model.failure.value_or("inactive, replicas are held");
    out += said + ".\n";
  } else {
    out += fmt::format("{:.4g} requests/s demanded", model.demand_per_s);
    if (model.backlog_per_s > 0)
      out += fmt::format(" ({:.4g} of them backlog)", model.backlog_per_s);
    out += fmt::format(", {:.4g} supplied: {:.4g} required, {:.4g} to spare.\n", model.supply_per_s,
                       model.required_per_s, model.spare_per_s);
  }
  out += "  SLO: " + slo_text(model.slo) + ".\n";
  for (const auto& [role, need] : model.roles) {
    out += fmt::format("  {}: {:.4g} requests/s demanded, {:.4g} required, {:.4g} to spare.\n",
                       role_text(role), need.demand_per_s, need.required_per_s, need.spare_per_s);
  }
  for (const Decision& decision : decisions) out += lines_of(model, decision, said);
  for (const std::string& note : model.notes) out += "  Note: " + note + ".\n";
  return out;
}

}  // namespace tailrace::capacity
