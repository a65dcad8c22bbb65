// How many iterations does a prompt take where one computes only so many tokens?
//
// Prompts are computed in order of arrival out of what an iteration's decodes leave of its budget.
// What is left over from one iteration to the next is the maximum of a random walk; its mean is
// Spitzer's sum.
#pragma once

namespace tailrace::queueing {

struct PromptTraffic {
  double tokens = 0;         ///< computed, of one prompt
  double tokens_var = 0;     ///< over prompts
  double per_iteration = 0;  ///< prompts that arrive during an iteration
  double spread = 0;         ///< of their number: variance over mean, less 1
  double per_full = 0;       ///< that arrive during an iteration with a full budget
  double per_seen = 0;       ///< that arrive during the iteration which a request arrives in
};

struct PromptLine {
  double alone = 1;          ///< iterations of a prompt that meets no other
  double chunks = 1;         ///< iterations to its last token, those before its own included
  double others = 0;         ///< tokens of others that are computed in them
  double backlog = 0;        ///< of them, left over from iterations before
  double backlog_share = 0;  ///< P(something was left over)
};

/// E[ceil(x / left)] of normal tokens x > 0, `left` with the variance `left_var`.
double iterations_of(double mean, double variance, double left, double left_var);

/// `left` of the budget per iteration, with its variance over time.
PromptLine prompt_line(const PromptTraffic& traffic, double left, double left_var);

}  // namespace tailrace::queueing
