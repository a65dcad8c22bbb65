// Which keys does the configuration have?
//
// visit_config declares each once. A visitor reads them from YAML, from the environment, or writes
// them into the reference page.
#pragma once

#include <string>
#include <string_view>

#include "tailrace/core/environment.h"
#include "tailrace/core/settings.h"
#include "tailrace/gateway/config.h"
#include "tailrace/net/address_field.h"

namespace tailrace::gateway {

using core::Field;
using core::SchemaVisitor;
using net::endpoint_field;
using net::url_field;

using core::environment_name;
using core::OverrideVisitor;

void visit_config(SchemaVisitor& visitor, Config& config);
void visit_backend(SchemaVisitor& visitor, BackendConfig& backend);

}  // namespace tailrace::gateway
