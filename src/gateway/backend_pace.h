// How fast do a backend's tokens come, and how many of its streams decode at once?
//
// A BackendPace for each address of a backend, kept while its backend is put again or streams are
// on their way, also if it was removed in between, and a PacedStream for each streaming answer of
// one choice: it counts among its backend's streams from its first token until its last or until it
// is destroyed, so that no way to end can leave it counted. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "tailrace/core/token_pace.h"

namespace tailrace::gateway {

struct BackendPace {
  TokenPaceMeter meter{std::chrono::seconds(120)};
  std::uint64_t streams = 0;  ///< have had their first token and not ended
};

class PacedStream {
 public:
  explicit PacedStream(std::shared_ptr<BackendPace> pace) : pace_(std::move(pace)) {}
  ~PacedStream() {
    if (counted_) --pace_->streams;
  }
  PacedStream(const PacedStream&) = delete;
  PacedStream& operator=(const PacedStream&) = delete;

  /// Once, before any gap.
  void first_token(MonoTime now) {
    pace_->meter.first_token(now, pace_->streams);
    ++pace_->streams;
    counted_ = true;
  }
  void gap(MonoTime now, Duration gap) { pace_->meter.gap(now, gap, pace_->streams); }

 private:
  std::shared_ptr<BackendPace> pace_;
  bool counted_ = false;
};

}  // namespace tailrace::gateway
