// Which requests come, when, and how long will their answers be?
//
// A Workload is a stream of requests in order of arrival: generated, or read from a trace. It holds
// one request at a time. Same spec and seed, same requests, whatever policy or engine they meet, so
// that runs can be compared request by request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/engine/engine_core.h"
#include "tailrace/length/length_law.h"

namespace tailrace::simulate {

struct Request {
  std::uint64_t id = 0;  ///< 0, 1, … in order of arrival
  MonoTime arrival;
  Tokens prompt{1};
  Tokens output{1};  ///< the true length, ≤ cap; policies never see it
  Tokens cap{2048};
  std::string tenant;
  int priority = 0;  ///< higher is more urgent
  double weight = 1;
  std::optional<MonoTime> deadline;
  std::uint64_t session = 0;  ///< 0: none
  engine::PrefixIds prefix;
  std::optional<length::LengthLaw> truth;  ///< what its length was drawn from, where known
};

class Workload {
 public:
  virtual ~Workload() = default;
  /// The next request in `out`; false at the end. Errors: those of a trace.
  virtual Result<bool> next(Request& out) = 0;
};

struct ArrivalSpec {
  enum class Kind {
    kPoisson,
    kGamma,     ///< gaps of coefficient of variation `cv`
    kMarkov,    ///< Poisson whose rate jumps between `rate` and `rate · high` (mean sojourns given)
    kSinusoid,  ///< Poisson of rate · (1 + amplitude · sin(2π t / period))
    kSpikes,    ///< Poisson; every `period` the rate is rate · high for `spike`
    kAtOnce,    ///< all at time 0
  };
  Kind kind = Kind::kPoisson;
  double rate = 1;  ///< requests per second, > 0; for kMarkov the low state's
  double cv = 1;
  double high = 4;
  double amplitude = 0.5;
  double period_s = 60;
  double spike_s = 5;
  double low_sojourn_s = 60, high_sojourn_s = 10;
  // Whichever comes first ends the stream; at least one must be given.
  std::optional<double> duration_s;
  std::optional<std::uint64_t> count;
};

/// Hierarchical log-t: mu ~ N(mu_mean, mu_sd) per prompt; sigma log-normal with median
/// sigma_median and log-sd sigma_spread, correlated with mu; length = ceil(exp(mu + sigma·T(nu))).
struct LengthSpec {
  enum class Kind { kLogT, kFixed, kExponential };
  Kind kind = Kind::kLogT;
  double mu_mean = 4.6, mu_sd = 0.9;
  double sigma_median = 0.75, sigma_spread = 0.3, correlation = 0;
  double nu = 3.5;
  double mean = 128;  ///< of kFixed and kExponential
  std::int64_t least = 1, cap = 2048;
};

struct PromptSpec {
  enum class Kind { kFixed, kLogNormal };
  Kind kind = Kind::kFixed;
  double mean = 128;
  double cv = 1;  ///< of kLogNormal
  std::int64_t least = 1, most = 32'768;
};

/// Recorded requests. The order of what is done: merge the files by time of arrival, cut the
/// window, sample, speed up, repeat, stop after `count`.
struct TraceSpec {
  /// Each on its own clock, at once: requests of several services, or the parts of one trace. Files
  /// with dates are put on one calendar.
  std::vector<std::string> paths;
  double from_s = 0;              ///< of the recorded clock: what came earlier is left out
  std::optional<double> until_s;  ///< and what came at this time or later
  double sample = 1;              ///< each request is kept with this probability
  double speed = 1;               ///< arrivals come this many times faster
  /// Whole passes, one after the other: each begins the mean gap after the previous one's last
  /// arrival. Not of standard input.
  std::uint64_t repeat = 1;
  /// Prefix ids mean other tokens in every pass and every file, so that a cache is not warm merely
  /// because the trace comes again.
  bool fresh_prefixes = true;
  std::int64_t cap = 0;  ///< for rows that name none; 0: their own length, as vLLM's ignore_eos
  std::optional<std::uint64_t> count;  ///< requests at most
};

struct WorkloadSpec {
  ArrivalSpec arrivals;
  LengthSpec lengths;
  PromptSpec prompts;
  std::optional<TraceSpec> trace;  ///< instead of the three
};

/// Errors: kInvalidArgument naming the field, its value and what it may be; those of TraceReader.
Result<std::unique_ptr<Workload>> make_workload(const WorkloadSpec& spec, const Rng& rng);

}  // namespace tailrace::simulate
