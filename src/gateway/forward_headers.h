// Which headers cross the gateway, and in which shape?
//
// Pure functions. Everything passes except what belongs to one connection, to the gateway itself,
// or to the secret between the gateway and its engine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/time.h"
#include "tailrace/net/http.h"

namespace tailrace::gateway {

/// The head to send to an engine: hop-by-hop fields, Host and the gateway's own `x-tailrace-*`
/// fields do not pass; Authorization is replaced by "Bearer <api_key>" where a key is configured;
/// the answer is asked for uncompressed, since the event stream is read on its way; x-request-id is
/// added when absent.
net::RequestHead upstream_head(const net::RequestHead& client, std::string_view url_prefix,
                               std::string_view api_key, std::string_view request_id);

/// The engine's head as the client gets it: without hop-by-hop and framing fields; an event stream
/// also says that nobody on the way may hold it back.
net::ResponseHead downstream_head(net::ResponseHead engine);

bool is_event_stream(const net::Headers& headers);
bool is_json(const net::Headers& headers);

/// A backend's URL prefix and a request target, joined; "/v1" is not doubled.
std::string join_target(std::string_view prefix, std::string_view target);

/// The client's x-request-id where it is short and plain, else empty. It goes into logs and
/// headers.
std::string sane_request_id(const net::Headers& headers);

/// Retry-After in whole seconds, or nothing for a date or nonsense.
std::optional<Duration> retry_after(const net::Headers& headers);

}  // namespace tailrace::gateway
