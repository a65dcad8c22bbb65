// Any bytes as a request's body: read or refused, and a body that was read keeps everything but the
// option that asks for usage.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/request_reader.h"
#include "gateway/response_reader.h"

using namespace tailrace::gateway;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const Route route : {Route::kChat, Route::kCompletions, Route::kResponses}) {
    auto request = read_request(route, body);
    (void)read_answer(route, body);
    const std::string asking = with_usage_request(body);  // stays inside any text
    if (!request) continue;
    if (request->slots < 1) std::abort();
    settle_cap(*request, ModelConfig{tailrace::Tokens{100}, {}}, tailrace::Tokens{10});
    if (request->cap.count() < 1) std::abort();
    const auto again = read_request(route, asking);
    // One level deeper than the body may be one too deep.
    if (!again) {
      if (again.error().message.find("deeper") == std::string::npos) std::abort();
      continue;
    }
    if (!again->usage_asked || again->model != request->model || again->slots != request->slots ||
        again->limit != request->limit || again->prompt_tokens != request->prompt_tokens) {
      std::abort();
    }
  }
  return 0;
}
