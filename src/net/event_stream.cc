#include "tailrace/net/event_stream.h"

namespace tailrace::net {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

EventLine classify(std::string_view raw, std::string_view text) {
  using Kind = EventLine::Kind;
  EventLine line{raw, text, Kind::kField, {}};
  if (text.empty()) {
    line.kind = Kind::kBlank;
  } else if (text.front() == ':') {
    line.kind = Kind::kComment;
  } else if (text == "data") {
    line.kind = Kind::kData;
  } else if (text.starts_with("data:")) {
    line.kind = Kind::kData;
    line.value = text.substr(text.starts_with("data: ") ? 6 : 5);
  }
  return line;
}

}  // namespace

void EventStreamScanner::emit(std::string_view raw, std::size_t end_bytes, OnLine& on_line) {
  std::string_view text = raw.substr(0, raw.size() - end_bytes);
  if (first_line_ && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  if (std::exchange(in_pieces_, false)) {
    on_line({raw, text, EventLine::Kind::kField, {}});
  } else {
    on_line(classify(raw, text));
  }
}

void EventStreamScanner::feed(std::string_view bytes, OnLine& on_line) {
  if (after_cr_ && !bytes.empty()) {
    after_cr_ = false;
    if (bytes.front() == '\n') {
      on_line({bytes.substr(0, 1), {}, EventLine::Kind::kField, {}});
      bytes.remove_prefix(1);
    }
  }
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    // A line over the limit is cut at the same bytes whatever the reads were.
    std::string_view content = bytes.substr(0, end);
    while (content.size() > line_bytes_max_ - pending_.size()) {
      const std::size_t taken = line_bytes_max_ - pending_.size();
      emit_piece(content.substr(0, taken), on_line);
      content.remove_prefix(taken);
      bytes.remove_prefix(taken);
    }
    if (end == std::string_view::npos) {
      pending_ += content;
      return;
    }
    std::size_t end_bytes = 1;
    if (bytes[content.size()] == '\r') {
      if (content.size() + 1 == bytes.size()) {
        after_cr_ = true;
      } else if (bytes[content.size() + 1] == '\n') {
        end_bytes = 2;
      }
    }
    const std::string_view tail = bytes.substr(0, content.size() + end_bytes);
    bytes.remove_prefix(tail.size());
    if (pending_.empty()) {
      emit(tail, end_bytes, on_line);
    } else {
      pending_ += tail;
      const std::string line = std::exchange(pending_, {});
      emit(line, end_bytes, on_line);
    }
  }
}

void EventStreamScanner::emit_piece(std::string_view rest, OnLine& on_line) {
  const std::string piece = std::exchange(pending_, {}) + std::string(rest);
  in_pieces_ = true;
  first_line_ = false;
  on_line({piece, piece, EventLine::Kind::kField, {}});
}

}  // namespace tailrace::net
