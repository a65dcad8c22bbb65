// Who learns which variant's parameters, and from which of its pods?
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/config.h"
#include "tailrace/capacity/variant.h"
#include "tailrace/tune/parameter_store.h"

namespace tailrace::capacity {

/// One estimator per variant. What a variant is (accelerator, image, flags) decides which learnt
/// state is its own; when that changes under the same name, learning starts again.
class Learners {
 public:
  /// One cycle of one variant. `variant` has its settings applied. `queue_before`: requests wait
  /// for a place at the gateway, so that no wait for one is in the TTFT that pods report.
  tune::ParameterEstimate update(double now_s, const Variant& variant,
                                 const ModelSettings& settings, bool queue_before = false);
  /// Rates of an estimate that update() gave, now about the SLO and the lengths that the variant
  /// was sized for. Empty where the estimator's own rate is another one, as for percentiles.
  void set_rates(const ModelKey& model, const SloTarget& slo, VariantCapacity& variant) const;
  /// Gives what is no longer collected to the store.
  void forget(double now_s);

  std::string save(double now_s);
  Result<void> restore(std::string_view document) { return store_.restore(document); }

 private:
  struct Pod {
    double first_s = 0, last_s = 0;
  };
  struct Learner {
    tune::ParameterKey key;
    tune::TuneConfig config;
    std::unique_ptr<tune::Estimator> estimator;
    std::string origin;  ///< where its first knowledge is from
    std::map<std::string, Pod> pods;
    double begun_s = 0, seen_s = 0;
  };

  Result<void> prepare(double now_s, Learner& learner, const Variant& variant,
                       tune::TuneConfig config);
  void put(const Learner& learner, double now_s);

  std::map<std::tuple<ModelKey, std::string>, Learner> learners_;
  tune::ParameterStore store_;
};

}  // namespace tailrace::capacity
