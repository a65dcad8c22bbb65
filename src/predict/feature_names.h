// What is a feature called in an explanation?
//
// In the words that the asking client sent, quoted, printable and cut to kNameBytes: prompts come
// from anybody, and the name may be shown on a terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "predict/prompt_words.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

inline constexpr std::size_t kNameBytes = 64;  ///< of a client's text in a name

/// Of what every request has: it explains nothing.
inline constexpr std::string_view kEveryRequest = "every request";

/// Route, format and tools; of a request without tenant also that it has none.
inline constexpr std::string_view kKindOfCall = "kind of call";

/// tenant 'team-a'
std::string tenant_name(const RequestFeatures& request);

/// model 'gpt-4'
std::string quoted_name(std::string_view what, std::string_view text);

/// words 'write a'
std::string words_name(std::string_view what, std::span<const Word> words);

/// asks for 500 'words'; `words`: the number and its unit.
std::string amount_name(std::span<const Word> words);

}  // namespace tailrace::predict
