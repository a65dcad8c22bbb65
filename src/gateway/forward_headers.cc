#include "gateway/forward_headers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kRequestIdBytesMax = 128;
constexpr std::int64_t kRetryAfterSecondsMax = 24 * 3600;

bool is_own_field(std::string_view name) {
  constexpr std::string_view kPrefix = "x-tailrace-";
  return name.size() > kPrefix.size() && core::iequals(name.substr(0, kPrefix.size()), kPrefix);
}

void remove_own_fields(net::Headers& headers) {
  std::vector<std::string> own;
  for (const auto& header : headers) {
    if (is_own_field(header.name)) own.push_back(header.name);
  }
  for (const auto& name : own) headers.remove(name);
}

std::string_view media_type(const net::Headers& headers) {
  const auto value = headers.find("content-type");
  if (!value) return {};
  return core::trim(value->substr(0, value->find(';')));
}

}  // namespace

std::string join_target(std::string_view prefix, std::string_view target) {
  constexpr std::string_view kVersion = "/v1";
  if (prefix.ends_with(kVersion) && (target == kVersion || target.starts_with("/v1/"))) {
    prefix.remove_suffix(kVersion.size());
  }
  return std::string(prefix).append(target);
}

net::RequestHead upstream_head(const net::RequestHead& client, std::string_view url_prefix,
                               std::string_view api_key, std::string_view request_id) {
  net::RequestHead head;
  head.method = client.method;
  head.target = join_target(url_prefix, client.target);
  head.headers = client.headers;
  head.headers.remove_hop_by_hop();
  head.headers.remove("host");
  head.headers.remove("expect");  // answered here, when the body was read
  remove_own_fields(head.headers);
  head.headers.set("accept-encoding", "identity");
  if (!api_key.empty()) head.headers.set("authorization", "Bearer " + std::string(api_key));
  if (!head.headers.find("x-request-id")) head.headers.add("x-request-id", std::string(request_id));
  return head;
}

net::ResponseHead downstream_head(net::ResponseHead engine) {
  engine.headers.remove_hop_by_hop();
  remove_own_fields(engine.headers);  // what they say is this gateway's alone to say
  if (is_event_stream(engine.headers)) {
    if (!engine.headers.find("cache-control")) engine.headers.add("cache-control", "no-cache");
    if (!engine.headers.find("x-accel-buffering")) engine.headers.add("x-accel-buffering", "no");
  }
  return engine;
}

bool is_event_stream(const net::Headers& headers) {
  return core::iequals(media_type(headers), "text/event-stream");
}

bool is_json(const net::Headers& headers) {
  return core::iequals(media_type(headers), "application/json");
}

std::string sane_request_id(const net::Headers& headers) {
  const auto value = headers.find("x-request-id");
  if (!value || value->empty() || value->size() > kRequestIdBytesMax) return {};
  const bool plain = std::all_of(value->begin(), value->end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
  return plain ? std::string(*value) : std::string();
}

std::optional<Duration> retry_after(const net::Headers& headers) {
  const auto value = headers.find("retry-after");
  if (!value) return std::nullopt;
  const auto seconds = core::parse_int(core::trim(*value));
  if (!seconds || *seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min(*seconds, kRetryAfterSecondsMax));
}

}  // namespace tailrace::gateway
