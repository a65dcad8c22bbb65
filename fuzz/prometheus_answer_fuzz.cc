// Any bytes as what a Prometheus server answers: read, or refused in words; values that are kept
// have times that rise, and there are no more of them than the limits say.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/observe/prometheus_answer.h"

namespace {

using namespace tailrace;
using namespace tailrace::observe;

void check_answer(const PrometheusAnswer& answer, const PrometheusAnswerLimits& limits) {
  TAILRACE_CHECK(answer.series.size() <= limits.series_max);
  TAILRACE_CHECK(answer.problems.size() <= limits.problems_max + 1);
  if (answer.kind == PrometheusAnswer::Kind::kScalar) TAILRACE_CHECK(answer.series.size() == 1);
  std::size_t points = 0;
  for (const Series& series : answer.series) {
    TAILRACE_CHECK(!series.points.empty());
    points += series.points.size();
    double last = -INFINITY;
    for (const Point& point : series.points) {
      TAILRACE_CHECK(std::isfinite(point.time_s) && point.time_s > last);
      last = point.time_s;
    }
  }
  TAILRACE_CHECK(points <= limits.points_max);
  for (const auto& texts : {answer.problems, answer.warnings}) {
    for (const std::string& text : texts) {
      TAILRACE_CHECK(!text.empty() && core::valid_utf8(text) == text);
    }
  }
}

void read(std::string_view body, const PrometheusAnswerLimits& limits) {
  const auto answer = parse_prometheus_answer(body, limits);
  if (answer) return check_answer(*answer, limits);
  TAILRACE_CHECK(!answer.error().message.empty());
  TAILRACE_CHECK(core::valid_utf8(answer.error().message) == answer.error().message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 65'536) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  read(body, {});
  PrometheusAnswerLimits narrow;
  narrow.series_max = 2;
  narrow.points_max = 3;
  narrow.problems_max = 1;
  read(body, narrow);
  return 0;
}
