// Which of the bytes after a head are its body's content? Private to src/net.
#pragma once

#include <algorithm>
#include <span>

#include "net/chunked.h"
#include "tailrace/net/http.h"

namespace tailrace::net {

class BodyDecoder {
 public:
  explicit BodyDecoder(BodyFraming framing = {}) : framing_(framing), remaining_(framing.length) {
    done_ = framing.kind == BodyFraming::Kind::kNone;
  }

  /// As ChunkedDecoder::decode, for every framing. A body that ends with the connection is never
  /// done.
  Result<ChunkedDecoder::Progress> decode(std::span<char> bytes) {
    if (done_) return ChunkedDecoder::Progress{0, 0, true};
    ChunkedDecoder::Progress progress{bytes.size(), bytes.size(), false};
    if (framing_.kind == BodyFraming::Kind::kChunked) {
      const auto decoded = chunked_.decode(bytes);
      if (!decoded) return decoded;
      progress = *decoded;
    } else if (framing_.kind == BodyFraming::Kind::kLength) {
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, bytes.size()));
      remaining_ -= take;
      progress = {take, take, remaining_ == 0};
    }
    done_ = progress.done;
    return progress;
  }

  bool done() const { return done_; }
  BodyFraming framing() const { return framing_; }
  std::uint64_t remaining() const { return remaining_; }  ///< of a body with a length

 private:
  BodyFraming framing_;
  ChunkedDecoder chunked_;
  std::uint64_t remaining_;
  bool done_;
};

}  // namespace tailrace::net
