// How does one JSON document of an engine's answer change what we know of it? Include in .cc files
// only.
#pragma once

#include "gateway/answer_facts.h"
#include "gateway/json_reading.h"
#include "gateway/route.h"

namespace tailrace::gateway {

/// One event of a stream.
void note_event(Route route, const json::Object& event, AnswerFacts& facts);
/// A whole answer.
void note_answer(Route route, const json::Object& answer, AnswerFacts& facts);
/// Empty `choices` and a usage object: what an engine adds to a stream when it is asked for usage.
bool is_usage_event(const json::Object& event);

}  // namespace tailrace::gateway
