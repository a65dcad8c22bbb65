// Any bytes as a recording of answer lengths: refused with a reason, or samples that keep what
// their header promises.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tailrace/core/check.h"
#include "tailrace/dataset/samples.h"

namespace {

void read(std::string bytes, bool pool) {
  using namespace tailrace::dataset;
  SampleOptions options;
  options.pool = pool;
  options.max_line_bytes = std::size_t{1} << 20;
  auto reader = SampleReader::from_bytes(std::move(bytes), "input", options);
  if (!reader) {
    TAILRACE_CHECK(!reader.error().message.empty());
    return;
  }
  for (;;) {
    const auto sample = reader->next();
    if (!sample) {
      TAILRACE_CHECK(!sample.error().message.empty());
      return;
    }
    if (!*sample) return;
    TAILRACE_CHECK(!(*sample)->lengths.empty());
    for (const double length : (*sample)->lengths) {
      TAILRACE_CHECK(std::isfinite(length) && length > 0);
      TAILRACE_CHECK(!(*sample)->cap || length <= *(*sample)->cap);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes, false);
  read(bytes, true);
  return 0;
}
