// Which of the engine's endpoints generate text, and are therefore queued?
#pragma once

#include <optional>
#include <string_view>

namespace tailrace::gateway {

enum class Route { kChat, kCompletions, kResponses };

/// Of a request's path: /v1/chat/completions, /v1/completions, /v1/responses. Nothing: not
/// generation.
std::optional<Route> route_of(std::string_view path);
std::string_view to_string(Route route);  ///< "chat", "completions", "responses"

}  // namespace tailrace::gateway
