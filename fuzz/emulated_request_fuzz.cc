// Any bytes as the body of a request to the emulated engine: refused with a reason, or usable as it
// is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/generation_request.h"
#include "tailrace/core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const bool chat : {true, false}) {
    const auto request = tailrace::emulator::parse_generation_request(body, chat, 16);
    if (!request) {
      TAILRACE_CHECK(!request.error().message.empty());
      continue;
    }
    TAILRACE_CHECK(request->n >= 1 && request->prompt_tokens >= 1);
    TAILRACE_CHECK(static_cast<std::int64_t>(request->prefix_ids.size()) <=
                   request->prompt_tokens / 16);
    const auto tokens = tailrace::emulator::answer_tokens(*request, {}, 0, 2048);
    TAILRACE_CHECK(tokens >= 1 && tokens <= 2048);
  }
  return 0;
}
