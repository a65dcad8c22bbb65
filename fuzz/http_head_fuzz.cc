// Feeds arbitrary bytes to the head scanner and parsers, whole and cut in two: both must agree, a
// head that is accepted must have one meaning, and what we write back must be read as the same
// head.
#include <cstdint>
#include <string>
#include <string_view>

#include "net/head_parser.h"
#include "tailrace/core/check.h"

using namespace tailrace::net;

namespace {

constexpr std::size_t kBytesMax = 4096;
constexpr std::size_t kHeadersMax = 50;

template <class Head>
void check_round_trip(const Head& first, const Head& second) {
  TAILRACE_CHECK(first.headers.size() == second.headers.size());
  auto other = second.headers.begin();
  for (const Header& header : first.headers) {
    TAILRACE_CHECK(header.name == other->name);
    TAILRACE_CHECK(header.value == other->value);
    ++other;
  }
}

void check_request(std::string_view bytes) {
  const auto head = parse_request_head(bytes);
  if (!head) return;
  TAILRACE_CHECK(head->method.find_first_of(" \r\n") == std::string::npos);
  TAILRACE_CHECK(head->target.find_first_of(" \r\n") == std::string::npos);
  (void)request_framing(*head);
  const auto again = parse_request_head(serialize(*head));
  TAILRACE_CHECK(again.has_value());
  TAILRACE_CHECK(again->method == head->method && again->target == head->target);
  check_round_trip(*head, *again);
}

void check_response(std::string_view bytes) {
  const auto parsed = parse_response_head(bytes);
  if (!parsed) return;
  (void)response_framing(parsed->head, "GET");
  const auto again = parse_response_head(serialize(parsed->head));
  TAILRACE_CHECK(again.has_value());
  TAILRACE_CHECK(again->head.status == parsed->head.status);
  check_round_trip(parsed->head, again->head);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t cut = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  HeadScanner whole(kBytesMax, kHeadersMax);
  const auto end = whole.scan(bytes);

  HeadScanner pieces(kBytesMax, kHeadersMax);
  auto found = pieces.scan(bytes.substr(0, cut));
  if (found && *found == 0) found = pieces.scan(bytes);
  TAILRACE_CHECK(found.has_value() == end.has_value());
  if (!end || *end == 0) return 0;
  TAILRACE_CHECK(*end == *found);
  check_request(bytes.substr(0, *end));
  check_response(bytes.substr(0, *end));
  return 0;
}
