// What does `tailrace fit` print, for programs and for people?
//
// The JSON document is {"prompts": [prompt_json, …], "summary": summary_json}; it is made in parts
// so that it can be written while the run goes on. What is not known is null, never NaN.
#pragma once

#include <string>

#include "tailrace/evaluate/fit_run.h"
#include "tailrace/evaluate/fit_summary.h"

namespace tailrace::evaluate {

std::string prompt_json(const PromptFit& prompt);
std::string summary_json(const FitSummary& summary);

/// Tables for a terminal; lines end with a line feed. One prompt's laws, and what all say together.
std::string prompt_text(const PromptFit& prompt);
std::string summary_text(const FitSummary& summary);

}  // namespace tailrace::evaluate
