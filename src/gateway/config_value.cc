#include "gateway/config_value.h"

namespace tailrace::gateway {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Field endpoint_field(std::string name, net::Endpoint& into, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = "host:port";
  field.help = std::move(help);
  field.default_text = net::to_string(into);
  field.assign = [&into](std::string_view text) -> Result<void> {
    auto parsed = net::parse_host_port(text);
    if (!parsed) {
      return wrong("is not host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080");
    }
    into = *parsed;
    return {};
  };
  return field;
}

Field url_field(std::string name, net::Url& into, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = "URL";
  field.help = std::move(help);
  field.assign = [&into](std::string_view text) -> Result<void> {
    auto parsed = net::parse_url(text);
    if (!parsed) {
      return wrong("is not a URL for an engine: " + parsed.error().message);
    }
    into = *parsed;
    return {};
  };
  return field;
}

}  // namespace tailrace::gateway
