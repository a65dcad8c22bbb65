// One connection to a server, in use by a call or waiting in the pool. Private to src/net.
#pragma once

#include <memory>
#include <vector>

#include "tailrace/net/stream.h"

namespace tailrace::net {

/// Keeps one read outstanding and passes what it yields to whoever holds the connection now. While
/// it waits in the pool the read tells when the server closes it.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Bytes that may be changed in place; empty: end of stream. Called with no read outstanding.
    virtual void received(std::span<char> bytes) = 0;
    virtual void read_failed(const Error& error) = 0;
    virtual void written(Result<void> result) = 0;
  };

  ClientConnection(Endpoint to, std::unique_ptr<Stream> connected)
      : endpoint(std::move(to)), stream(std::move(connected)), buffer_(kReadBytes) {}

  void set_owner(Owner* owner) { owner_ = owner; }

  void read_more() {
    if (reading_) return;
    reading_ = true;
    stream->read(buffer_, [this](Result<std::size_t> result) {
      const auto self = shared_from_this();
      reading_ = false;
      if (owner_ == nullptr) return;
      if (!result) return owner_->read_failed(result.error());
      owner_->received(std::span(buffer_).first(*result));
    });
  }

  void write(std::string bytes) {
    std::vector<std::string> buffers;
    buffers.push_back(std::move(bytes));
    stream->write(std::move(buffers), [this](Result<void> result) {
      const auto self = shared_from_this();
      if (owner_ != nullptr) owner_->written(std::move(result));
    });
  }

  const Endpoint endpoint;
  const std::unique_ptr<Stream> stream;

 private:
  static constexpr std::size_t kReadBytes = 16 * 1024;
  std::vector<char> buffer_;
  Owner* owner_ = nullptr;
  bool reading_ = false;
};

}  // namespace tailrace::net
