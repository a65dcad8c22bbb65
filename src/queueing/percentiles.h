// How are TTFT, gaps between tokens and time in the system spread over requests?
//
// The corrected mode's means with the laws around them. Milliseconds and tokens.
#pragma once

#include "queueing/mixture.h"
#include "queueing/token_budget.h"
#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

struct LatencyLaw {
  double rate_per_ms = 0;
  double idle = 1, full = 0;  ///< shares of arrivals that meet nobody, or a full batch
  double full_wait = 0;       ///< mean wait of the latter for a slot
  double alpha = 0;           ///< shortest iteration
  double iteration = 0;       ///< mean
  double slow_var = 0;        ///< of what lasts from one iteration to the next
  double full_iteration = 0;  ///< mean of a full batch
  double most_others = 0;     ///< slots beside one's own
  double admitted = 0;        ///< who enter a full batch with one
  double prefill = 0;         ///< what a prompt adds to its iteration, on average
  double prefill_var = 0;     ///< over prompts
  double decode = 0;          ///< what a decode adds
  double linear_prefill = 0;  ///< what it adds where the knee is passed
  double prompt_tokens = 0;   ///< computed
  double prompt_cv2 = 0;      ///< their squared coefficient of variation
  double beta = 0;
  double below_knee = 0;  ///< tokens that an iteration computes for nothing
  double left = 0;        ///< tokens of the budget beside the decodes; 0: no budget
  double left_var = 0;
  PromptTraffic traffic;  ///< where `left` is above 0, with
  PromptLine line;
  double decodes = 0;
  double length_cv2 = 0;       ///< of iterations per request
  double decode_time_cv2 = 0;  ///< of the mean gap, over requests
};

/// Fills the percentiles of `out` that are wanted, whose means are there.
void add_percentiles(const LatencyLaw& law, const WhichPercentiles& which, Latency& out);

}  // namespace tailrace::queueing
