// What goes out now, and what must wait for the peer's window?
//
// Bytes go to the socket inside send() where it takes them; only the rest is queued, and several
// queued pieces leave as one scatter write. Private to src/net; loop thread only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/net/stream.h"

namespace tailrace::net {

class WriteQueue {
 public:
  /// `on_settled` runs when queued bytes have gone out, or with the error that broke the stream. It
  /// never runs inside send(). Whoever owns the queue keeps it until that call has returned.
  WriteQueue(Stream& stream, UniqueFunction<void(Result<void>)> on_settled)
      : stream_(stream), on_settled_(std::move(on_settled)) {}

  /// Keeps a head back so that it leaves in the same write as the first bytes of its body. The
  /// caller sees to it that send() or flush() follows in the same turn of the loop.
  void hold(std::string head) { held_ += head; }
  bool holding() const { return !held_.empty(); }
  void flush() { send(std::span<const std::string_view>()); }

  void send(std::span<const std::string_view> pieces);
  void send(std::string_view bytes) { send(std::span(&bytes, 1)); }

  /// Everything has been handed to the peer's window.
  bool idle() const { return !writing_ && queue_.empty() && held_.empty(); }
  std::size_t waiting_bytes() const;

 private:
  void enqueue(std::string_view bytes);
  void start_write();

  Stream& stream_;
  UniqueFunction<void(Result<void>)> on_settled_;
  std::string held_;
  std::vector<std::string> queue_;
  std::uint64_t accepted_ = 0;  ///< bytes given to send() since the start
  bool writing_ = false;
  bool broken_ = false;
};

}  // namespace tailrace::net
