// What does a request cost, and how long and how varied are the iterations at one rate?
//
// The parts of the corrected mode. Milliseconds and tokens; callers have
// checked their arguments.
#pragma once

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

/// Averages over requests. "Prefill" is the iteration, or the iterations, that compute the prompt.
struct RequestWork {
  double iterations = 1;   ///< that it takes part in, of one prefill
  double decodes = 0;      ///< iterations − 1
  double prefill = 0;      ///< prompt tokens that are computed
  double prefill_var = 0;  ///< their variance
  double touched = 0;      ///< prompt tokens that are touched
  double decode_kv = 0;    ///< context that a decode touches
  double touched_var = 0;  ///< of the prompts' context
  double ages_var = 0;     ///< of the answer tokens that those in the batch have made
  double age_lasts = 0;    ///< how long an age tells of the batch, in lengths of an answer
  double resident = 0;     ///< context that it holds, over its iterations
  double length_cv2 = 0;   ///< squared coefficient of variation of its iterations
};

RequestWork work_of(const ServiceModel& model, const Workload& workload);

/// By how much the numbers in an iteration vary more than Poisson: variance / mean − 1.
struct Overdispersion {
  double prefills = 0, decodes = 0;
};

/// What one more unit of each kind adds to an iteration, near an operating point.
struct Slopes {
  double prefill = 0;      ///< of a request that computes its prompt
  double prefill_var = 0;  ///< its variance over requests
  double decode = 0;       ///< of a request that decodes
  /// Beyond a knee prompts add more to each other: by how much one more raises `prefill`, and what
  /// that adds to an iteration's variance, per prompt.
  double bend = 0, bend_var = 0;
};

/// The iterations of an engine without limits to its batch, at a rate that it can serve.
struct OperatingPoint {
  double iteration = 0;  ///< mean over iterations
  Slopes slopes;
};

/// Its tokens are computed beyond the knee only, in iterations whose prefills come at random: by
/// steps from `start_ms`, up to `most_ms`, until one is shorter than `precision` of it.
OperatingPoint operating_point(const IterationModel& model, const RequestWork& work,
                               double rate_per_ms, const Overdispersion& over, double start_ms,
                               double most_ms, double precision = 1e-7);

/// An iteration in which `decoding` decode and to which prefills come at `prefills` on average.
double iteration_ms(const IterationModel& model, const RequestWork& work, double decoding,
                    double prefills, const Overdispersion& over);

/// Largest rate, and what sets it.
struct RateLimit {
  double per_ms = 0;  ///< 0: a request of mean lengths does not fit into memory
  Binding binding = Binding::kNone;
  double slots = 0;          ///< sequences in the batch when it is full, by count or by memory
  double budget_per_ms = 0;  ///< what the token budget alone would set; 0: it has none
};

RateLimit rate_limit(const IterationModel& model, const ServiceLimits& limits,
                     const RequestWork& work);

}  // namespace tailrace::queueing
