// Which keys does autoscaler.yaml have?
#pragma once

#include "tailrace/autoscaler/config.h"
#include "tailrace/core/settings.h"

namespace tailrace::autoscaler {

inline constexpr std::string_view kEnvironmentPrefix = "TAILRACE_AUTOSCALER_";

void visit_config(core::SchemaVisitor& visitor, Config& config);
/// What no single key can be blamed for.
void check_together(const Config& config, core::Problems& problems);

}  // namespace tailrace::autoscaler
