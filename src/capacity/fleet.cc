#include "tailrace/capacity/fleet.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

namespace json = boost::json;

constexpr std::int64_t kGpusMax = 1'000'000;

std::string counts_text(const std::map<std::string, std::int64_t>& counts) {
  std::string out;
  for (const auto& [kind, number] : counts) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ",
                       number < 0 ? "any number of" : fmt::format("{}", number), kind);
  }
  return out;
}

std::string cap_text(const StepCap& cap, std::string_view word) {
  std::string most;
  if (cap.pods) most = fmt::format("{}", *cap.pods);
  if (cap.percent) most += fmt::format("{}{:g} %", most.empty() ? "" : " or ", *cap.percent);
  if (most.empty()) return fmt::format("any number {}", word);
  return fmt::format("at most {} {} in {:g} s", most, word, cap.period_s);
}

json::object counts_json(const std::map<std::string, std::int64_t>& counts) {
  json::object out;
  for (const auto& [kind, number] : counts) out[core::valid_utf8(kind)] = number;
  return out;
}

json::object cap_json(const StepCap& cap) {
  return {{"pods", cap.pods ? json::value(*cap.pods) : json::value(nullptr)},
          {"percent", cap.percent ? json::value(*cap.percent) : json::value(nullptr)},
          {"period_s", cap.period_s}};
}

}  // namespace

Result<std::pair<std::string, std::int64_t>> parse_gpus(std::string_view text) {
  const auto equals = text.rfind('=');
  if (equals != std::string_view::npos && equals > 0) {
    const auto number = core::parse_int(text.substr(equals + 1));
    if (number && *number >= -1 && *number <= kGpusMax) {
      return std::pair(std::string(text.substr(0, equals)), *number);
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "is not KIND=NUMBER, such as H100=8 (-1 for any number)");
}

std::string explain_fleet(const FleetSettings& fleet) {
  std::string out = fmt::format("Optimizer: {}{}.\n", to_string(fleet.optimizer.kind),
                                fleet.optimizer.rescale ? ", with rescale" : "");
  if (fleet.total) {
    out += fmt::format("GPUs, those in use included: {}.\n", counts_text(fleet.total->available));
    for (const auto& [ns, counts] : fleet.total->quota) {
      out += fmt::format("Quota of {}: {}.\n", ns, counts_text(counts));
    }
  }
  if (fleet.limit_to_nodes)
    out += "Growth stops at the GPUs of the cluster's nodes, where they are counted.\n";
  if (const auto& s = fleet.stabilisation) {
    out += fmt::format("Windows: {:g} s down, {:g} s up; {}, {}.\n", s->down_window_s,
                       s->up_window_s, cap_text(s->up, "more"), cap_text(s->down, "fewer"));
  }
  return out;
}

std::string explain_fleet_json(const FleetSettings& fleet) {
  json::object out{{"optimizer", to_string(fleet.optimizer.kind)},
                   {"rescale", fleet.optimizer.rescale},
                   {"total_gpus", nullptr},
                   {"quotas", nullptr},
                   {"limit_to_nodes", fleet.limit_to_nodes},
                   {"stabilisation", nullptr}};
  if (fleet.total) {
    out["total_gpus"] = counts_json(fleet.total->available);
    json::object quotas;
    for (const auto& [ns, counts] : fleet.total->quota) {
      quotas[core::valid_utf8(ns)] = counts_json(counts);
    }
    out["quotas"] = std::move(quotas);
  }
  if (const auto& s = fleet.stabilisation) {
    out["stabilisation"] = json::object{{"down_window_s", s->down_window_s},
                                        {"up_window_s", s->up_window_s},
                                        {"up", cap_json(s->up)},
                                        {"down", cap_json(s->down)}};
  }
  return json::serialize(out);
}

}  // namespace tailrace::capacity
