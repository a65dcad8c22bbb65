#include "tailrace/simulate/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "simulate/experiment_grid.h"
#include "simulate/experiment_names.h"
#include "simulate/experiment_schema.h"
#include "simulate/experiment_tree.h"
#include "simulate/settings_in_force.h"
#include "tailrace/core/text.h"

namespace tailrace::simulate {
namespace {

using core::Problems;
using core::YamlNode;
using Kind = YamlNode::Kind;

constexpr std::int64_t kSeedCountMax = 1000;

/// `seeds: 10` stands for 1 to 10.
void expand_seeds(YamlNode& root, Problems& problems) {
  YamlNode* node = member(root, "seeds");
  if (node == nullptr || node->kind != Kind::kScalar) return;
  const auto count = core::parse_int(node->text);
  if (!count || *count < 1 || *count > kSeedCountMax) {
    problems.remember_line("seeds", node->line);
    problems.add("seeds", fmt::format("{} is not a whole number from 1 to {}, nor a list of seeds",
                                      core::quoted(node->text), kSeedCountMax));
    take(root, "seeds");
    return;
  }
  const int line = node->line;
  node->kind = Kind::kList;
  node->text.clear();
  for (std::int64_t i = 1; i <= *count; ++i) {
    node->items.push_back({Kind::kScalar, line, std::to_string(i), {}, {}});
  }
}

/// Puts what the file says together, and says what no single key can tell.
class Assembly {
 public:
  Assembly(Settings& settings, Problems& problems) : s_(settings), problems_(problems) {}

  void finish() {
    names();
    workload();
    policy();
    if (auto good = s_.spec.fleet.engine.check(); !good) {
      problems_.add("fleet.engine", good.error().message);
    }
    if (s_.horizon) s_.spec.horizon_s = to_seconds(*s_.horizon);
    if (s_.spec.front.frozen_engine >= s_.spec.fleet.engines) {
      problems_.add("front.frozen_engine",
                    fmt::format("{} is none of the {} engines, which count from 0",
                                s_.spec.front.frozen_engine, s_.spec.fleet.engines));
    }
  }

 private:
  void names() {
    if (const auto fault = name_fault(s_.name); !fault.empty()) {
      problems_.add("name", fmt::format("{} {}", core::quoted(s_.name), fault));
    }
    for (const auto& [name, c] : s_.classes) {
      for (const std::string& shown : {name, c.tenant}) {
        if (const auto fault = name_fault(shown); !fault.empty()) {
          problems_.add("workload.classes", fmt::format("{} {}", core::quoted(shown), fault));
          return;
        }
      }
    }
  }

