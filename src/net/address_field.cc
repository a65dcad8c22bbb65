#include "tailrace/net/address_field.h"

namespace tailrace::net {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// `kind` is what the text should have been.
Result<void> read_url(std::string_view text, std::string_view kind, Url& into) {
  auto parsed = parse_url(text);
  if (!parsed) return wrong("is " + std::string(kind) + ": " + parsed.error().message);
  into = std::move(*parsed);
  return {};
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
    field.default_text = to_string(into);
  }
  field.assign = [&into](std::string_view text) { return read_url(text, "not a URL", into); };
  return field;
}

std::string to_string(const Url& url) {
  return (url.endpoint.tls ? "https://" : "http://") + to_string(url.endpoint) + url.prefix;
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
    Url url;
    auto read = read_url(text, "neither off nor a URL", url);
    if (read) into = std::move(url);
    return read;
  };
  return field;
}

}  // namespace tailrace::net
