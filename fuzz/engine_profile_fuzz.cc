// Any bytes as an engine's profile: an engine that can run, or refused in words.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tailrace/engine/profile.h"

using namespace tailrace::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = parse_profile(text, "fuzz.yaml");
  if (!profile) {
    if (!profile.error().message.starts_with("fuzz.yaml:")) std::abort();
  } else if (!profile->config.check()) {
    std::abort();
  }
  return 0;
}
