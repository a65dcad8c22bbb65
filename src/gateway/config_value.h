// How are addresses written in the configuration? All other values are read as core/field.h says.
#pragma once

#include <string>

#include "tailrace/core/field.h"
#include "tailrace/net/stream.h"

namespace tailrace::gateway {

using core::Field;

Field endpoint_field(std::string name, net::Endpoint& into, std::string help);
Field url_field(std::string name, net::Url& into, std::string help);

}  // namespace tailrace::gateway
