// Which latencies should a model keep?
//
// Three levels (specification, section 3): the operator's explicit targets; else those at which
// iterations take k times alpha, by the parameters learnt, the largest over the variants; else the
// latencies observed, with headroom and caps. One SLO for a model, since its variants serve the
// same traffic.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tailrace/capacity/aggregate.h"
#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/config.h"

namespace tailrace::capacity {

struct LearntVariant {
  std::string name;
  queueing::IterationModel iteration;
};

/// `model_wide` is over all pods of all variants. Without a way to an SLO the source is kNone and
/// the reason says what is missing.
SloTarget resolve_slo(const ModelSettings& settings, std::span<const LearntVariant> learnt,
                      const WorkloadSummary& model_wide);

/// An inferred SLO that has settled. Our addition: it follows the learnt alpha no longer, until
/// what it was made for changes (k, or lengths by more than half).
class SloFreeze {
 public:
  /// Takes this cycle's target and gives the one to use. `identified`: of every variant that
  /// contributes.
  SloTarget update(const SloTarget& now, bool identified, double multiplier,
                   const WorkloadSummary& model_wide);
  bool frozen() const { return memory_.frozen.has_value(); }

  /// All that it goes on from.
  struct Memory {
    std::optional<SloTarget> frozen, last;
    int calm_cycles = 0;
    double multiplier = 0, input_tokens = 0, output_tokens = 0;  ///< of `frozen`
  };
  const Memory& memory() const { return memory_; }
  void restore(Memory memory) { memory_ = std::move(memory); }

 private:
  bool still_fits(double multiplier, const WorkloadSummary& model_wide) const;

  Memory memory_;
};

}  // namespace tailrace::capacity
