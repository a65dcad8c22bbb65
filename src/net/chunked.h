// Which bytes of a chunked body are content, and where does it end (RFC 9112, 7.1)?
//
// Strict: CRLF only, at most 16 hexadecimal digits, no sign, no white space before the size. Chunk
// extensions and trailers are skipped, and bounded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::net {

class ChunkedDecoder {
 public:
  struct Progress {
    std::size_t consumed = 0;  ///< bytes of the input that belong to this body
    std::size_t content = 0;   ///< decoded bytes, moved to the front of the input
    bool done = false;         ///< the last chunk and the trailers have been seen
  };

  /// Decodes in place, so that several chunks in one read become one piece. Fed with any split of a
  /// body into reads it yields the same content. Errors: kInvalidArgument; the decoder is then
  /// unusable.
  Result<Progress> decode(std::span<char> bytes);

 private:
  enum class State {
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,
    kTrailerLf,
    kDone
  };

  /// Handles one framing byte; the error's text, or nothing.
  const char* step(char c);

  State state_ = State::kSize;
  std::uint64_t remaining_ = 0;
  int digits_ = 0;
  std::size_t skipped_bytes_ = 0;  ///< of extensions and trailers, in the whole body
  bool last_chunk_ = false;
  bool trailer_line_empty_ = true;
};

/// The line before a chunk of `size` bytes: "1a\r\n", written into `buffer`.
std::string_view chunk_head(std::size_t size, std::span<char, 20> buffer);

}  // namespace tailrace::net
