// How soon does a predictor know a model that it has never seen?
//
// For each of several models: learn the rows of all the others, then this model's. Two runs order a
// window of the model's rows: one when only a few of its answers have been learned, one when all of
// its answers outside the window have. Both predict before they learn; the ratio of their Kendall's
// tau says how much of the final skill is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/evaluate/rows.h"
#include "tailrace/report/summary.h"

namespace tailrace::evaluate {

struct LeaveOneOutOptions {
  std::size_t models = 20;          ///< drawn by the seed among those with enough rows
  std::size_t after = 200;          ///< answers of the unseen model learned before the window
  std::size_t window = 500;         ///< rows that are ordered
  std::size_t other_rows = 20'000;  ///< at most so many rows of the other models; 0: all
  std::uint64_t seed = 1;
  std::function<void(std::size_t done, std::size_t of)> progress;  ///< by model
};

/// Below this a final tau is as good as none, and a share of it says nothing.
inline constexpr double kOrderedTau = 0.05;

struct LeftOut {
  std::string model;
  std::size_t rows = 0;
  double tau_early = 0;  ///< over the window, `after` answers of the model learned
  double tau_final = 0;  ///< over the same rows, all its other answers learned
  double tau_last = 0;   ///< over its last rows, as many as the window, in the early run
};

struct LeaveOneOut {
  std::string predictor;
  std::size_t after = 0;
  std::size_t window = 0;
  std::vector<LeftOut> models;
  /// Mean over the models of tau_early / tau_final, 95 % by bootstrap over models. Nothing for
  /// fewer than two models with a final tau of kOrderedTau.
  std::optional<report::Interval> share_of_final;
  /// The same with tau_last, which is over other rows and so noisier.
  std::optional<report::Interval> share_of_last;
};

using MakePredictor = std::function<std::unique_ptr<predict::Predictor>()>;

/// Rows in the order in which they came. Errors: kInvalidArgument when fewer than two models have
/// after + 2 × window rows that were not cut early.
Result<LeaveOneOut> leave_one_model_out(std::span<const Row> rows, const MakePredictor& make,
                                        const LeaveOneOutOptions& options);

}  // namespace tailrace::evaluate
