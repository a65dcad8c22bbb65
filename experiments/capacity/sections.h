// Which tables does docs/capacity-accuracy.md have?
//
// Each section prints Markdown and says how many of its stated limits it misses.
#pragma once

#include <cstdio>

namespace tailrace::accuracy {

struct Options {
  /// One seed and short runs, to see that a section works. Its numbers mean little.
  bool quick = false;
};

/// TTFT, ITL, percentiles and capacity against the simulator.
int print_latency(std::FILE* out, const Options& options);
/// Learning alpha, beta and gamma from a cold start, with the emulated engine as the server.
int print_learning(std::FILE* out, const Options& options);
/// Measured engines: fitted on part, tested on the rest.
int print_measured(std::FILE* out, const Options& options);

}  // namespace tailrace::accuracy
