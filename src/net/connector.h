// How does a name become a connected stream, plain or TLS? Private to src/net.
#pragma once

#include <memory>

#include "net/asio_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

/// The trust store, loaded when the first TLS connection asks for it.
class TlsSettings {
 public:
  TlsSettings();
  ~TlsSettings();
  struct Context;
  Result<std::shared_ptr<Context>> context();

 private:
  std::shared_ptr<Context> context_;
};

std::unique_ptr<Connecting> start_connecting(
    AsioLoop& loop, TlsSettings& tls, const Endpoint& to, Duration timeout,
    UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace tailrace::net
