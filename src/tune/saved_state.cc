#include "tune/saved_state.h"

#include <fmt/format.h>

#include "tailrace/core/text.h"

namespace tailrace::tune {

tl::unexpected<Error> damaged_state(std::string_view estimator, std::string_view what) {
  return fail(ErrorCode::kDataLoss,
              fmt::format("saved {} state: {}; start without it", estimator, what));
}

Result<simdjson::dom::object> open_state(simdjson::dom::parser& parser, std::string_view document,
                                         std::string_view estimator, std::int64_t version,
                                         std::size_t bytes_max) {
  const auto damaged = [&](std::string_view what) { return damaged_state(estimator, what); };
  if (document.size() > bytes_max) {
    return damaged(fmt::format("{} bytes are more than {}", document.size(), bytes_max));
  }
  const simdjson::padded_string padded(document);
  simdjson::dom::object root;
  if (parser.parse(padded).get(root) != simdjson::SUCCESS) return damaged("it is no JSON object");
  std::string_view saved_by;
  if (root["estimator"].get(saved_by) != simdjson::SUCCESS) return damaged("no `estimator`");
  if (saved_by != estimator) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("saved state: it is of the estimator {}, not of {}; start without it, "
                            "or choose that estimator",
                            core::quoted(saved_by), estimator));
  }
  std::int64_t saved_version = 0;
  if (root["version"].get(saved_version) != simdjson::SUCCESS) return damaged("no `version`");
  if (saved_version != version) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("saved {} state: version {} is not {}; start without it", estimator,
                            saved_version, version));
  }
  return root;
}

}  // namespace tailrace::tune
