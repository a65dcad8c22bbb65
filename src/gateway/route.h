// Which of the engine's endpoints generate text, and are therefore queued?
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tailrace::gateway {

enum class Route { kChat, kCompletions, kResponses };

/// Of a request's path: /v1/chat/completions, /v1/completions, /v1/responses. Nothing: not
/// generation.
std::optional<Route> route_of(std::string_view path);

/// The path as an engine, or a proxy before it, may come to read it: percent-decoded, without empty
/// and dot segments, fragment and trailing slash. Where it differs from what the client wrote, a
/// generation could slip past the queue.
std::string plain_path(std::string_view path);

std::string_view to_string(Route route);  ///< "chat", "completions", "responses"

}  // namespace tailrace::gateway
