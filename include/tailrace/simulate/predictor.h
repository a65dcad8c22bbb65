// What does the scheduler believe about a request's length, and when does it learn it?
//
// Predictors of stated quality for simulation, and the real online one. A law, not a number: point
// and rank predictors answer with a narrow law around their point. The errors of a request come
// from the seed and its id alone, so every policy meets the same predictions, in whatever order it
// asks; a better predictor makes smaller errors of the same sign. Only kOnline depends on what has
// happened before. One thread.
#pragma once

#include <cstdint>
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

  /// Share of the variance of mu, and of ln sigma, between requests that the estimates explain.
  double r2_mu = 1, r2_sigma = 1;
  /// kNoisyLaw, kPoint, kRank: instead of r2_mu, Kendall's tau of the prediction with the drawn
  /// lengths.
  std::optional<double> tau = {};

  /// kNoisyLaw: widens the law by what the estimate of mu does not know, as a predictor trained by
  /// likelihood does: sigma becomes (sigma^1.8 + (0.817·e)^1.8)^(1/1.8), where e = sd(mu)·√(1 −
  /// r2_mu). It is within 1 % of the most likely log-t of nu 3.5 for mu known up to a normal error.
  bool calibrated = false;
  /// kNoisyLaw: the family that the predictor believes in. A log-normal fitted to log-t data gets
  /// the same standard deviation of ln X: sigma·√(nu/(nu − 2)); it needs nu > 2.
  enum class Family { kLogT, kLogNormal };
  Family family = Family::kLogT;
  std::optional<double> nu = {};  ///< kNoisyLaw: the nu that it believes in; else the true one
  double nu_error = 0;  ///< kNoisyLaw: standard deviation of ln nu's error, nu being predicted

  /// Of ln length between requests, for those whose law is not known (traces). kNoisyLaw then takes
  /// the logarithm of the length itself for mu, and for sigma what r2_mu leaves unexplained.
  /// Without them nothing is foretold of such requests; run_experiment takes them from the workload
  /// itself.
  std::optional<double> log_mean = {}, log_sd = {};

  /// R² of a prediction made again while decoding, about the logarithm of the tokens still to come
  /// (TRAIL, ELIS); nothing: predictions are not refined.
  std::optional<double> r2_refined = {};
  std::int64_t refine_every = 50;  ///< generated tokens from one to the next; ≥ 1

  Duration delay{0};     ///< from arrival until the law is known
  Duration blocking{0};  ///< engine time that each prediction takes, when made inside the scheduler
};

class LengthPredictor {
 public:
  virtual ~LengthPredictor() = default;
  /// Nothing where this predictor cannot say: kNone, a law that nobody knows.
  virtual std::optional<length::LengthLaw> predict(const Request& request) = 0;
  /// The law of the whole length once `attained` tokens are generated; it changes every
  /// `refine_every` tokens. Nothing: the first prediction stands.
  virtual std::optional<length::LengthLaw> refine(const Request& request, Tokens attained) {
    (void)request;
    (void)attained;
    return std::nullopt;
  }
  /// A request goes on after `attained` tokens. May be said at any time, as often as one likes:
  /// kOnline learns at 512 tokens and at every doubling, as the gateway's does.
  virtual void report(const Request& request, Tokens attained) {
    (void)request;
    (void)attained;
  }
  /// A request has completed with its whole answer.
  virtual void learn(const Request& request) { (void)request; }
};

/// `lengths` says how the population was drawn: what shrinkage needs. Same request and rng, same
/// answer. Errors: kInvalidArgument naming the field, its value and what it may be.
Result<std::unique_ptr<LengthPredictor>> make_predictor(const PredictorSpec& spec,
                                                        const LengthSpec& lengths, const Rng& rng);

/// The r2_mu with which a prediction of mu has Kendall's tau `tau` with the lengths drawn from
/// `lengths` (caps, floors and the correlation of sigma with mu left aside). Errors:
/// kInvalidArgument with the largest tau possible: even who knows mu does not know the length.
Result<double> r2_for_tau(double tau, const LengthSpec& lengths);

}  // namespace tailrace::simulate
