// Where does each server-sent event in a byte stream begin and end?
//
// The scanner only looks: it never changes, adds or drops a byte. Fed with any split of a stream
// into reads, it reports the same lines. Line ends are LF, CRLF and CR (HTML Living
// Standard, 9.2.6).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tailrace/core/unique_function.h"

namespace tailrace::net {

/// One line of an event stream.
struct EventLine {
  std::string_view raw;   ///< with its line end, exactly as it came
  std::string_view text;  ///< without it, and without a byte-order mark on the first line
  /// What the line is. kData: "data" or "data:…" (`value` without one leading space); kComment:
  /// ":…"; kBlank: the end of an event; kField: any other field.
  enum class Kind { kBlank, kData, kComment, kField } kind;
  std::string_view value;  ///< of a kData line
};

/// Splits into lines. A line longer than `line_bytes_max` is reported in pieces of kind kField with
/// `value` empty, so memory stays bounded whatever the peer sends.
class EventStreamScanner {
 public:
  using OnLine = UniqueFunction<void(const EventLine&)>;

  explicit EventStreamScanner(std::size_t line_bytes_max = 1 << 20)
      : line_bytes_max_(line_bytes_max) {}

  /// Calls `on_line` for every line completed by `bytes`. A lone CR at the end of a read completes
  /// its line; an LF that follows it in the next read is reported as part of no line through
  /// `on_line` with raw "\n" and kind kField and empty text, so that concatenating every `raw`
  /// gives back the input.
  void feed(std::string_view bytes, OnLine& on_line);

  /// The bytes of the line that is not complete yet.
  std::string_view pending() const { return pending_; }

 private:
  void emit(std::string_view raw, std::size_t end_bytes, OnLine& on_line);
  void emit_piece(std::string_view rest, OnLine& on_line);

  std::string pending_;
  std::size_t line_bytes_max_;
  bool first_line_ = true;
  bool after_cr_ = false;
  bool in_pieces_ = false;  ///< the line's beginning has been reported already
};

}  // namespace tailrace::net