  void workload() {
    ArrivalSpec& arrivals = s_.spec.workload.arrivals;
    const bool trace = !s_.trace.paths.empty();
    if (!s_.classes.empty() && (trace || !s_.servegen.arrivals.empty())) {
      problems_.add("workload.classes",
                    "stand beside recorded requests, which say themselves whose they are; leave "
                    "one out");
    }
    if (s_.rate && s_.load) {
      problems_.add("workload.load", "stands beside workload.rate; keep one of them");
    }
    if (s_.load && s_.maximum_rate.kind == MaximumRate::Kind::kOff) {
      problems_.add("workload.load",
                    "needs workload.maximum_rate: measure it, or give requests per second");
    }
    s_.spec.workload.context = s_.spec.fleet.engine.max_model_len;
    if (trace) {
      if (s_.rate) {
        problems_.add("workload.rate",
                      "is not of a trace; give workload.trace.speed or "
                      "workload.load");
      }
      s_.spec.workload.trace = s_.trace;
      for (std::string& path : s_.spec.workload.trace->paths) resolve(path);
      return;
    }
    if (!s_.servegen.arrivals.empty()) {
      if (s_.rate || s_.load) {
        problems_.add(s_.rate ? "workload.rate" : "workload.load",
                      "is not of ServeGen's tables; give workload.servegen.rate_scale");
      }
      ServeGenSpec& servegen = s_.spec.workload.servegen.emplace(s_.servegen);
      for (std::string* path : {&servegen.arrivals, &servegen.lengths, &servegen.histograms}) {
        resolve(*path);
      }
      return;
    }
    const bool at_once = arrivals.kind == ArrivalSpec::Kind::kAtOnce;
    if (at_once && (s_.rate || s_.load)) {
      problems_.add("workload.arrivals.kind", "at-once has no rate; leave rate and load out");
    }
    if (at_once && !arrivals.count) {
      problems_.add("workload.requests", "is missing; all come at once, but how many?");
    }
    if (!at_once && !arrivals.count && !arrivals.duration_s) {
      problems_.add("workload", "has no end; give requests or duration");
    }
    if (!at_once && !s_.rate && !s_.load) {
      problems_.add("workload", "has no rate; give rate (requests per second) or load");
    }
    if (s_.rate) set_mean_rate(arrivals, *s_.rate);
    if (arrivals.kind == ArrivalSpec::Kind::kSpikes && arrivals.spike_s >= arrivals.period_s) {
      problems_.add("workload.arrivals.spike", "is as long as the period; make it shorter");
    }
    if (s_.turns > 0 && s_.turns < 1) {
      problems_.add(
          "workload.sessions.turns",
          fmt::format("{} is less than one turn; give at least 1, or 0 for none", s_.turns));
    } else if (s_.turns > 0) {
      s_.sessions.turns = s_.turns;
      s_.spec.workload.sessions = s_.sessions;
    }
    tokens("workload", s_.spec.workload.lengths, s_.spec.workload.prompts);
    for (const auto& [name, c] : s_.classes) {
      tokens("workload.classes." + name, *c.lengths, *c.prompts);
      s_.spec.workload.classes.push_back(c);
    }
  }

  /// Relative to the experiment's folder; to where we are only if no such file is there.
  void resolve(std::string& path) const {
    namespace fs = std::filesystem;
    if (path.empty() || path == "-" || !s_.folder || fs::path(path).is_absolute()) return;
    const fs::path beside = fs::path(*s_.folder) / path;
    std::error_code none;
    if (!fs::exists(beside, none) && fs::exists(path, none)) return;
    path = beside.lexically_normal().string();
  }

  void tokens(const std::string& path, const LengthSpec& lengths, const PromptSpec& prompts) {
    if (lengths.least > lengths.cap) {
      problems_.add(path + ".lengths.least", fmt::format("{} is more than {}.lengths.cap ({})",
                                                         lengths.least, path, lengths.cap));
    }
    if (prompts.least > prompts.most) {
      problems_.add(path + ".prompts.least", fmt::format("{} is more than {}.prompts.most ({})",
                                                         prompts.least, path, prompts.most));
    }
  }

  void policy() {
    FleetSpec& fleet = s_.spec.fleet;
    engine::PolicySchedulerOptions& scheduler = fleet.scheduler;
    if (s_.policy == "priority") {
      fleet.line = FleetSpec::Line::kPriority;
      if (s_.policy_place == PolicyPlace::kFront) {
        problems_.add("policy.place", "priority is the engines' own; leave place out");
      }
      return;
    }
    const bool front = s_.policy_place == PolicyPlace::kFront;
    const auto make = front ? schedule::make_waiting_policy : schedule::make_policy;
    if (auto made = make(s_.policy, scheduler.policy_options); !made) {
      problems_.add("policy", made.error().message);
      return;
    }
    scheduler.policy = s_.policy;
    scheduler.waiting_bound = s_.waiting_bound;
    if (front) {
      dispatch::DispatchConfig& dispatch = s_.spec.front.dispatch;
      s_.spec.front.queue = true;
      dispatch.policy = s_.policy;
      dispatch.policy_options = scheduler.policy_options;
      dispatch.waiting_bound = s_.waiting_bound;
      dispatch.queued_jobs_max = 1'000'000'000;  // everybody may wait: nothing is refused
    } else if (s_.policy != "fcfs") {
      fleet.line = FleetSpec::Line::kPolicy;
    }
  }

