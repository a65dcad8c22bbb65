// What does this engine look like to a scraper? vLLM's series, and how late the emulation itself
// is.
#pragma once

#include <memory>
#include <string>

#include "emulator/engine_driver.h"
#include "tailrace/engine/engine_config.h"

namespace tailrace::emulator {

/// A finished request in emulated time.
struct FinishedRequest {
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  Duration end_to_end{0};
  Duration queued{0};   ///< from arrival until it first entered the batch
  Duration prefill{0};  ///< from there to its first token
  Duration decode{0};   ///< from there to its last
  bool cut = false;
};

class EngineMetrics {
 public:
  EngineMetrics(const std::string& model_name, const engine::EngineConfig& config);
  ~EngineMetrics();

  void prompt_started(std::int64_t prompt_tokens);
  void first_token(Duration since_arrival);
  void next_token(Duration since_last);
  void iteration(std::int64_t batch_tokens);
  void finished(const FinishedRequest& request);
  void aborted();
  void refused();

  /// Prometheus text exposition.
  std::string text(const engine::EngineState& state, const DriverLag& lag) const;

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace tailrace::emulator
