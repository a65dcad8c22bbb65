// Any bytes as a request trace: refused with a reason, or requests that keep what their header
// promises.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tailrace/core/check.h"
#include "tailrace/dataset/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tailrace::dataset;
  auto reader =
      TraceReader::from_bytes(std::string(reinterpret_cast<const char*>(data), size), "input");
  if (!reader) {
    TAILRACE_CHECK(!reader.error().message.empty());
    return 0;
  }
  TAILRACE_CHECK(reader->format() != TraceFormat::kAuto);
  TraceRow row;
  double last_s = 0;
  for (;;) {
    const auto more = reader->next(row);
    if (!more) {
      TAILRACE_CHECK(!more.error().message.empty());
      TAILRACE_CHECK(!reader->next(row));
      return 0;
    }
    if (!*more) return 0;
    TAILRACE_CHECK(row.arrival_s >= last_s && row.arrival_s <= kTraceSecondsMax);
    last_s = row.arrival_s;
    TAILRACE_CHECK(row.prompt_tokens >= 1 && row.prompt_tokens <= kTraceTokensMax);
    TAILRACE_CHECK(row.output_tokens >= 1 && row.output_tokens <= kTraceTokensMax);
    TAILRACE_CHECK(!row.cap || (*row.cap >= 1 && *row.cap <= kTraceTokensMax));
    TAILRACE_CHECK(row.prefix_ids.size() <= kTraceIdsMax && row.tokens_per_id >= 1);
    TAILRACE_CHECK(std::isfinite(row.weight) && row.weight > 0);
    TAILRACE_CHECK(!row.deadline_s || *row.deadline_s >= 0);
    TAILRACE_CHECK(!row.law || row.law->sigma > 0);
  }
}
