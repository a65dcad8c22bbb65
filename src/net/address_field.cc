#include "tailrace/net/address_field.h"

#include <fmt/format.h>

namespace tailrace::net {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

core::Field endpoint_field(std::string name, Endpoint& into, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "host:port";
  field.help = std::move(help);
  field.default_text = to_string(into);
  field.assign = [&into](std::string_view text) -> Result<void> {
    auto parsed = parse_host_port(text);
    if (!parsed) {
      return wrong("is not host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080");
    }
    into = *parsed;
    return {};
  };
  return field;
}

core::Field url_field(std::string name, Url& into, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "URL";
  field.help = std::move(help);
  if (!into.endpoint.host.empty()) {
    field.default_text = fmt::format("{}://{}{}", into.endpoint.tls ? "https" : "http",
                                     to_string(into.endpoint), into.prefix);
  }
  field.assign = [&into](std::string_view text) -> Result<void> {
    auto parsed = parse_url(text);
    if (!parsed) {
      return wrong("is not a URL: " + parsed.error().message);
    }
    into = *parsed;
    return {};
  };
  return field;
}

core::Field optional_url_field(std::string name, std::optional<Url>& into, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "URL \\| off";
  field.help = std::move(help);
  if (!into) field.default_text = "off";
  field.assign = [&into](std::string_view text) -> Result<void> {
    if (text == "off") {
      into.reset();
      return {};
    }
    auto parsed = parse_url(text);
    if (!parsed) {
      return wrong("is neither off nor a URL: " + parsed.error().message);
    }
    into = *parsed;
    return {};
  };
  return field;
}

}  // namespace tailrace::net