  Settings& s_;
  Problems& problems_;
};

Result<std::vector<std::uint64_t>> seeds_of(const Settings& settings, Problems& problems) {
  std::vector<std::uint64_t> seeds;
  for (const std::string& text : settings.seeds) {
    const auto seed = core::parse_int(text);
    if (!seed || *seed < 0) {
      problems.add("seeds", fmt::format("{} is no seed; a seed is a whole number from 0",
                                        core::quoted(text)));
      break;
    }
    seeds.push_back(static_cast<std::uint64_t>(*seed));
  }
  if (seeds.size() > static_cast<std::size_t>(kSeedCountMax)) {
    problems.add("seeds", fmt::format("are more than {}", kSeedCountMax));
  }
  if (!problems.none()) return fail(problems.error());
  return seeds;
}

std::string capacity_key(const YamlNode& tree) {
  YamlNode workload = member(tree, "workload") ? *member(tree, "workload") : YamlNode{};
  for (const char* key : {"rate", "load", "arrivals", "duration", "requests"}) take(workload, key);
  if (YamlNode* trace = member(workload, "trace")) {
    take(*trace, "speed");
    take(*trace, "repeat");
  }
  const YamlNode* fleet = member(tree, "fleet");
  return canonical(workload) + (fleet != nullptr ? canonical(*fleet) : "");
}

/// The cell that `tree` describes. Problems are the caller's to look at.
Cell read_cell(const YamlNode& tree, Problems& problems, Settings& settings) {
  core::SettingsReader reader(problems);
  reader.read(tree, "", [&] { visit_settings(reader, settings); });
  if (problems.none()) Assembly(settings, problems).finish();
  Cell cell;
  cell.spec = settings.spec;
  cell.load = settings.load;
  cell.maximum_rate = settings.maximum_rate;
  const YamlNode* workload = member(tree, "workload");
  cell.workload_key = workload != nullptr ? canonical(*workload) : "";
  cell.capacity_key = capacity_key(tree);
  return cell;
}

void choose_baseline(Experiment& experiment, const Settings& settings, Problems& problems) {
  const auto& dimensions = experiment.dimensions;
  const auto named = [&](std::string_view name) -> std::optional<std::size_t> {
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      if (dimensions[d].name == name) return d;
    }
    return std::nullopt;
  };
  if (!settings.compare.empty()) {
    experiment.compared = named(settings.compare);
    if (!experiment.compared) {
      std::vector<std::string> names;
      names.reserve(dimensions.size());
      for (const auto& dimension : dimensions) names.push_back(dimension.name);
      problems.add(
          "compare",
          fmt::format("{} does not vary; what varies is {}", core::quoted(settings.compare),
                      names.empty() ? "nothing" : core::join_words(names, ", ")));
      return;
    }
  } else {
    experiment.compared = named("arm") ? named("arm") : named("policy.name");
  }
  if (settings.baseline.empty()) return;
  if (!experiment.compared) {
    problems.add("baseline", "needs something that varies; name it by compare");
    return;
  }
  const auto& labels = dimensions[*experiment.compared].labels;
  const auto found = std::find(labels.begin(), labels.end(), settings.baseline);
  if (found == labels.end()) {
    problems.add(
        "baseline",
        fmt::format("{} is no value of {}; use {}", core::quoted(settings.baseline),
                    dimensions[*experiment.compared].name, core::join_words(labels, ", ")));
    return;
  }
  experiment.baseline = static_cast<std::size_t>(found - labels.begin());
}

/// The first line is a JSON object with a time, or a header of columns.
bool looks_like_trace(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  const auto has = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  if (line.front() == '{') return has("\"arrival_s\"") || has("\"timestamp\"") || has("\"t_ms\"");
  return has(",") && line.find_first_of(":#[") == std::string_view::npos;
}

/// Beyond the lines that a file can have: those of what was given beside it, in order.
constexpr int kOverrideLine = 2 << 20;

void set_line(YamlNode& node, int line) {
  node.line = line;
  for (YamlNode& item : node.items) set_line(item, line);
  for (auto& [key, below] : node.members) set_line(below, line);
}

/// Problems of what was given beside the file name the flag, not a line.
Error with_flags(Error error, std::string_view origin, std::span<const Override> overrides) {
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const std::string line = fmt::format("{}:{}:", origin, kOverrideLine + static_cast<int>(i));
    for (std::size_t at = 0; (at = error.message.find(line, at)) != std::string::npos;) {
      error.message.replace(at, line.size(), overrides[i].origin + ":");
    }
  }
  return error;
}

