// How does an evaluation read, for people, for programs and in a browser?
//
// All three tell the same numbers, and the same evaluation gives the same bytes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/evaluate/leave_one_out.h"
#include "tailrace/evaluate/prequential.h"

namespace tailrace::evaluate {

/// What one attack did to the honest tenants' predictions.
struct PoisonResult {
  std::string poison;
  std::string about;
  std::string predictor;
  double share = 0;  ///< of the attacker's rows in the stream
  Scores without;    ///< the honest rows without the attack
  Scores with;       ///< the same rows in the midst of it
};

/// One set of rows and what each predictor made of it.
struct SetReport {
  std::string set;
  std::size_t rows = 0;
  std::size_t models = 0;
  std::size_t prompts = 0;  ///< groups of rows: prompt and model
  std::size_t cut = 0;      ///< rows whose answer was cut
  std::vector<Evaluation> evaluations;
  std::vector<LeaveOneOut> left_out;
  std::vector<PoisonResult> poisons;
};

/// Tables, with learning curves where `curve`.
std::string to_text(const SetReport& report, bool curve);
/// One document for all sets.
std::string to_json(std::span<const SetReport> reports);
/// One self-contained page for all sets.
std::string to_html(std::span<const SetReport> reports);

}  // namespace tailrace::evaluate
