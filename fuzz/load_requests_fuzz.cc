// Any bytes as a request file or an arrival trace of the load generator: refused with a reason, or
// read back to the same from what it writes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tailrace/core/check.h"
#include "tailrace/loadgen/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tailrace::loadgen;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto requests = parse_requests(text)) {
    for (const LoadRequest& request : *requests) {
      const std::string line = to_json_line(request);
      const auto again = parse_requests(line);
      TAILRACE_CHECK(again.has_value() && again->size() == 1);
      TAILRACE_CHECK(to_json_line(again->front()) == line);
    }
  } else {
    TAILRACE_CHECK(!requests.error().message.empty());
  }
  if (const auto arrivals = parse_arrivals(text)) {
    for (std::size_t i = 1; i < arrivals->size(); ++i) {
      TAILRACE_CHECK((*arrivals)[i - 1] <= (*arrivals)[i]);
    }
  }
  return 0;
}
