// How are addresses written in a settings file? All other values are read as core/field.h says.
#pragma once

#include <optional>
#include <string>

#include "tailrace/core/field.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

core::Field endpoint_field(std::string name, Endpoint& into, std::string help);
core::Field url_field(std::string name, Url& into, std::string help);
std::string to_string(const Url& url);  ///< as parse_url() reads it, always with the port
/// "off" for no value.
core::Field optional_url_field(std::string name, std::optional<Url>& into, std::string help);

}  // namespace tailrace::net
