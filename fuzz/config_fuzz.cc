// Any bytes as a configuration or as a backend that the admin API is given: read or refused in
// words.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tailrace/gateway/config.h"

using namespace tailrace::gateway;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = parse_config(text, "fuzz.yaml")) {
    (void)summarize(*config);
    (void)summarize_json(*config);
  } else if (config.error().message.empty()) {
    std::abort();
  }
  if (const auto backend = parse_backend("fuzz", text, no_environment())) {
    if (backend->slots < 1 || backend->models.empty() || backend->name != "fuzz") std::abort();
  }
  return 0;
}
