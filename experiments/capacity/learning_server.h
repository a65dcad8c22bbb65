// What does an emulated engine report, interval by interval, about the load that it serves?
//
// The engine is that of the other programs. Each interval's numbers are means over what happened in
// it, as an engine's metrics give them: lengths of the requests that ended, TTFT of the first
// tokens, ITL of all gaps between tokens, the mean batch, and what a gateway in front sees of the
// gaps (core/token_pace.h). Nothing is added: what noise there is comes from arrivals and lengths.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tailrace/core/time.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/queueing/service_model.h"
#include "tailrace/tune/observation.h"

namespace tailrace::accuracy {

/// Lengths of requests, in tokens. A coefficient of variation of 0 is one fixed length; otherwise
/// log-normal, rounded to whole tokens.
struct Shape {
  double input = 1024, output = 256;
  double input_cv = 0, output_cv = 0;

  auto key() const { return std::tuple(input, output, input_cv, output_cv); }
  queueing::Workload at(double rate_per_s) const;
};

/// Poisson arrivals of one shape for some time.
struct Segment {
  double rate_per_s = 0;
  Shape shape;
  double seconds = 60;
};

inline constexpr Duration kPaceWindow = std::chrono::seconds(120);  ///< the gateway's

/// What one engine reports of each segment, run one after the other without a pause: what a segment
/// leaves undone falls into the next. Times count from the start of the first. What one more
/// sequence adds to a gap is measured over `pace_window`, as a gateway does it.
std::vector<tune::Observation> serve(const engine::EngineConfig& engine,
                                     std::span<const Segment> segments, Duration pace_window,
                                     std::uint64_t seed);

/// One engine in its steady state: a point is simulated behind a warm-up over so many requests that
/// little chance is left, and reported as an interval of 60 s. Repeats of a point differ by what
/// chance is left.
class SteadyServer {
 public:
  SteadyServer(const engine::EngineConfig& engine, double requests_per_point, std::uint64_t seed)
      : engine_(engine), requests_(requests_per_point), seed_(seed) {}

  const tune::Observation& at(double rate_per_s, const Shape& shape, std::uint64_t repeat = 0);

 private:
  using Key = std::tuple<double, std::tuple<double, double, double, double>, std::uint64_t>;

  engine::EngineConfig engine_;
  double requests_;
  std::uint64_t seed_;
  std::map<Key, tune::Observation> known_;
};

}  // namespace tailrace::accuracy
