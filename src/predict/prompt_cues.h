// Which kind of answer does a word ask for?
//
// A young predictor has seen few words. Words that often stand for the same kind of task ("story",
// "essay"; "briefly", "short") share one weight, so that what the first answers teach about one
// reaches the others. The classes say nothing about lengths: those are learned. English; other
// languages go without.
#pragma once

#include <cstdint>
#include <string_view>

namespace tailrace::predict {

/// The class of a word by its hash (prompt_words.h), from 1; 0 for a word of none.
int cue_of(std::uint64_t word_hash);

/// What a class is called in an explanation.
std::string_view cue_name(int cue);

}  // namespace tailrace::predict
