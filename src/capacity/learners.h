// Who learns which variant's parameters, and from which of its pods?
#pragma once

#include <map>
#include <memory>
#include <optional>
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

  struct Pod {
    double first_s = 0, last_s = 0;
  };
  /// One variant's learner without its estimator, which the store has, unless `state` has it:
  /// variants that are the same thing share one place in the store.
  struct Saved {
    tune::ParameterKey key;
    tune::EstimatorKind kind = tune::EstimatorKind::kWindowed;
    std::string learning;  ///< digits of how it learns: under other settings it begins anew
    std::optional<std::string> state;
    std::string origin;
    std::map<std::string, Pod> pods;
    double begun_s = 0, seen_s = 0;
  };
  using SavedLearners = std::map<std::tuple<ModelKey, std::string>, Saved>;

  /// Puts everything into the store, so that store() is complete.
  SavedLearners save(double now_s);
  const tune::ParameterStore& store() const { return store_; }
  void restore(tune::ParameterStore store, SavedLearners learners);

 private:
  struct Learner {
    tune::ParameterKey key;
    tune::TuneConfig config;
    std::unique_ptr<tune::Estimator> estimator;
    std::string origin;  ///< where its first knowledge is from
    std::map<std::string, Pod> pods;
    double begun_s = 0, seen_s = 0;
    std::optional<Saved> saved;  ///< of the process before; until the first cycle
  };

  Result<void> prepare(double now_s, Learner& learner, const Variant& variant,
                       tune::TuneConfig config);
  Result<tune::ParameterStore::Started> start(Learner& learner, const tune::ParameterKey& key,
                                              const tune::TuneConfig& config) const;
  void put(const Learner& learner, double now_s);

  std::map<std::tuple<ModelKey, std::string>, Learner> learners_;
  tune::ParameterStore store_;
};

}  // namespace tailrace::capacity
