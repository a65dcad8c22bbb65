// What does the next line of a JSON lines file say?
//
// One JSON object a line; blank lines are passed over. Memory is one line and its parse. Text must
// be UTF-8. One thread at a time; an element lives until the following call.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string_view>

#include "tailrace/dataset/line_reader.h"

namespace tailrace::dataset {

class JsonLines {
 public:
  explicit JsonLines(LineReader lines);

  /// The next line's object; nothing at the end. Errors: those of LineReader; kInvalidArgument for
  /// what is not an object, not UTF-8, or nested more than 64 deep.
  Result<std::optional<simdjson::dom::object>> next();
  /// The same for a line of this reader that the caller has read already.
  Result<simdjson::dom::object> parse(std::string_view line);

  const LineReader& lines() const { return lines_; }

 private:
  LineReader lines_;
  std::unique_ptr<simdjson::dom::parser> parser_;
};

}  // namespace tailrace::dataset
