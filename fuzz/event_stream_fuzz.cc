// Feeds arbitrary bytes to the event-stream scanner, whole and in pieces: the same lines, and the
// concatenation of what it reports is the input.
#include <cstdint>
#include <string>
#include <vector>

#include "tailrace/core/check.h"
#include "tailrace/net/event_stream.h"

using namespace tailrace::net;

namespace {

struct Scanned {
  std::string raw;
  std::vector<std::string> lines;
};

Scanned scan(std::string_view bytes, std::size_t piece) {
  constexpr std::size_t kLineBytesMax = 64;
  Scanned result;
  EventStreamScanner scanner(kLineBytesMax);
  EventStreamScanner::OnLine on_line = [&](const EventLine& line) {
    result.raw += line.raw;
    TAILRACE_CHECK(line.raw.size() <= kLineBytesMax + 2);
    if (line.raw == "\n" && line.kind == EventLine::Kind::kField) return;  // of a CR LF cut in two
    result.lines.push_back(std::string(line.text) + "|" + std::string(line.value) +
                           static_cast<char>('0' + static_cast<int>(line.kind)));
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    scanner.feed(bytes.substr(at, piece), on_line);
    TAILRACE_CHECK(scanner.pending().size() <= kLineBytesMax);
  }
  result.raw += scanner.pending();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Scanned whole = scan(bytes, bytes.size() + 1);
  const Scanned pieces = scan(bytes, 1 + data[0] % 32);
  TAILRACE_CHECK(whole.raw == bytes && pieces.raw == bytes);
  TAILRACE_CHECK(whole.lines == pieces.lines);
  return 0;
}
