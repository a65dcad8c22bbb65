#include "gateway/route.h"

namespace tailrace::gateway {

std::optional<Route> route_of(std::string_view path) {
  if (path == "/v1/chat/completions") return Route::kChat;
  if (path == "/v1/completions") return Route::kCompletions;
  if (path == "/v1/responses") return Route::kResponses;
  return std::nullopt;
}

std::string_view to_string(Route route) {
  switch (route) {
    case Route::kChat:
      return "chat";
    case Route::kCompletions:
      return "completions";
    case Route::kResponses:
      return "responses";
  }
  return "";
}

}  // namespace tailrace::gateway
