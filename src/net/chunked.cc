#include "net/chunked.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tailrace::net {
namespace {

/// Nobody sends extensions, and trailers are a few fields: a peer that sends more is hostile.
constexpr std::size_t kSkippedBytesMax = 16 * 1024;
constexpr int kSizeDigitsMax = 16;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

const char* ChunkedDecoder::step(char c) {
  switch (state_) {
    case State::kSize: {
      const int value = hex_value(c);
      if (value >= 0) {
        if (++digits_ > kSizeDigitsMax) return "a chunk size has more than 16 digits";
        remaining_ = remaining_ << 4 | static_cast<std::uint64_t>(value);
        return nullptr;
      }
      if (digits_ == 0) return "a chunk size is not a hexadecimal number";
      if (c == '\r') {
        state_ = State::kSizeLf;
      } else if (c == ';') {
        state_ = State::kExtension;
      } else {
        return "a chunk size is not a hexadecimal number";
      }
      return nullptr;
    }
    case State::kExtension:
      if (c == '\r') {
        state_ = State::kSizeLf;
        return nullptr;
      }
      if (is_control(c)) return "a chunk extension holds a control character";
      return ++skipped_bytes_ > kSkippedBytesMax ? "chunk extensions are too long" : nullptr;
    case State::kSizeLf:
      if (c != '\n') return "a chunk size line does not end with CR LF";
      last_chunk_ = remaining_ == 0;
      trailer_line_empty_ = true;
      state_ = last_chunk_ ? State::kTrailer : State::kData;
      return nullptr;
    case State::kDataCr:
      state_ = State::kDataLf;
      return c == '\r' ? nullptr : "a chunk is longer than its size says";
    case State::kDataLf:
      state_ = State::kSize;
      digits_ = 0;
      return c == '\n' ? nullptr : "a chunk does not end with CR LF";
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerLf;
        return nullptr;
      }
      if (is_control(c)) return "a trailer holds a control character";
      trailer_line_empty_ = false;
      return ++skipped_bytes_ > kSkippedBytesMax ? "trailers are too long" : nullptr;
    case State::kTrailerLf:
      if (c != '\n') return "a trailer line does not end with CR LF";
      state_ = trailer_line_empty_ ? State::kDone : State::kTrailer;
      trailer_line_empty_ = true;
      return nullptr;
    case State::kData:
    case State::kDone:
      break;
  }
  return "internal: a framing byte is not expected here";
}

Result<ChunkedDecoder::Progress> ChunkedDecoder::decode(std::span<char> bytes) {
  Progress progress;
  while (progress.consumed < bytes.size() && state_ != State::kDone) {
    if (state_ == State::kData) {
      const std::size_t take = static_cast<std::size_t>(
          std::min<std::uint64_t>(remaining_, bytes.size() - progress.consumed));
      std::memmove(bytes.data() + progress.content, bytes.data() + progress.consumed, take);
      progress.content += take;
      progress.consumed += take;
      remaining_ -= take;
      if (remaining_ == 0) state_ = State::kDataCr;
      continue;
    }
    if (const char* error = step(bytes[progress.consumed])) {
      return fail(ErrorCode::kInvalidArgument, std::string("bad chunked body: ") + error);
    }
    ++progress.consumed;
  }
  progress.done = state_ == State::kDone;
  return progress;
}

std::string_view chunk_head(std::size_t size, std::span<char, 20> buffer) {
  char* const end = std::to_chars(buffer.data(), buffer.data() + 16, size, 16).ptr;
  end[0] = '\r';
  end[1] = '\n';
  return {buffer.data(), static_cast<std::size_t>(end + 2 - buffer.data())};
}

}  // namespace tailrace::net
