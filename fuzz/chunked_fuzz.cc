// Feeds arbitrary bytes to the chunk decoder, whole and in pieces: content, end and verdict must
// agree.
#include <cstdint>
#include <string>

#include "net/chunked.h"
#include "tailrace/core/check.h"

using namespace tailrace::net;

namespace {

struct Decoded {
  std::string content;
  std::size_t consumed = 0;
  bool done = false;
  bool failed = false;
};

Decoded decode(std::string bytes, std::size_t piece) {
  Decoded result;
  ChunkedDecoder decoder;
  for (std::size_t at = 0; at < bytes.size() && !result.done; at += piece) {
    const std::span<char> input(bytes.data() + at, std::min(piece, bytes.size() - at));
    const auto progress = decoder.decode(input);
    if (!progress) {
      result.failed = true;
      return result;
    }
    TAILRACE_CHECK(progress->content <= progress->consumed && progress->consumed <= input.size());
    TAILRACE_CHECK(progress->done || progress->consumed == input.size());
    result.content.append(input.data(), progress->content);
    result.consumed += progress->consumed;
    result.done = progress->done;
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Decoded whole = decode(bytes, bytes.size() + 1);
  const Decoded pieces = decode(bytes, 1 + data[0] % 16);
  TAILRACE_CHECK(whole.failed == pieces.failed && whole.done == pieces.done);
  if (!whole.failed) {
    TAILRACE_CHECK(whole.content == pieces.content && whole.consumed == pieces.consumed);
  }
  return 0;
}
