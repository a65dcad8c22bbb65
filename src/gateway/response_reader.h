// What does a whole (not streamed) answer say about its length and its fate?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/answer_facts.h"
#include "gateway/route.h"

namespace tailrace::gateway {

/// Bodies above this are relayed unread.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{8} << 20;

/// Reads usage, finish reasons and an error object. A body that is not JSON, or too large, gives
/// facts without usage: it is the client's, not ours to judge.
AnswerFacts read_answer(Route route, std::string_view body);

/// The model names of a `/v1/models` answer, at most 1,000; empty for anything else.
std::vector<std::string> read_model_names(std::string_view body);

}  // namespace tailrace::gateway
