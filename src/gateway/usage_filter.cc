#include "gateway/usage_filter.h"

#include <utility>

#include "gateway/answer_reading.h"
#include "gateway/request_reader.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kHeldBytesMax = 64 * 1024;  // no engine's usage event is longer
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

using net::EventLine;

/// May a line that begins so turn out to be a field of an event (data, event, id, retry)?
bool may_belong_to_event(std::string_view begin) {
  if (kByteOrderMark.starts_with(begin.substr(0, kByteOrderMark.size()))) {
    begin.remove_prefix(std::min(begin.size(), kByteOrderMark.size()));
  }
  const std::size_t colon = begin.find_first_of(":\r\n");
  for (const std::string_view name : {"data", "event", "id", "retry"}) {
    if (colon == std::string_view::npos ? name.starts_with(begin)
                                        : begin.substr(0, colon) == name) {
      return true;
    }
  }
  return false;
}

bool is_orphan_line_feed(const EventLine& line) {
  return line.kind == EventLine::Kind::kField && line.raw == "\n" && line.text.empty();
}

/// One parser per thread instead of one per stream: a parser keeps some 40 kB of buffers.
json::Reader& shared_reader() {
  thread_local json::Reader reader(kJsonDepthMax);
  return reader;
}

}  // namespace

struct UsageFilter::Impl {
  Impl(Route r, bool d) : route(r), drop(d) {
    on_line = [this](const EventLine& line) { drop ? decide(line) : observe(line); };
  }

  Route route;
  bool drop;
  net::EventStreamScanner scanner;
  UniqueFunction<void(const EventLine&)> on_line;
  AnswerFacts facts;
  std::uint64_t dropped = 0;

  std::string* out = nullptr;      // during feed and finish
  std::string held;                // complete lines of an event whose fate is open
  std::size_t passed = 0;          // bytes of the incomplete line that the client has already
  bool event_is_error = false;     // "event: error" stands before the data
  bool event_passes = false;       // a data line of this event went to the client
  bool in_dropped_event = false;   // its data line is gone; what belongs to it follows
  bool last_line_dropped = false;  // so an LF that completes its CR goes too
  bool at_boundary = true;

  void feed(std::string_view bytes) {
    if (!drop) out->append(bytes);
    scanner.feed(bytes, on_line);
    if (drop) {
      consider_pending(scanner.pending());
    } else if (!scanner.pending().empty()) {
      at_boundary = false;
    }
  }

  void finish() {
    const std::string_view rest = scanner.pending();
    bool is_caused = false;
    if (rest.starts_with("data:")) is_caused = note_data(core::trim(rest.substr(5)));
    if (!drop) return;
    if (is_caused && passed == 0) {
      held.clear();
      ++dropped;
      passed = rest.size();
      return;
    }
    release();
    if (passed < rest.size()) emit(rest.substr(passed));
    passed = rest.size();
  }

  /// Dropping is off: the bytes are with the client already.
  void observe(const EventLine& line) {
    note_line(line);
    if (!is_orphan_line_feed(line)) at_boundary = line.kind == EventLine::Kind::kBlank;
  }

  /// Dropping is on: what becomes of a complete line?
  void decide(const EventLine& line) {
    const bool partly_passed = passed > 0;
    const std::string_view raw = line.raw.substr(std::exchange(passed, 0));
    if (is_orphan_line_feed(line)) {
      if (!last_line_dropped) append(raw);
      return;
    }
    last_line_dropped = false;
    const bool is_caused = note_line(line);
    switch (line.kind) {
      case EventLine::Kind::kBlank:
        if (in_dropped_event) {
          last_line_dropped = true;
        } else {
          pass(raw, true);
        }
        event_passes = in_dropped_event = false;
        break;
      case EventLine::Kind::kData:
        in_dropped_event = false;
        if (is_caused && !partly_passed) {
          drop_event();
        } else {
          pass(raw, false);
          event_passes = true;
        }
        break;
      case EventLine::Kind::kComment:
        append(raw);
        if (held.empty()) at_boundary = false;
        break;
      case EventLine::Kind::kField:
        decide_field(line, raw, partly_passed);
        break;
    }
  }