/// No output may be written over what a cell reads.
void note_inputs(Experiment& experiment, const Settings& settings) {
  const WorkloadSpec& workload = settings.spec.workload;
  std::vector<std::string> named;
  if (workload.trace) named = workload.trace->paths;
  if (workload.servegen) named = {workload.servegen->arrivals, workload.servegen->lengths};
  if (!settings.profile.empty()) {
    named.push_back(settings.profile.starts_with('/') ? settings.profile
                                                      : *settings.folder + "/" + settings.profile);
  }
  for (std::string& path : named) {
    auto& inputs = experiment.inputs;
    if (!path.empty() && std::find(inputs.begin(), inputs.end(), path) == inputs.end()) {
      inputs.push_back(std::move(path));
    }
  }
}

/// The file's base settings with what was given beside it.
Result<YamlNode> base_tree(std::string_view text, std::string_view origin,
                           std::span<const Override> overrides) {
  if (text.size() > kExperimentBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: longer than {} bytes", origin, kExperimentBytesMax));
  }
  auto tree = core::parse_yaml(text);
  if (!tree) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}", origin, tree.error().message));
  }
  if (tree->kind == Kind::kNull) tree->kind = Kind::kMap;
  if (tree->kind != Kind::kMap) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: must be a mapping of keys to values", origin));
  }
  std::string twice;
  if (!expand_dotted(*tree, twice)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is given twice, nested and dotted; keep one", origin,
                            core::quoted(twice)));
  }
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const Override& given = overrides[i];
    auto value = core::parse_yaml(given.value);
    if (value) set_line(*value, kOverrideLine + static_cast<int>(i));
    if (!value || value->kind == Kind::kNull) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} is no value", given.origin, core::quoted(given.value)));
    }
    // A key of the grid is dotted itself.
    if (given.key.starts_with("grid.")) {
      YamlNode grid;
      grid.kind = Kind::kMap;
      grid.members.push_back({given.key.substr(5), *value});
      YamlNode* there = member(*tree, "grid");
      if (there == nullptr || there->kind != Kind::kMap) {
        take(*tree, "grid");
        tree->members.push_back({"grid", std::move(grid)});
      } else {
        take(*there, given.key.substr(5));
        there->members.push_back(std::move(grid.members.front()));
      }
    } else {
      put(*tree, given.key, *value);
    }
  }
  return tree;
}

}  // namespace

void set_mean_rate(ArrivalSpec& arrivals, double per_second) {
  arrivals.rate = 1;
  arrivals.rate = per_second / mean_rate(arrivals);
}

std::string Experiment::label(const Cell& cell) const {
  std::vector<std::string> parts;
  parts.reserve(dimensions.size());
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    parts.push_back(fmt::format("{} {}", dimensions[d].name, dimensions[d].labels[cell.labels[d]]));
  }
  return parts.empty() ? name : core::join_words(parts, ", ");
}

