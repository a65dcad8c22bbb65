#include "tailrace/dataset/json_lines.h"

#include <fmt/format.h>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"

namespace tailrace::dataset {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kFirstCapacity = 65536;  ///< grows with the longest line

std::string_view why(simdjson::error_code code) {
  switch (code) {
    case simdjson::UTF8_ERROR:
      return "not UTF-8 text; convert the file";
    case simdjson::DEPTH_ERROR:
      return "nested too deep; give a flat object";
    case simdjson::NUMBER_ERROR:
      return "not JSON: it has a number that cannot be read; give lengths as plain numbers";
    case simdjson::CAPACITY:
      return "too long to parse; split the record over several lines";
    default:
      return "not a whole JSON object; give one object on each line";
  }
}

}  // namespace

JsonLines::JsonLines(LineReader lines)
    : lines_(std::move(lines)), parser_(std::make_unique<simdjson::dom::parser>()) {
  // Fails for want of memory alone.
  TAILRACE_CHECK(parser_->allocate(kFirstCapacity, kMaxDepth) == simdjson::SUCCESS);
}

Result<simdjson::dom::object> JsonLines::parse(std::string_view line) {
  simdjson::dom::element element;
  const auto code = parser_->parse(line.data(), line.size()).get(element);
  simdjson::dom::object object;
  if (code != simdjson::SUCCESS || element.get(object) != simdjson::SUCCESS) {
    return fail(
        lines_.at_line(ErrorCode::kInvalidArgument,
                       fmt::format("{} is {}", core::quoted(core::valid_utf8(line)), why(code))));
  }
  return object;
}

Result<std::optional<simdjson::dom::object>> JsonLines::next() {
  for (;;) {
    const auto line = lines_.next();
    if (!line) return fail(line.error());
    if (!*line) return std::nullopt;
    if (core::trim(**line).empty()) continue;
    auto object = parse(**line);
    if (!object) return fail(object.error());
    return *object;
  }
}

}  // namespace tailrace::dataset
