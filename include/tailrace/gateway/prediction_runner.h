// Who predicts, so that dispatch never waits for it?
//
// A PredictionRunner owns the Predictor and its Batcher. The gateway hands it features and gets
// laws back on the loop's thread, later or never; a job whose law never comes keeps its provisional
// place. The threaded runner works on a thread of its own with bounded inboxes in both directions,
// loads the model at start and saves it atomically; the inline one runs on the loop, so that tests
// are deterministic. Every call and every result on the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/unique_function.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/predict/batcher.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::gateway {

/// A law with the features that moved it most.
struct ExplainedPrediction {
  predict::Prediction prediction;
  std::vector<predict::Influence> influences;
};

class PredictionRunner {
 public:
  using OnResult = UniqueFunction<void(JobId, const predict::Prediction&)>;
  using OnExplained = UniqueFunction<void(JobId, const ExplainedPrediction&)>;

  /// Stops; the threaded runner saves the model first.
  virtual ~PredictionRunner() = default;

  /// Where results go. Once, before the first `predict`.
  virtual void on_result(OnResult handler) = 0;
  /// Asks for a law. False if the inbox is full: there will be no result.
  virtual bool predict(JobId id, predict::RequestFeatures features) = 0;
  /// Where the results of `explain` go. Once, before the first call of it.
  virtual void on_explained(OnExplained handler) = 0;
  /// A law with its reasons, for somebody who asked and waits for no batch. False if the inbox is
  /// full.
  virtual bool explain(JobId id, predict::RequestFeatures features) = 0;
  /// The job has left; its result is no longer wanted (it may still come).
  virtual void forget(JobId id) = 0;
  /// A length became known. False if the inbox is full: the observation is lost.
  virtual bool observe(predict::RequestFeatures features, predict::Observation observation) = 0;

  /// Requests given up so far because an inbox was full.
  virtual std::uint64_t dropped() const = 0;
};

inline constexpr std::size_t kInfluencesMax = 8;

/// Law and reasons from one predictor; nothing where it has no law to give.
std::optional<ExplainedPrediction> explained(predict::Predictor& predictor,
                                             const predict::RequestFeatures& features);

/// Runs on `loop`: a result is posted as soon as it is asked for.
std::unique_ptr<PredictionRunner> make_inline_prediction_runner(
    net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor);

struct PredictionThreadOptions {
  predict::BatcherOptions batcher;
  std::size_t inbox_max = 8192;  ///< messages that wait for the thread; more are refused
  std::string model_file;        ///< empty: nothing is loaded or saved
  Duration save_every = std::chrono::seconds(60);
  std::size_t model_bytes_max = std::size_t{256} << 20;
};

/// Runs on its own thread. A model file that is damaged or of another version is reported, moved
/// aside to
/// "<file>.damaged", and learning starts afresh.
std::unique_ptr<PredictionRunner> make_threaded_prediction_runner(
    net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor,
    PredictionThreadOptions options = {});

}  // namespace tailrace::gateway
