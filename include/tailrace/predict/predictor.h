// How long will the answer to this request be, judging by what came before?
//
// Features in, a LengthLaw out, and the truth fed back later. Predictors hold no clock, no thread
// and no randomness of their own: the same sequence of calls gives the same bytes. One thread at a
// time (the gateway's prediction thread owns it).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/length/length_law.h"

namespace tailrace::predict {

/// What a gateway can see of a request. Text is hashed at once and never stored or logged.
struct RequestFeatures {
  std::string model;
  std::string tenant;
  std::string route;        ///< "chat", "completions", "responses"
  std::string prompt_head;  ///< the first words of the last user turn (up to 512 bytes)
  std::string prompt_tail;  ///< its last words (up to 512 bytes)
  std::uint64_t prompt_fingerprint = 0;  ///< hash of the whole last user turn; 0: none
  std::uint64_t system_fingerprint = 0;  ///< hash of the system prompt; 0: none
  std::string response_format;           ///< "", "json_object", "json_schema"
  std::string reasoning_effort;          ///< "", "low", "medium", "high", …
  int tools = 0;                         ///< number of tools offered
  bool tool_choice_forced = false;
  int turns = 1;  ///< messages in the conversation
  Tokens prompt_tokens{0};
  Tokens cap{1};
  std::optional<double> temperature;
  std::optional<double> top_p;
  bool cap_is_explicit = false;  ///< the client set a limit, as opposed to a default
  Tokens min_tokens{0};          ///< the engine must not stop before this many; 0: no such wish
  int stop_sequences = 0;        ///< number of strings that end the answer
  // What the model has said before in this conversation. A request carries its whole conversation,
  // so every turn is predicted afresh with one more answer known.
  int earlier_answers = 0;
  Tokens last_answer{0};       ///< about, from its text; 0: none
  double mean_log_answer = 0;  ///< of ln tokens over the earlier answers
};

struct Prediction {
  length::LengthLaw law;
  /// The law's recent out-of-sample errors are small and unbiased enough to order by.
  bool calibrated = false;
};

/// A length that became known.
struct Observation {
  Tokens length{0};
  bool censored =
      false;  ///< the answer was cut at `length` (cap reached, aborted): the truth is at least this
  /// A report in passing: the answer goes on after `length`, and another observation of it will
  /// follow. Groups learn from it at once, so that the first answers to end, the short ones, are
  /// not taken for all.
  bool running = false;
  Tokens reported{0};  ///< `length` of the last report in passing of this answer; 0: there was none
};

/// One thing about a request that moved its prediction, in words that hold no text of the prompt
/// but the words themselves that the asking client sent.
struct Influence {
  std::string what;      ///< "word 'essay'", "model", "prompt length", "earlier answers"
  double log_shift = 0;  ///< it moved ln(tokens) of the typical answer by so much
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<Prediction> predict(std::span<const RequestFeatures> batch) = 0;
  /// What moved the prediction for this request most, largest first; at most `limit`. Slower than
  /// predict; for people. Nothing where a predictor does not look at single features.
  virtual std::vector<Influence> explain(const RequestFeatures& features, std::size_t limit) const {
    (void)features;
    (void)limit;
    return {};
  }
  virtual void observe(const RequestFeatures& features, const Observation& observation) = 0;

  /// A versioned, checksummed image of everything learned.
  virtual std::string save() const = 0;
  /// All or nothing. Errors: kDataLoss (damaged), kUnsupported (another version or kind).
  virtual Result<void> load(std::string_view image) = 0;
};

/// Which laws the online predictor gives.
enum class Output {
  kLogT,     ///< log-t by location and scale, corrected by recent errors
  kBinned,   ///< bins: the histogram of the request's group, whatever the prompt says
  kMixture,  ///< bins: that log-t, groups' histograms and repeated prompts, mixed hazard by hazard
};

/// Values out of range are brought to the nearest bound.
struct PredictorOptions {
  double prior_mu = 5.0;     ///< ln tokens, before anything is known; −2 to 16
  double prior_sigma = 1.0;  ///< 0.03 to 3
  int table_bits = 18;       ///< 2^bits hashed weights of 16 bytes; 8 to 24
  int min_samples = 100;     ///< observations before a prediction counts as calibrated; at least 1
  Output output = Output::kMixture;  ///< the online predictor's only
};

/// Learns in place from every observation: a hierarchical prior (all → model → kind of call →
/// tenant → system prompt) under a linear model on hashed text and numeric features that predicts
/// (mu, sigma) of a log-t law by a censored likelihood, with a calibration layer on out-of-sample
/// errors; that law, groups' histograms and repeated prompts are then mixed into one on bins.
/// Trust is decided for each model. About 40 µs to predict and 50 µs to learn from one request;
/// 12 MB at 18 table bits, whatever the traffic.
std::unique_ptr<Predictor> make_online_predictor(const PredictorOptions& options = {});

/// Only the hierarchical prior: the baseline, and what a request without text gets.
std::unique_ptr<Predictor> make_prior_predictor(const PredictorOptions& options = {});

}  // namespace tailrace::predict
