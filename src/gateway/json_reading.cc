#include "gateway/json_reading.h"

#include <fmt/format.h>

#include "gateway/json_scan.h"

namespace tailrace::gateway::json {
namespace {

constexpr std::size_t kFirstCapacity = 4096;

Error explain(simdjson::error_code code, std::size_t depth_max) {
  switch (code) {
    case simdjson::DEPTH_ERROR:
      return {ErrorCode::kInvalidArgument,
              fmt::format("the JSON nests deeper than {} levels", depth_max)};
    case simdjson::UTF8_ERROR:
      return {ErrorCode::kInvalidArgument, "the JSON is not valid UTF-8"};
    case simdjson::EMPTY:
      return {ErrorCode::kInvalidArgument, "the JSON is empty"};
    case simdjson::MEMALLOC:
      return {ErrorCode::kInternal, "out of memory while reading JSON"};
    default:
      return {ErrorCode::kInvalidArgument,
              fmt::format("malformed JSON: {}", simdjson::error_message(code))};
  }
}

}  // namespace

Reader::Reader(std::size_t depth_max) : depth_max_(depth_max) {
  // simdjson counts the document itself as a level. A failed allocation shows again in parse().
  [[maybe_unused]] const auto failed = parser_.allocate(kFirstCapacity, depth_max + 1);
}

Result<Element> Reader::parse(std::string_view text) {
  // An empty view may be null, which simdjson would copy from.
  if (text.empty()) return fail(explain(simdjson::EMPTY, depth_max_));
  Element root;
  simdjson::error_code code = parser_.parse(text.data(), text.size()).get(root);
  if (code == simdjson::NUMBER_ERROR) {
    const std::string readable = with_representable_numbers(text);
    code = parser_.parse(readable.data(), readable.size()).get(root);
  }
  if (code != simdjson::SUCCESS) return fail(explain(code, depth_max_));
  return root;
}

}  // namespace tailrace::gateway::json
