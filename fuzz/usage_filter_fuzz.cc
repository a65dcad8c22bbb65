// Any bytes as an event stream, in any split: nothing is invented or reordered, what is dropped
// does not depend on the split, and without dropping every byte passes at once. The first byte
// chooses the splits.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/usage_filter.h"

using namespace tailrace::gateway;

namespace {

std::string run(Route route, bool drop, std::string_view bytes, std::size_t seed,
                std::uint64_t* dropped) {
  UsageFilter filter(route, drop);
  std::string out;
  std::size_t at = 0;
  std::size_t state = seed;
  while (at < bytes.size()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::size_t step = seed == 0 ? bytes.size() : 1 + (state >> 33) % 17;
    filter.feed(bytes.substr(at, step), out);
    at += std::min(step, bytes.size() - at);
    if (!drop && out != bytes.substr(0, at)) std::abort();
    if (filter.held_bytes() > (64u << 10) + bytes.size() % 64) std::abort();
  }
  filter.finish(out);
  if (dropped != nullptr) *dropped = filter.dropped_events();
  return out;
}

/// Is `part` what remains of `whole` after some bytes were taken out?
bool is_subsequence(std::string_view part, std::string_view whole) {
  std::size_t at = 0;
  for (const char c : whole) {
    if (at < part.size() && part[at] == c) ++at;
  }
  return at == part.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (60u << 10)) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const Route route : {Route::kChat, Route::kResponses}) {
    if (run(route, false, bytes, data[0], nullptr) != bytes) std::abort();
    std::uint64_t dropped = 0;
    std::uint64_t dropped_in_steps = 0;
    const std::string whole = run(route, true, bytes, 0, &dropped);
    const std::string steps = run(route, true, bytes, data[0] | 1u, &dropped_in_steps);
    if (whole != steps || dropped != dropped_in_steps) std::abort();
    if (dropped == 0 ? whole != bytes : !is_subsequence(whole, bytes)) std::abort();
  }
  return 0;
}
