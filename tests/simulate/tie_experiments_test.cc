// The experiment files of TIE's evaluation, and the published cells that they are held against.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"
#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/results.h"

namespace tailrace::simulate {
namespace {

const std::string kFolder = TAILRACE_SOURCE_DIR "/experiments/tie/";

/// "workload.rate=100;arm=TIE": a label for each dimension.
std::map<std::string, std::string> settings_of(const std::string& text) {
  std::map<std::string, std::string> settings;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::size_t equals = text.find('=', at);
    settings[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return settings;
}

/// Whether the settings name each of the grid's dimensions by one of its labels.
bool names_one_cell(const Experiment& experiment, const std::string& text) {
  const auto settings = settings_of(text);
  if (settings.size() != experiment.dimensions.size()) return false;
  return std::all_of(
      experiment.dimensions.begin(), experiment.dimensions.end(), [&](const Dimension& dimension) {
        const auto given = settings.find(dimension.name);
        return given != settings.end() &&
               std::count(dimension.labels.begin(), dimension.labels.end(), given->second) == 1;
      });
}

bool is_metric(const std::string& name) {
  const auto all = metrics();
  return name == "completed" ||
         std::any_of(all.begin(), all.end(), [&](const Metric& m) { return m.name == name; });
}

TEST(TieExperiments, EveryPublishedCellIsOneOfAnExperimentsCells) {
  auto lines = dataset::LineReader::open(kFolder + "published.csv");
  ASSERT_TRUE(lines.has_value()) << lines.error().message;
  auto rows = dataset::CsvReader::open(std::move(*lines));
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_EQ(rows->header(), (std::vector<std::string>{"table", "experiment", "cell", "over",
                                                      "metric", "published", "status"}));
  std::map<std::string, Experiment> experiments;
  std::vector<std::string> row;
  int count = 0;
  while (*rows->next(row)) {
    ++count;
    if (!experiments.contains(row[1])) {
      auto loaded = load_experiment(kFolder + row[1] + ".yaml");
      ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
      experiments.emplace(row[1], std::move(*loaded));
    }
    const Experiment& experiment = experiments.at(row[1]);
    EXPECT_TRUE(names_one_cell(experiment, row[2])) << row[1] << ": " << row[2];
    EXPECT_TRUE(row[3].empty() || names_one_cell(experiment, row[3])) << row[3];
    EXPECT_TRUE(is_metric(row[4])) << row[4];
    EXPECT_GT(core::parse_double(row[5]).value_or(0), 0) << row[5];
    EXPECT_TRUE(row[6] == "fitted" || row[6] == "predicted" || row[6] == "model") << row[6];
  }
  EXPECT_GT(count, 100);
}

TEST(TieExperiments, TheOthersLoadToo) {
  for (const char* name : {"heat-map", "rate-sweep", "run-length", "variants"}) {
    const auto loaded = load_experiment(kFolder + name + ".yaml");
    EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
  }
}

TEST(TieExperiments, TimeToThirtyPercentIsThatOfTheThirtiethOfAHundredEnds) {
  RunSpec spec;
  spec.workload.arrivals.kind = ArrivalSpec::Kind::kAtOnce;
  spec.workload.arrivals.count = 100;
  spec.fleet.engine.max_num_seqs = 4;
  const auto facts = describe_workload(spec);
  ASSERT_TRUE(facts.has_value());
  RunRecorder recorder(spec, *facts, 0, {});
  std::vector<double> ends;
  const auto totals = run(spec, [&](const RequestRecord& record) {
    ends.push_back(to_seconds(*record.finished));
    recorder.add(record);
  });
  ASSERT_TRUE(totals.has_value());
  std::sort(ends.begin(), ends.end());
  EXPECT_EQ(recorder.result(*totals).seconds_to_30_percent, ends[29]);
}

}  // namespace
}  // namespace tailrace::simulate
