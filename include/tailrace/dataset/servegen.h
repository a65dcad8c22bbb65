// At which rates did each client of a real service send, and how long were its requests?
//
// ServeGen's tables hold no requests but, per client, ten-minute windows with a rate and the form
// of the gaps, and quantiles or histograms of lengths. They are held in memory: 32 bytes a window
// inside the time asked for, some 200 a record of lengths; kServeGenWindowsMax bounds the former.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::dataset {

inline constexpr double kServeGenWindow_s = 600;
inline constexpr std::size_t kServeGenWindowsMax = 2'000'000;
inline constexpr std::size_t kServeGenClientsMax = 10'000;

struct RateWindow {
  double begin_s = 0;
  double end_s = 0;
  double rate = 1;  ///< requests per second, > 0
  /// Of the gaps: Weibull, or gamma, with this shape. Their published scale is left out: with it
  /// the mean gap is that of the busy part of a window, and not 1/rate.
  bool is_weibull = false;
  double shape = 1;
};

/// A quantile function of token counts, linear in ln tokens between its points.
class TokenCurve {
 public:
  struct Point {
    double share = 0;  ///< of requests that are no longer, 0 to 1
    double log_tokens = 0;
  };
  /// `points` ascend in both, from share 0 to share 1; at least two.
  explicit TokenCurve(std::vector<Point> points) : points_(std::move(points)) {}

  /// The length that a share `u` of requests, in [0, 1), does not exceed; at least 1.
  double at(double u) const;

 private:
  std::vector<Point> points_;
};

/// Lengths of one client's requests around a moment.
struct TimedCurve {
  double at_s = 0;
  bool is_histogram = false;
  TokenCurve curve;
};
/// In order of time; a histogram after quantiles of the same moment.
using CurvesOverTime = std::vector<TimedCurve>;

struct ServeGenClient {
  std::uint64_t id = 0;
  std::vector<RateWindow> windows;  ///< in order, apart; at least one
  /// Shared by clients whose own lengths were not published. Outputs are never empty; prompts are
  /// where none are recorded.
  std::shared_ptr<const CurvesOverTime> prompts, outputs;
};

struct ServeGenFiles {
  std::string arrivals;  ///< client,t_s,rate_rps,cv,family,shape,scale_s
  std::string lengths;   ///< client,t_s,in_p10,…,in_max,out_p10,…,out_max
  std::string
      histograms;  ///< JSON lines {"client", "t_s", "input_tokens", "output_tokens"}; "" none
};

/// The clients that send between `from_s` and `until_s`, by id; windows cut to that time. Lengths
/// of all times. Errors: those of LineReader; kInvalidArgument naming file, line, field, value and
/// remedy, or when there is no window in that time, or no length at all; kResourceExhausted.
Result<std::vector<ServeGenClient>> read_servegen(
    const ServeGenFiles& files, double from_s = 0,
    double until_s = std::numeric_limits<double>::infinity());

}  // namespace tailrace::dataset
