// Which requests come, when, and how long will their answers be?
//
// A Workload is a stream of requests in order of arrival: generated, or read from a trace. It holds
// one request at a time, and some 40 bytes for each conversation that goes on. Same spec and seed,
// same requests, whatever policy or engine they meet, so that runs can be compared request by
// request. Gaps, lengths, prompts and classes come from streams of their own: another rate leaves
// the lengths as they are.
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
  Tokens output{1};        ///< the true length, ≤ cap; policies never see it
  Tokens cap{2048};        ///< what policies and predictors may know of the limit
  bool cap_is_own = true;  ///< false: it named none, and `cap` is all that the model can hold
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
  /// Rows of a trace that it has read and left out, since they hold no answered request
  /// (TraceReader::dropped); in every pass.
  virtual std::uint64_t dropped() const { return 0; }
  /// Conversations that would have gone on, had their context not been full.
  virtual std::uint64_t cut_sessions() const { return 0; }
};

/// A rate from this time on, on a straight line to the next point; the last one stays.
struct RatePoint {
  double at_s = 0, rate = 0;
};

struct ArrivalSpec {
  enum class Kind {
    kPoisson,
    kGamma,     ///< gaps of coefficient of variation `cv`
    kMarkov,    ///< Poisson whose rate jumps between `rate` and `rate · high` (mean sojourns given)
    kSinusoid,  ///< Poisson of rate · (1 + amplitude · sin(2π t / period))
    kSpikes,    ///< Poisson; in the last `spike` of every `period` the rate is rate · high
    kAtOnce,    ///< all at time 0
    kProfile,   ///< Poisson whose rate follows `profile`; not in files
  };
  Kind kind = Kind::kPoisson;
  double rate = 1;  ///< requests per second, > 0; for kMarkov and kSpikes the low one
  double cv = 1;
  double high = 4;
  double amplitude = 0.5;
  double period_s = 60;
  double spike_s = 5;
  double low_sojourn_s = 60, high_sojourn_s = 10;
  /// Of kProfile: by rising time, from 0; two points at one time are a step.
  std::vector<RatePoint> profile;
  // Whichever comes first ends the stream, a trace's too; without a trace one must be given.
  std::optional<double> duration_s;
  std::optional<std::uint64_t> count;
};

/// Arrivals per second in the long run; infinite for kAtOnce; of kProfile the mean to its end.
double mean_rate(const ArrivalSpec& spec);

/// kLogT, hierarchical: mu ~ N(mu_mean, mu_sd) per prompt; sigma log-normal with median
/// sigma_median and log-sd sigma_spread, ln sigma correlated with mu; length =
/// ceil(exp(mu + sigma·T(nu))). kExponential, rounded up to whole tokens, is the geometric law
/// whose mean is exactly `mean` (> 1). All are held within `least` and `cap`.
struct LengthSpec {
  enum class Kind { kLogT, kFixed, kExponential };
  Kind kind = Kind::kLogT;
  double mu_mean = 4.6, mu_sd = 0.9;
  double sigma_median = 0.75, sigma_spread = 0.3, correlation = 0;
  double nu = 3.5;
  double mean = 128;  ///< of kFixed (rounded) and kExponential
  std::int64_t least = 1, cap = 2048;
};

struct PromptSpec {
  enum class Kind { kFixed, kLogNormal };
  Kind kind = Kind::kFixed;
  double mean = 128;
  double cv = 1;  ///< of kLogNormal
  std::int64_t least = 1, most = 32'768;
};

/// A part of the traffic: each request, or session, is of a class with probability share / sum of
/// shares. What a class does not say is the workload's.
struct ClassSpec {
  std::string tenant;
  double share = 1;
  int priority = 0;  ///< higher is more urgent
  double weight = 1;
  std::optional<double> deadline_s;  ///< from arrival
  std::optional<LengthSpec> lengths;
  std::optional<PromptSpec> prompts;
};

/// Conversations: `arrivals` then say when one begins, `prompts` how long a user's message is. A
/// turn's prompt is the whole conversation so far and the new message. When an answer really ends
/// is the simulator's to find out, and a workload must not depend on it, so that all policies meet
/// the same requests: a turn comes after the previous one's arrival, by the time that its answer is
/// meant to take and the time to think. An engine that is slower than meant meets two turns of one
/// session at once.
struct SessionSpec {
  double turns = 4;                 ///< mean of a geometric number, ≥ 1
  double think_s = 20;              ///< mean of an exponential time
  double token_s = 0.03;            ///< that each token of the answer is meant to take
  std::int64_t context = 32'768;    ///< a session ends before a turn whose prompt and cap exceed it
  std::int64_t system_tokens = 0;   ///< what every session of a class begins with
  std::int64_t tokens_per_id = 64;  ///< of the prefix ids: a multiple of the engine's block
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
  /// For rows that name none: longer answers are cut there. 0: they end as recorded, and all that
  /// policies may know is WorkloadSpec::context, the same for all.
  std::int64_t cap = 0;
  /// Answers as long as `lengths` draws them, instead of as recorded: real arrivals and prompts
  /// with lengths whose law is known.
  bool draw_lengths = false;
};

/// Requests drawn from ServeGen's tables of clients (dataset/servegen.h), which are held in memory:
/// per client the rate and the form of the gaps of its ten-minute windows, and lengths of the
/// record nearest in time. Every client is a tenant. Prompts of workloads that record none are
/// `prompts`'.
struct ServeGenSpec {
  std::string arrivals, lengths;
  std::string histograms;  ///< of the busiest clients; may be empty
  double from_s = 0;       ///< of the tables' clock
  std::optional<double> until_s;
  double rate_scale = 1;  ///< of every rate; the clock stays as it is
  std::int64_t cap = 0;   ///< as TraceSpec's, of every request
};

struct WorkloadSpec {
  ArrivalSpec arrivals;
  LengthSpec lengths;
  PromptSpec prompts;
  std::vector<ClassSpec> classes;       ///< none: all requests are alike
  std::optional<SessionSpec> sessions;  ///< none: every request stands alone
  // Instead of all the above, but for the end that `arrivals` may set.
  std::optional<TraceSpec> trace;
  std::optional<ServeGenSpec> servegen;
  /// Tokens that the model can hold: the limit of recorded requests that name none. A limit that
  /// followed the recorded length would tell it to every policy.
  std::int64_t context = 131'072;
};

/// Errors: kInvalidArgument naming the field, its value and what it may be; those of TraceReader
/// and read_servegen.
Result<std::unique_ptr<Workload>> make_workload(const WorkloadSpec& spec, const Rng& rng);

}  // namespace tailrace::simulate
