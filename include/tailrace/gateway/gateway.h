// What stands between clients and engines?
//
// The Gateway accepts OpenAI requests, lets the ones that generate wait in the dispatcher's order,
// relays the answers byte for byte, watches the engines' health, learns lengths, and shows on an
// admin listener what it does and why. One event loop owns all of it; prediction and large bodies
// have threads of their own and post back. It runs over any Network, so the same code is tested
// over a simulated one. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/gateway/config.h"
#include "tailrace/gateway/prediction_runner.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::gateway {

/// What a test may replace. The defaults are what `tailrace serve` runs with.
struct GatewayParts {
  std::unique_ptr<PredictionRunner> prediction;  ///< null: from the configuration, on a thread
  bool read_large_bodies_inline = false;         ///< on the loop instead of on a thread
  Environment
      environment;  ///< for keys of backends that the admin listener adds; empty: the process's
  std::string_view version = "";
};

class Gateway {
 public:
  /// Listens on both addresses and begins to probe the backends. `loop` and `network` must outlive
  /// it. Errors: those of Network::listen, with the configuration's key; kInvalidArgument (unknown
  /// policy).
  static Result<std::unique_ptr<Gateway>> start(Config config, net::EventLoop& loop,
                                                net::Network& network, GatewayParts parts = {});
  /// Ends every connection at once.
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  net::Endpoint public_endpoint() const;
  std::optional<net::Endpoint> admin_endpoint() const;  ///< nothing: disabled

  /// Graceful end: not ready at once; new requests are refused after `drain.notice`; streams and
  /// waiting requests finish, or are cut at `drain.limit`. `done(clean)` runs once, with false if
  /// any was cut.
  void begin_drain(UniqueFunction<void(bool clean)> done);

  /// The graceless end: every request is answered that it was cut, as far as it still can be.
  void cut_everything();

  /// Requests, queued or not, that have not ended.
  std::size_t active_requests() const;
  const dispatch::Dispatcher& dispatcher() const;

 private:
  struct Impl;
  explicit Gateway(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::gateway
