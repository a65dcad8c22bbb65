// What does a client ask for, as far as scheduling needs to know?
//
// Reads the body of a generation request without changing a byte of it. What we must understand
// (model, stream, n, limits) has to have the right type; everything else is the engine's business
// and passes unread. Numbers never fail: limits are clipped for scheduling and forwarded as they
// came. Where a key stands twice the last one counts, as in Python and JavaScript. Pure functions,
// any thread; cost is one simdjson pass (about 1 GB/s).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/route.h"
#include "tailrace/core/result.h"
#include "tailrace/core/time.h"
#include "tailrace/gateway/config.h"
#include "tailrace/length/length_law.h"
#include "tailrace/net/http.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::gateway {

inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::int64_t kCapMax = std::int64_t{1} << 30;

struct ParsedRequest {
  Route route = Route::kChat;
  std::string model;  ///< empty: the body names none
  bool stream = false;
  bool usage_asked = false;  ///< the client set stream_options.include_usage itself
  int slots = 1;             ///< engine sequences: prompts × max(n, best_of), at least 1
  std::optional<Tokens>
      limit;                ///< the request's own, clipped to [1, kCapMax]; a negative one is none
  Tokens cap{1};            ///< settled by settle_cap
  Tokens prompt_tokens{0};  ///< exact for token arrays, else a quarter of the text's bytes
  /// Hash of how the prompt begins, up to the first user's words, so that the turns of one
  /// conversation have the same; 0: nothing to go by.
  std::uint64_t prefix = 0;
  predict::RequestFeatures features;  ///< without tenant and, until settle_cap, without cap
};

/// Errors: kInvalidArgument naming the field, kResourceExhausted is not used (the body is bounded
/// before).
Result<ParsedRequest> read_request(Route route, std::string_view body);

/// Sets `cap` here and in the features: the request's limit, cut by what the context leaves beside
/// the prompt; without a limit the model's default, else the context's rest, else `default_cap`.
void settle_cap(ParsedRequest& request, const ModelConfig& model, Tokens default_cap);

/// Must the engine be asked for usage, and the event that this causes be dropped?
bool needs_usage_request(const ParsedRequest& request);

/// `body` (which read_request accepted) with stream_options.include_usage set to true and no other
/// byte touched.
std::string with_usage_request(std::string_view body);

/// What the headers say about a request's place.
struct RequestHints {
  std::string tenant;                ///< x-tailrace-tenant or a llm-d fairness id; cut to 128 bytes
  int priority = 0;                  ///< x-tailrace-priority
  std::optional<Duration> deadline;  ///< x-tailrace-deadline-ms or a llm-d TTFT target
  std::optional<length::LengthLaw> law;  ///< x-tailrace-length-law, where accepted
};
/// Errors: kInvalidArgument naming the header. A length law where none is accepted is ignored.
Result<RequestHints> read_hints(const net::Headers& headers, bool accept_given_laws);

/// "log-t;mu=4.6;sigma=0.75[;nu=3.5]".
Result<length::LengthLaw> parse_length_law(std::string_view text);

}  // namespace tailrace::gateway
