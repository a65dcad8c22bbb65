// Which cycles of models, variants and pods do the rows of a recording make?
//
// One row per pod and time, rows of one time one after the other; reading the file is the caller's.
// Memory is one cycle and the variants seen so far: one that stops reporting keeps its place, with
// the replicas it had, so that a lost scrape does not look like a variant that is gone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/capacity/variant.h"

namespace tailrace::capacity {

struct RecordedCycle {
  double time_s = 0;
  std::vector<ModelState> models;  ///< in the order of their first rows
};

class RecordedTable {
 public:
  static constexpr std::size_t kCycleRowsMax = 200'000;
  static constexpr std::size_t kVariantsMax = 20'000;
  static constexpr std::size_t kNameBytesMax = 1'024;
  /// A pod that reported within it still counts, where no column `current` says how many there are.
  static constexpr double kPodMemorySeconds = 600;

  /// `header`: time_s, namespace, model, variant, accelerator, pod, rate, input, output, ttft_ms,
  /// itl_ms; and any of running, requests, output_cv, input_cv, prefix_hit, waiting,
  /// itl_per_sequence_ms, itl_per_sequence_error (of the pod), current, pending, min, max, cost,
  /// gpus, max_batch, max_batched_tokens, kv_tokens, max_queue, knee_tokens, fingerprint, role,
  /// scaled_up_at_s (of the variant), priority, gateway_queue (of the model); in any order. Errors:
  /// kInvalidArgument naming a column that is missing, unknown or there twice.
  static Result<RecordedTable> open(std::span<const std::string> header);

  /// Takes the next row, one cell for each column. Returns the cycle that it ends, if its time is
  /// later than that of the rows before. An empty cell or NaN is unknown; a row without a pod says
  /// something of its variant only. Errors: kInvalidArgument naming column, value and remedy;
  /// kResourceExhausted for more rows or variants than the limits above.
  Result<std::optional<RecordedCycle>> add(std::span<const std::string> cells);

  /// The last cycle, when there are no more rows; nothing if there were none.
  std::optional<RecordedCycle> finish();

 private:
  struct Row;
  Result<Row> read(std::span<const std::string> cells) const;
  Result<void> take(const Row& row);
  RecordedCycle end_cycle();
  void forget_pods(double until_s);
  Result<ModelState*> model_of(const Row& row);
  Result<std::pair<Variant*, std::size_t>> variant_of(const Row& row, ModelState& model);

  std::vector<std::size_t> columns_;  ///< for each column, its place among the known ones
  std::vector<ModelState> models_;
  std::map<ModelKey, std::size_t> model_places_;
  std::map<std::pair<ModelKey, std::string>, std::pair<std::size_t, std::size_t>> variant_places_;
  /// What this cycle has said already: a second saying must be the same.
  std::set<std::pair<std::pair<ModelKey, std::string>, std::string>> pods_;
  std::map<std::pair<std::pair<ModelKey, std::string>, std::size_t>, std::string> told_;
  std::map<std::pair<ModelKey, std::string>, std::map<std::string, double>> seen_;  ///< pods, when
  std::size_t pods_seen_ = 0;
  std::optional<double> time_s_;
  std::size_t rows_ = 0;
};

}  // namespace tailrace::capacity
