#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "tailrace/core/text.h"
#include "tailrace/emulator/emulator.h"

namespace tailrace::emulator {
namespace {

constexpr std::array<std::pair<std::string_view, Fault>, 4> kFaults{
    {{"die_before_first_byte", Fault::kDieBeforeFirstByte},
     {"die_mid_stream", Fault::kDieMidStream},
     {"never_answer", Fault::kNeverAnswer},
     {"error_in_stream", Fault::kErrorInStream}}};

}  // namespace

Result<FaultPlan> parse_fault(std::string_view name) {
  for (const auto& [text, kind] : kFaults) {
    if (text == name) return FaultPlan{kind, 0};
  }
  constexpr std::string_view kStatusPrefix = "status_";
  if (name.starts_with(kStatusPrefix)) {
    const auto status = core::parse_int(name.substr(kStatusPrefix.size()));
    if (status && *status >= 400 && *status <= 599) {
      return FaultPlan{Fault::kStatus, static_cast<int>(*status)};
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("fault {} is unknown; use die_before_first_byte, die_mid_stream, "
                          "never_answer, error_in_stream or status_400 to status_599",
                          core::quoted(name)));
}

Result<void> EmulatorConfig::check() const {
  const auto bad = [](std::string_view field, auto value, std::string_view rule) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}; it must be {}", field, value, rule));
  };
  if (auto ok = engine.check(); !ok) return ok;
  if (!std::isfinite(time_scale) || time_scale < 1e-3 || time_scale > 1e6) {
    return bad("time scale", time_scale, "from 0.001 to 1000000");
  }
  if (queued_max < 1) return bad("max queue", queued_max, "at least 1");
  if (model.empty()) return bad("model", "empty", "a name");
  if (!std::isfinite(lengths.mu)) return bad("length mu", lengths.mu, "finite");
  for (const auto& [field, value] :
       {std::pair{"length mu deviation", lengths.mu_sd}, {"length sigma", lengths.sigma}}) {
    if (!std::isfinite(value) || value < 0) return bad(field, value, "finite and at least 0");
  }
  if (!std::isfinite(lengths.nu) || lengths.nu <= 0) return bad("length nu", lengths.nu, "above 0");
  return {};
}

}  // namespace tailrace::emulator
