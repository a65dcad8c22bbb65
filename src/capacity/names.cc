#include "capacity/names.h"

#include <fmt/format.h>

#include <utility>

namespace tailrace::capacity {

std::string_view role_text(Role role) {
  switch (role) {
    case Role::kBoth:
      return "both";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "";
}

Result<Role> parse_role(std::string_view text) {
  for (const Role role : {Role::kBoth, Role::kPrefill, Role::kDecode}) {
    if (role_text(role) == text) return role;
  }
  return fail(ErrorCode::kInvalidArgument, "is no role; use both, prefill or decode");
}

std::string targets_text(const queueing::Targets& targets) {
  std::string out;
  const std::pair<const char*, double> all[] = {
      {"TTFT", targets.ttft_ms}, {"ITL", targets.itl_ms}, {"end to end", targets.e2e_ms}};
  for (const auto& [name, value] : all) {
    if (!(value > 0)) continue;
    out += fmt::format("{}{} {:.4g} ms", out.empty() ? "" : " and ", name, value);
  }
  if (!out.empty()) out += fmt::format(", {}", to_string(targets.statistic));
  return out;
}

std::string limit_text(const queueing::Sizing& sizing) {
  std::string limit(to_string(sizing.limit));
  if (sizing.limit != queueing::SizingLimit::kStability) return limit;
  return fmt::format("{} ({})", limit, to_string(sizing.achieved.binding));
}

}  // namespace tailrace::capacity