std::optional<std::size_t> Experiment::baseline_of(std::size_t cell) const {
  if (!compared || cells[cell].labels[*compared] == baseline) return std::nullopt;
  std::size_t index = 0;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    index =
        index * dimensions[d].labels.size() + (d == *compared ? baseline : cells[cell].labels[d]);
  }
  return index;
}

namespace {

Result<Experiment> read_experiment(std::string_view text, std::string_view origin,
                                   std::span<const Override> overrides,
                                   const std::optional<std::string>& folder) {
  auto tree = base_tree(text, origin, overrides);
  if (!tree) return fail(tree.error());
  Problems problems(origin);
  expand_seeds(*tree, problems);
  const YamlNode grid_node = take(*tree, "grid");
  const YamlNode arms_node = take(*tree, "arms");
  const std::vector<Axis> axes = read_grid(grid_node, arms_node, problems);
  if (!problems.none()) return fail(problems.error());

  double product = 1;
  for (const Axis& axis : axes) product *= static_cast<double>(axis.values.size());
  if (product > static_cast<double>(kCellsMax)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: grid: {:.0f} combinations, more than {}; make it smaller or split "
                            "the file",
                            origin, product, kCellsMax));
  }

  const auto cells = static_cast<std::size_t>(product);
  Experiment experiment;
  for (const Axis& axis : axes) {
    Dimension dimension{axis.name, {}};
    for (const auto& value : axis.values) dimension.labels.push_back(value.label);
    experiment.dimensions.push_back(std::move(dimension));
  }
  Settings shared;
  for (std::size_t i = 0; i < cells; ++i) {
    YamlNode cell_tree = *tree;
    std::vector<std::size_t> labels(axes.size());
    std::size_t rest = i;
    for (std::size_t d = axes.size(); d-- > 0;) {
      labels[d] = rest % axes[d].values.size();
      rest /= axes[d].values.size();
    }
    for (std::size_t d = 0; d < labels.size(); ++d) {
      for (const auto& [key, change] : axes[d].values[labels[d]].changes) {
        put(cell_tree, key, change);
      }
    }
    Settings settings = default_settings();
    settings.folder = folder;
    Cell cell = read_cell(cell_tree, problems, settings);
    cell.labels = std::move(labels);
    if (!problems.none()) return fail(problems.error());
    experiment.cells.push_back(std::move(cell));
    note_inputs(experiment, settings);
    experiment.cells.back().settings = settings_in_force(settings);
    if (i == 0) shared = std::move(settings);
  }
  auto seeds = seeds_of(shared, problems);
  if (!seeds) return fail(seeds.error());
  experiment.seeds = std::move(*seeds);
  experiment.name = shared.name;
  experiment.warm_up = shared.warm_up;
  experiment.slo = shared.slo;
  experiment.settings = shared_settings(experiment.cells);
  choose_baseline(experiment, shared, problems);
  if (!problems.none()) return fail(problems.error());
  if (experiment.cells.size() * experiment.seeds.size() > kRunsMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} combinations of {} seeds are more than {} runs; make either "
                            "smaller",
                            origin, experiment.cells.size(), experiment.seeds.size(), kRunsMax));
  }
  return experiment;
}

}  // namespace

Result<Experiment> parse_experiment(std::string_view text, std::string_view origin,
                                    std::span<const Override> overrides,
                                    const std::optional<std::string>& folder) {
  auto experiment = read_experiment(text, origin, overrides, folder);
  if (!experiment) return fail(with_flags(experiment.error(), origin, overrides));
  return experiment;
}

Result<Experiment> load_experiment(const std::string& path, std::span<const Override> overrides) {
  auto text = core::read_file(path, kExperimentBytesMax);
  if (!text) return fail(text.error());
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  auto experiment = parse_experiment(*text, path, overrides, folder);
  if (!experiment && looks_like_trace(*text)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: looks like a trace, not like an experiment; give it by --trace", path));
  }
  if (experiment) experiment->inputs.push_back(path);
  return experiment;
}

}  // namespace tailrace::simulate
