// Any bytes as a page of metrics: read or told line by line, within the limits, and whatever is
// kept can be told apart and written down again.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/observe/exposition.h"

namespace {

using namespace tailrace;
using namespace tailrace::observe;

void check_text(std::string_view text) {
  TAILRACE_CHECK(core::valid_utf8(text) == text);
}

void check_page(const Exposition& page, const ExpositionOptions& options) {
  TAILRACE_CHECK(page.series.size() <= options.series_max);
  TAILRACE_CHECK(page.problems.size() <= options.problems_max);
  TAILRACE_CHECK(page.samples >= page.series.size());
  std::set<SeriesKey> keys;
  for (const Series& series : page.series) {
    TAILRACE_CHECK(keys.insert(series.key).second);
    TAILRACE_CHECK(!series.key.name.empty() && !series.points.empty());
    TAILRACE_CHECK(options.only == nullptr || options.only->contains(series.key.name));
    TAILRACE_CHECK(series.key.labels.size() <= options.labels_max);
    check_text(series.key.name);
    for (const auto& [name, value] : series.key.labels) {
      TAILRACE_CHECK(!name.empty() && !value.empty());
      check_text(value);
    }
    double last = -INFINITY;
    for (const Point& point : series.points) {
      TAILRACE_CHECK(std::isfinite(point.time_s) && point.time_s > last);
      last = point.time_s;
    }
  }
  for (const LineProblem& problem : page.problems) {
    TAILRACE_CHECK(problem.line > 0 && !problem.message.empty());
    check_text(problem.message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::set<std::string, std::less<>> kWanted{"x", "vllm:num_requests_running"};
  if (size == 0 || size > 65'536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ExpositionOptions options;
  options.time_s = 1'700'000'000;
  // '0' to '7' in a corpus that people read.
  if ((data[0] & 1) != 0) options.format = ExpositionFormat::kOpenMetrics;
  if ((data[0] & 2) != 0) options.only = &kWanted;
  if ((data[0] & 4) != 0) {
    options.series_max = 3;
    options.labels_max = 2;
    options.line_bytes_max = 100;
    options.problems_max = 1;
  }
  check_page(parse_exposition(text, options), options);
  return 0;
}
