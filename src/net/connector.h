// How does a name become a connected stream, plain or TLS? Private to src/net.
#pragma once

#include <memory>

#include "net/asio_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

/// Trusted authorities and our own certificate: loaded when the first TLS connection asks for them,
/// and again when a file of theirs has changed.
class TlsSettings {
 public:
  explicit TlsSettings(TlsOptions options);
  ~TlsSettings();
  struct Context;
  Result<std::shared_ptr<Context>> context();
  bool verifies() const { return !options_.insecure_skip_verify; }

 private:
  const TlsOptions options_;
  std::shared_ptr<Context> context_;
  std::string stamps_;  ///< of the files, as they were when `context_` was loaded
};

std::unique_ptr<Connecting> start_connecting(
    AsioLoop& loop, TlsSettings& tls, const Endpoint& to, Duration timeout,
    UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace tailrace::net
