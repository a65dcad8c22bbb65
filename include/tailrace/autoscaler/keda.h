// How does KEDA ask how many replicas a variant should have?
//
// The KedaBoard holds copies of the latest decisions, for any thread. The KedaServer answers KEDA's
// external scaler protocol from it (gRPC, on threads of its own): the metric's target is 1 and its
// value the replicas that are wanted, so that KEDA asks for just as many. What is not known is an
// error, on which KEDA holds or falls back, and never 0.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tailrace/autoscaler/brain.h"
#include "tailrace/net/stream.h"

namespace tailrace::autoscaler {

/// What is wanted of each variant. Any thread.
class KedaBoard {
 public:
  /// After a cycle. One that does not lead knows nothing; a blind cycle changes nothing.
  void record(const CycleRecord& record, bool leads);

  /// Errors: kNotFound (no such variant), kUnavailable (nothing was decided of it yet, or this
  /// instance does not lead).
  Result<std::int64_t> desired(std::string_view ns, std::string_view variant) const;

  /// Waits until the board differs from what it was at `version`, which is then its new one, at
  /// most for `limit`, and not at all after close().
  std::uint64_t wait(std::uint64_t version, Duration limit) const;
  void close();
  bool closed() const;
  /// The last cycle was of an instance that does not lead.
  bool passive() const;

 private:
  struct Entry {
    std::int64_t desired = 0;
    bool decided = false;  ///< from enough knowledge, once at least
  };
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::pair<std::string, std::string>, Entry, std::less<>> entries_;
  std::string unavailable_ = "no cycle has ended yet";
  std::uint64_t version_ = 0;
  bool closed_ = false;
  bool passive_ = false;
};

struct KedaServerLimits {
  int streams_max = 256;          ///< of StreamIsActive; each holds a thread
  int threads_max = 300;          ///< of all calls
  int message_bytes_max = 65536;  ///< of a request
};

class KedaServer {
 public:
  /// `board` must outlive it. Port 0 picks a free one. Errors: kUnavailable (address in use).
  static Result<std::unique_ptr<KedaServer>> listen(const net::Endpoint& at, KedaBoard& board,
                                                    const KedaServerLimits& limits = {});
  virtual ~KedaServer() = default;  ///< closes the board and ends every call
  /// Listens where this instance leads, and not where it does not: KEDA keeps one connection, which
  /// a Service of all instances may have given to any, and only one that ends is made anew. What is
  /// under way ends. Errors: kUnavailable (address in use; call it again).
  virtual Result<void> serve(bool leads) = 0;
  virtual net::Endpoint local() const = 0;
};

}  // namespace tailrace::autoscaler
