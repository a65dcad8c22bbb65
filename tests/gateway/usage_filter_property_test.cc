// Over random event streams and random splits: the filter's output is what a plain line-by-line
// reference computes from the whole stream, and does not depend on the split.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "gateway/usage_filter.h"

namespace tailrace::gateway {
namespace {

constexpr std::string_view kUsageData = R"({"choices":[],"usage":{"completion_tokens":3}})";

/// One event: field lines, data lines, a blank line.
struct Event {
  std::vector<std::string> lines;
  bool is_usage = false;
};

rc::Gen<Event> any_event() {
  return rc::gen::exec([] {
    Event event;
    if (*rc::gen::inRange(0, 4) == 0) event.lines.push_back("event: message");
    if (*rc::gen::inRange(0, 6) == 0) event.lines.push_back("id: 7");
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
        event.lines.push_back("data: " + std::string(kUsageData));
        event.is_usage = true;
        break;
      case 1:
        event.lines = {": comment"};
        break;
      case 2:
        event.lines.push_back("data: [DONE]");
        break;
      case 3:
        event.lines.push_back("data: " + *rc::gen::string<std::string>());
        for (char& c : event.lines.back()) c = c == '\r' || c == '\n' ? ' ' : c;
        break;
      default:
        event.lines.push_back(
            R"(data: {"choices":[{"index":0,"delta":{"content":"é世"}}],"usage":null})");
        break;
    }
    return event;
  });
}

RC_GTEST_PROP(UsageFilterProperty, OutputIsTheStreamWithoutUsageEventsForEverySplit, ()) {
  const std::string line_end = *rc::gen::element<std::string>("\n", "\r\n", "\r");
  const auto events = *rc::gen::container<std::vector<Event>>(any_event());
  std::string bytes;
  std::string expected;
  for (const Event& event : events) {
    std::string text;
    for (const auto& line : event.lines) text += line + line_end;
    text += line_end;
    bytes += text;
    if (!event.is_usage) expected += text;
  }
  UsageFilter filter(Route::kChat, true);
  UsageFilter observer(Route::kChat, false);
  std::string out;
  std::string seen;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t step = *rc::gen::inRange<std::size_t>(1, 40);
    const auto read = std::string_view(bytes).substr(at, step);
    filter.feed(read, out);
    observer.feed(read, seen);
    RC_ASSERT(seen == bytes.substr(0, at + read.size()));
    at += read.size();
  }
  filter.finish(out);
  observer.finish(seen);
  RC_ASSERT(out == expected);
  RC_ASSERT(seen == bytes);
}

RC_GTEST_PROP(UsageFilterProperty, AnyBytesPassWithoutDroppingAndNothingIsInventedWithIt, ()) {
  const auto bytes = *rc::gen::container<std::string>(rc::gen::oneOf(
      rc::gen::element('\n', '\r', ':', 'd', 'a', 't', ' '), rc::gen::arbitrary<char>()));
  UsageFilter filter(Route::kChat, true);
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t step = *rc::gen::inRange<std::size_t>(1, 8);
    filter.feed(std::string_view(bytes).substr(at, step), out);
    at += step;
  }
  filter.finish(out);
  RC_ASSERT(out == bytes);
}

}  // namespace
}  // namespace tailrace::gateway
