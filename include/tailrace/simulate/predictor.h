// What does the scheduler believe about a request's length, and when does it learn it?
//
// Predictors of stated quality for simulation, and the real online one. A law, not a number: point
// and rank predictors answer with a narrow law around their point.
#pragma once

#include <memory>
#include <optional>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

struct PredictorSpec {
  enum class Kind {
    kNone,
    kOracleLaw,   ///< the law that the length was drawn from
    kNoisyLaw,    ///< its parameters, estimated with R² r2_mu and r2_sigma (shrunk to the mean)
    kTrueLength,  ///< the length itself
    kPoint,       ///< the length's logarithm with R² r2_mu: SSJF
    kRank,        ///< the same, known only as an order: LTR
    kOnline,      ///< predict::Predictor, learning from what completes
  };
  Kind kind = Kind::kNone;
  double r2_mu = 1, r2_sigma = 1;
  /// kNoisyLaw: widens the law by what the estimate does not know, as a calibrated predictor does.
  bool calibrated = false;
  Duration delay{0};     ///< from arrival until the law is known
  Duration blocking{0};  ///< engine time that each prediction takes, when made inside the scheduler
};

class LengthPredictor {
 public:
  virtual ~LengthPredictor() = default;
  virtual std::optional<length::LengthLaw> predict(const Request& request) = 0;
  /// A request has completed with its whole answer.
  virtual void learn(const Request& request) { (void)request; }
};

/// `lengths` says how the population was drawn: what shrinkage needs. Same request and rng, same
/// answer. Errors: kInvalidArgument naming the field.
Result<std::unique_ptr<LengthPredictor>> make_predictor(const PredictorSpec& spec,
                                                        const LengthSpec& lengths, const Rng& rng);

}  // namespace tailrace::simulate