  void decide_field(const EventLine& line, std::string_view raw, bool partly_passed) {
    if (partly_passed || event_passes || !may_belong_to_event(line.text)) {
      append(raw);
      if (held.empty()) at_boundary = false;
    } else if (in_dropped_event && !line.text.starts_with("data")) {
      last_line_dropped = true;
    } else {
      in_dropped_event = false;  // a data line too long to read begins the next event
      held.append(raw);
      if (held.size() > kHeldBytesMax) release();
    }
  }

  /// The beginning of a line: it may go now if nothing that it can become would be dropped.
  void consider_pending(std::string_view pending) {
    if (pending.size() <= passed) return;
    if (passed == 0) {
      const bool open = may_belong_to_event(pending) || in_dropped_event;
      const bool fits = held.size() + pending.size() <= kHeldBytesMax;
      if (fits && (open || !held.empty())) return;
      release();
    }
    emit(pending.substr(passed));
    passed = pending.size();
    at_boundary = false;
  }

  void drop_event() {
    ++dropped;
    held.clear();
    last_line_dropped = true;
    // Without blank lines between events the next blank ends the ones before, which the client has.
    in_dropped_event = !event_passes;
  }

  void emit(std::string_view bytes) { out->append(bytes); }
  void release() {
    if (held.empty()) return;
    emit(held);
    held.clear();
    at_boundary = false;
  }
  /// In order behind what is held.
  void append(std::string_view raw) {
    if (held.empty()) {
      emit(raw);
    } else {
      held.append(raw);
      if (held.size() > kHeldBytesMax) release();
    }
  }
  void pass(std::string_view raw, bool ends_event) {
    release();
    emit(raw);
    at_boundary = ends_event;
  }

  /// Learns from a line; true if it is the event that asking for usage causes.
  bool note_line(const EventLine& line) {
    switch (line.kind) {
      case EventLine::Kind::kBlank:
        event_is_error = false;
        return false;
      case EventLine::Kind::kData:
        return note_data(line.value);
      case EventLine::Kind::kField:
        if (line.text.starts_with("event:")) {
          event_is_error = core::trim(line.text.substr(6)) == "error";
        }
        return false;
      case EventLine::Kind::kComment:
        return false;
    }
    return false;
  }

  bool note_data(std::string_view value) {
    if (event_is_error) facts.failed = true;
    if (value == "[DONE]") {
      facts.done = true;
      return false;
    }
    const auto root = shared_reader().parse(value);
    json::Object event;
    if (!root || root->get(event) != simdjson::SUCCESS) {
      // NaN among the log probabilities is no JSON, but something was generated all the same.
      if (value.find("\"choices\":[{") != std::string_view::npos) ++facts.counted_events;
      return false;
    }
    note_event(route, event, facts);
    return route != Route::kResponses && is_usage_event(event);
  }
};

UsageFilter::UsageFilter(Route route, bool drop_caused_usage)
    : impl_(std::make_unique<Impl>(route, drop_caused_usage)) {}
UsageFilter::~UsageFilter() = default;
UsageFilter::UsageFilter(UsageFilter&&) noexcept = default;
UsageFilter& UsageFilter::operator=(UsageFilter&&) noexcept = default;

void UsageFilter::feed(std::string_view bytes, std::string& out) {
  impl_->out = &out;
  impl_->feed(bytes);
  impl_->out = nullptr;
}

void UsageFilter::finish(std::string& out) {
  impl_->out = &out;
  impl_->finish();
  impl_->out = nullptr;
}

const AnswerFacts& UsageFilter::facts() const {
  return impl_->facts;
}
std::size_t UsageFilter::held_bytes() const {
  if (!impl_->drop) return 0;
  return impl_->held.size() + impl_->scanner.pending().size() - impl_->passed;
}
std::uint64_t UsageFilter::dropped_events() const {
  return impl_->dropped;
}
bool UsageFilter::at_event_boundary() const {
  return impl_->at_boundary;
}

}  // namespace tailrace::gateway
