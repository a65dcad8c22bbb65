// How does an evaluation read, for people and for programs?
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tailrace/evaluate/prequential.h"

namespace tailrace::evaluate {

/// One set of rows and what each predictor made of it.
struct SetReport {
  std::string set;
  std::size_t rows = 0;
  std::size_t prompts = 0;  ///< groups of rows: prompt and model
  std::size_t cut = 0;      ///< rows whose answer was cut
  std::vector<Evaluation> evaluations;
};

/// Tables: scores, learning curve where `curve`, cost where measured.
std::string to_text(const SetReport& report, bool curve);

}  // namespace tailrace::evaluate
