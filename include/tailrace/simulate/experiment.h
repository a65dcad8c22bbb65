// What is to be simulated, over which settings and seeds, and what is compared with what?
//
// An experiment is a YAML file: one set of settings, and a grid of what varies. Every key is
// declared once, in src/simulate/experiment_schema.cc, with its unit, range, default and effect;
// reading, errors and the reference in docs/simulate.md come from that declaration. A bad file is
// one Error that names file, line, dotted key, value and remedy. Of other files only engines'
// profiles are read; nothing is run here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {

inline constexpr std::size_t kExperimentBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kCellsMax = 2'000;
inline constexpr std::size_t kRunsMax = 20'000;
/// Of a cell, in reports; and bytes of a value's text. Only classes of traffic can make them more.
inline constexpr std::size_t kSettingsShownMax = 500;
inline constexpr std::size_t kSettingBytesMax = 256;

/// What counts as served well; goodput is the share of offered requests that meet all that is set.
struct Slo {
  std::optional<Duration> ttft;       ///< arrival to first token
  std::optional<Duration> itl;        ///< mean gap between tokens, from the first to the last
  std::optional<Duration> per_token;  ///< arrival to last token, divided by the tokens

  bool any() const { return ttft || itl || per_token; }
};

/// One thing that varies.
struct Dimension {
  std::string name;  ///< a dotted key, or "arm"
  std::vector<std::string> labels;
};

/// How the maximum rate of a cell is known.
struct MaximumRate {
  enum class Kind { kMeasure, kGiven, kOff } kind = Kind::kMeasure;
  double per_second = 0;  ///< kGiven
};

/// A dotted key and the value that was in force, as a file says it; "" where it has none.
using ShownSetting = std::pair<std::string, std::string>;

/// One point of the grid; it runs once per seed.
struct Cell {
  std::vector<std::size_t> labels;  ///< an index into each dimension's labels
  RunSpec spec;                     ///< its rate and seed are still to be set
  std::optional<double> load;       ///< share of the maximum rate, in the place of a rate
  MaximumRate maximum_rate;
  /// Cells with equal keys meet the same requests under equal seeds and rates, ...
  std::string workload_key;
  /// ... and have the same maximum rate.
  std::string capacity_key;
  std::vector<ShownSetting> settings;  ///< those that other cells do not share
};

struct Experiment {
  std::string name;
  std::vector<Dimension> dimensions;
  std::vector<Cell> cells;  ///< the last dimension varies fastest
  std::vector<std::uint64_t> seeds;
  double warm_up = 0;  ///< share of the requests, the first ones, that metrics leave out
  Slo slo;
  /// Cells that differ in this dimension alone are compared with the one that has the baseline.
  std::optional<std::size_t> compared;
  std::size_t baseline = 0;            ///< a label of `compared`
  std::vector<ShownSetting> settings;  ///< of all cells alike, those that no file gives included
  std::vector<std::string> inputs;     ///< paths of the files that it is made from, as far as named

  /// "policy.name tie, workload.load 1.5"; without dimensions the experiment's name.
  std::string label(const Cell& cell) const;
  /// The cell that `cell` is compared with; nothing for that one itself, or without comparison.
  std::optional<std::size_t> baseline_of(std::size_t cell) const;
};

/// A value given beside the file, such as by a flag: "policy.name", "tie". A list is written as in
/// YAML: "[a, b]".
struct Override {
  std::string key;
  std::string value;
  std::string origin;  ///< for errors: "--policy"
};

/// `origin` names the text in errors; `folder` is what fleet.profile and recorded files are
/// relative to (else, if they are not there, to the working folder); without it no profile is read.
/// Overrides replace the file's base settings; "grid.KEY" adds or replaces a dimension. Errors:
/// kInvalidArgument, one line per problem.
Result<Experiment> parse_experiment(std::string_view text, std::string_view origin,
                                    std::span<const Override> overrides = {},
                                    const std::optional<std::string>& folder = {});
/// Of a file, which gives the folder. Errors: also kNotFound and kResourceExhausted
/// (over 1 MiB).
Result<Experiment> load_experiment(const std::string& path,
                                   std::span<const Override> overrides = {});

/// Sets the process's parameter so that its long-run mean is `per_second`.
void set_mean_rate(ArrivalSpec& arrivals, double per_second);

/// The names that `policy.name` takes.
std::vector<std::string> simulated_policies();

/// The tables of keys in docs/simulate.md.
std::string experiment_reference();

}  // namespace tailrace::simulate
