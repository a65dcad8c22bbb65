// Any bytes as what an API server answers: a page of a list, a line of a watch, a Lease, a Scale, a
// ConfigMap, a refusal. Read or refused in words; what was read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kubernetes/documents.h"
#include "kubernetes/lease_document.h"
#include "tailrace/core/check.h"
#include "tailrace/kubernetes/config_map.h"
#include "tailrace/kubernetes/scale.h"

namespace {

using namespace tailrace;
using namespace tailrace::kubernetes;

template <class T>
bool told(const Result<T>& result) {
  if (!result) TAILRACE_CHECK(!result.error().message.empty());
  return result.has_value();
}

void read_envelopes(std::string_view text) {
  DocumentReader reader;
  if (const auto page = read_list_page(text); told(page)) {
    for (const std::string& item : page->items) TAILRACE_CHECK(told(reader.read(item)));
  }
  WatchLine line;
  if (told(read_watch_line(text, line)) && line.type != "ERROR") {
    TAILRACE_CHECK(!line.resource_version.empty());
    if (line.type != "BOOKMARK") TAILRACE_CHECK(told(reader.read(line.object)));
  }
  ApiRequest request;
  request.path = "/api/v1/pods";
  for (const int status : {403, 409, 500}) {
    const Error error = error_of(request, {status, std::string(text), std::nullopt});
    TAILRACE_CHECK(error.message.find('\n') == std::string::npos);
  }
}

void read_objects(std::string_view text) {
  if (const auto scale = parse_scale(text); told(scale)) {
    TAILRACE_CHECK(scale->spec_replicas >= 0 && scale->status_replicas >= 0);
  }
  if (const auto map = parse_config_map(text); told(map))
    TAILRACE_CHECK(!map->resource_version.empty());
  const auto lease = parse_lease(text);
  if (!told(lease)) return;
  TAILRACE_CHECK(lease->duration_s >= 0);
  LeaseClaim claim;
  claim.holder = "fuzz";
  claim.transitions = lease->transitions + 1;
  claim.acquire_time = claim.renew_time = micro_time(1e9);
  const auto changed = parse_lease(changed_lease(text, claim));
  TAILRACE_CHECK(changed && changed->holder == "fuzz" && changed->duration_s == 15);
  TAILRACE_CHECK(changed->transitions == claim.transitions);
  TAILRACE_CHECK(changed->resource_version == lease->resource_version);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 65'536) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_envelopes(text);
  read_objects(text);
  return 0;
}
