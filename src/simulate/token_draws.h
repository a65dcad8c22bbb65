// How long is the next prompt, and how long will its answer be?
#pragma once

#include <string>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

/// `section` stands in messages. Errors: kInvalidArgument naming the field, its value and what it
/// may be.
Result<void> check(const LengthSpec& spec, const std::string& section);
Result<void> check(const PromptSpec& spec, const std::string& section);

/// Sets output, cap and truth of `out`. `spec` has passed check().
void draw_length(const LengthSpec& spec, Rng& rng, Request& out);

/// Sets output and cap of a request whose length was recorded; `cap` 0: it names none.
void set_recorded_length(std::int64_t length, std::int64_t cap, std::int64_t context, Request& out);

Tokens draw_prompt(const PromptSpec& spec, Rng& rng);

}  // namespace tailrace::simulate
