// How far from the truth is what an estimator has learnt from nothing, after how many cycles?
//
// A run is one server (its engine and the lengths that it serves), one pattern of loads, one kind
// of feed and one seed. It ends in errors of lambda*, the rate that one replica takes under the
// true model's TTFT and ITL at 0.8 of its maximum rate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capacity/learning_server.h"
#include "tailrace/tune/estimator.h"

namespace tailrace::accuracy {

struct Subject {
  std::string name;
  engine::EngineConfig engine;
  Shape shape;  ///< what lambda* is about
};

/// The published parameter sets and the engine's presets.
std::vector<Subject> learning_subjects();

/// One pod's load in one cycle.
struct Load {
  double share = 0;  ///< of the engine's maximum rate for that shape
  Shape shape;
};

struct Pattern {
  std::string name;
  bool varies = false;                    ///< load or shapes: all directions can be seen
  std::vector<std::vector<Load>> cycles;  ///< one load per pod
  bool needs_moments = false;             ///< lengths whose means say too little
};

std::vector<Pattern> learning_patterns(const Subject& subject);

/// What the estimator is given.
enum class Feed {
  kSteady,    ///< steady-state means over many requests: no noise but the server's remaining chance
  kNoise,     ///< those, TTFT and ITL multiplied by log-normal 3 %
  kInterval,  ///< one unbroken simulation cut into intervals of 60 s
};
std::string_view to_string(Feed feed);

/// The columns beside rate, lengths, TTFT and ITL.
enum class Columns { kAll, kBare };
/// What a row without them says.
tune::Observation bare(const tune::Observation& o);

/// The true lambda* of an engine and the targets that it is taken at.
struct Truth {
  queueing::ServiceModel model;
  double max_rate_per_s = 0;
  double ttft_ms = 0, itl_ms = 0;

  explicit Truth(const Subject& subject);
  /// Empty where the targets cannot be met.
  std::optional<double> rate(const queueing::IterationModel& iteration, const Shape& shape) const;
};

tune::TuneConfig tune_config(const Subject& subject, tune::EstimatorKind kind);

/// Observations of a pattern, cycle by cycle.
class Feeder {
 public:
  Feeder(const Subject& subject, double requests_per_point);
  std::vector<std::vector<tune::Observation>> feed(const Pattern& pattern, Feed feed,
                                                   Columns columns, std::uint64_t seed);
  const Subject& subject() const { return subject_; }

 private:
  double rate_of(const Load& load) const;

  Subject subject_;
  SteadyServer steady_;
};

struct Score {
  /// |estimate / truth − 1| of lambda* after 3, 10 and all cycles; empty: no answer.
  std::array<std::optional<double>, 3> error;  ///< signed
  std::array<std::optional<bool>, 3> covered;  ///< by the reported interval
  std::array<double, 3> width{};               ///< of it, relative to the truth
  int accepted = 0, cycles = 0;
  bool identified = false;
  std::optional<double> condition;
  std::optional<queueing::IterationModel> values;
  std::string reason;
};

Score score(const Subject& subject, const std::vector<std::vector<tune::Observation>>& cycles,
            const Pattern& pattern, tune::EstimatorKind kind);

}  // namespace tailrace::accuracy
