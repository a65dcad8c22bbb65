// Which keys does an experiment have?
//
// visit_settings declares each once; experiment.cc reads them, experiment_schema.cc documents them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/settings.h"
#include "tailrace/simulate/experiment.h"

namespace tailrace::simulate {

enum class PolicyPlace { kEngines, kFront };

/// What a file says, before it is put together.
struct Settings {
  std::string name = "experiment";
  std::vector<std::string> seeds;
  double warm_up = 0.1;
  std::optional<Duration> horizon;
  std::string compare;
  std::string baseline;
  Slo slo;

  std::optional<double> rate;
  std::optional<double> load;
  MaximumRate maximum_rate;
  std::string preset;
  std::string profile;
  std::optional<std::string> folder;  ///< what a profile's path is relative to; nothing: no files
  std::string policy = "fcfs";
  PolicyPlace policy_place = PolicyPlace::kEngines;
  std::optional<Duration> waiting_bound;
  TraceSpec trace;
  ServeGenSpec servegen;
  SessionSpec sessions;
  /// By name, so that the order in the file decides nothing.
  std::map<std::string, ClassSpec> classes;
  double turns = 0;
  RunSpec spec;
  /// All is read: the schema shows what is in force, where it else shows what a file may leave out.
  bool read = false;
};

/// The settings of an empty file.
Settings default_settings();
void visit_workload(core::SchemaVisitor& visitor, Settings& settings);
void visit_settings(core::SchemaVisitor& visitor, Settings& settings);

}  // namespace tailrace::simulate
