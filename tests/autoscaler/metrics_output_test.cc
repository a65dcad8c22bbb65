#include "tailrace/autoscaler/metrics_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "capacity/support/models.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

capacity::Decision decision(std::string variant, std::int64_t current, std::int64_t desired) {
  capacity::Decision made = capacity::testing::decision(std::move(variant), current, desired);
  made.key = {"llm", "m"};
  made.accelerator = "H100";
  return made;
}

capacity::ModelAnalysis analysis(const std::string& variant) {
  capacity::ModelAnalysis model;
  model.key = {"llm", "m"};
  model.slo.source = capacity::SloSource::kExplicit;
  model.slo.targets.ttft_ms = 500;
  model.slo.targets.itl_ms = 20;
  model.slo.targets.statistic = queueing::Statistic::kP99;
  model.supply_per_s = 12;
  model.demand_per_s = 15;
  model.required_per_s = 3;
  capacity::VariantCapacity sized;
  sized.name = variant;
  sized.accelerator = "H100";
  sized.evidence = capacity::Evidence::kSized;
  sized.per_replica_per_s = 6;
  sized.utilization = 1.25;
  sized.parameters.values = queueing::IterationModel{10.5, 0.04, 6e-5, 0, 0};
  sized.parameters.condition = 31.5;
  sized.parameters.identified = true;
  sized.parameters.nis = 0.9;
  sized.parameters.rate_low_per_s = 5;
  sized.parameters.rate_high_per_s = 7;
  model.variants = {sized};
  return model;
}

CycleRecord record_of(std::vector<capacity::Decision> decisions) {
  CycleRecord record;
  record.time_s = 1'700'000'000;
  if (!decisions.empty()) record.result.models = {analysis(decisions.front().variant)};
  record.result.decisions = std::move(decisions);
  return record;
}

/// Every series with its type and its labels' names, as a scraper sees them.
std::map<std::string, std::string> names_of(const std::string& page) {
  std::map<std::string, std::string> names, types;
  for (const auto line : core::split(page, '\n')) {
    if (line.starts_with("# TYPE ")) {
      const auto parts = core::split(line, ' ');
      types[std::string(parts.at(2))] = parts.at(3);
    }
    if (line.empty() || line.front() == '#') continue;
    const std::size_t end = line.find_first_of("{ ");
    std::set<std::string> labels;
    if (line[end] == '{') {
      for (const auto label : core::split(line.substr(end + 1, line.find('}') - end - 1), ',')) {
        labels.emplace(label.substr(0, label.find('=')));
      }
    }
    labels.erase("le");
    std::string name(line.substr(0, end)), text;
    for (const char* part : {"_bucket", "_sum", "_count"}) {
      const auto whole = name.ends_with(part) ? name.substr(0, name.rfind('_')) : name;
      if (const auto type = types.find(whole); type != types.end() && type->second == "histogram") {
        name = whole;
      }
    }
    for (const auto& label : labels) text += (text.empty() ? "" : ",") + label;
    names[name] = types[name] + " " + (text.empty() ? "-" : text);
  }
  return names;
}

/// Of one variant whose pods said something so many seconds ago.
Snapshot snapshot_of(std::initializer_list<double> ages_s) {
  Snapshot snapshot;
  snapshot.time_s = 1'700'000'000;
  capacity::ModelState model;
  model.key = {"llm", "m"};
  capacity::Variant variant;
  variant.name = "a";
  for (const double age_s : ages_s) {
    variant.pods.emplace_back().time_s = snapshot.time_s - age_s;
  }
  model.variants = {variant};
  snapshot.models = {model};
  return snapshot;
}

/// What a cycle in a cluster was decided from: pods of every freshness, GPUs, memory, a stranger.
Snapshot cluster_snapshot() {
  Snapshot snapshot = snapshot_of({12, 12, 12});
  auto& pods = snapshot.models[0].variants[0].pods;
  pods[0].rate_per_s = 2;
  pods[1].running = 0;
  pods.emplace_back();
  snapshot.gpus = ClusterGpus{true, {{"H100", 16}, {"L4", 4}}, {{"H100", "nvidia.com"}}};
  snapshot.kv = {{{"llm", "m"}, "a", 30'000, 200'000}};
  snapshot.unmatched_pods = {{"llm", 2}};
  return snapshot;
}

TEST(MetricsOutput, ExportsTheNamesAndLabelsOfTheGoldenList) {
  MetricsOutput output({});
  auto grown = decision("a", 2, 3);
  grown.apply("max", "for a test", 2);
  grown.apply("min", "for a test", 5);
  grown.apply("limit", "for a test", 3);
  auto record = record_of({grown});
  record.in_force = InForce{};
  record.conditions = {{observe::ConditionKind::kSourceFailed, "prometheus", "refused"}};
  const auto snapshot = cluster_snapshot();
  CycleFacts facts;
  facts.snapshot = &snapshot;
  facts.errors = {{"settings default", "trouble"}};
  output.record(record, facts);
  std::map<std::string, std::string> exported;
  for (const auto& [name, labels] : names_of(output.expose())) {
    if (name.starts_with("wva_")) exported[name] = labels;
  }
  std::map<std::string, std::string> golden;
  std::ifstream file(std::string(TAILRACE_SOURCE_DIR) +
                     "/tests/autoscaler/data/wva_metrics.golden");
  ASSERT_TRUE(file.is_open());
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, type, labels;
    words >> name >> type >> labels;
    golden[name] = type + " " + labels;
  }
  EXPECT_EQ(exported, golden);
}

TEST(MetricsOutput, NamespacesThatExportersInventAddNoSeriesWithoutEnd) {
  MetricsOutput output({});
  for (int cycle = 0; cycle < 3'000; ++cycle) {
    Snapshot snapshot = snapshot_of({12});
    snapshot.unmatched_pods = {{"made-up-" + std::to_string(cycle), 1}};
    CycleFacts facts;
    facts.snapshot = &snapshot;
    output.record(record_of({decision("a", 2, 2)}), facts);
  }
  const std::string page = output.expose();
  std::size_t series = 0;
  for (std::size_t at = 0; (at = page.find("\nwva_pod_mapping_miss_total{", at)) != page.npos;
       ++at) {
    ++series;
  }
  EXPECT_EQ(series, 1'001u);
  EXPECT_THAT(page, HasSubstr("namespace=\"other\",reason=\"unresolved\"} 2000\n"));
}

TEST(MetricsOutput, GivesTheScalersTheirThreeGauges) {
  MetricsOutput output({});
  output.record(record_of({decision("a", 2, 5), decision("b", 0, 3), decision("c", 4, 0)}), {});
  const std::string page = output.expose();
  const auto has = [&](const std::string& name, const std::string& variant, const char* value) {
    EXPECT_THAT(page, HasSubstr(name + "{variant_name=\"" + variant +
                                "\",namespace=\"llm\",accelerator_type=\"H100\"} " + value + "\n"));
  };
  has("wva_desired_replicas", "a", "5");
  has("wva_current_replicas", "a", "2");
  has("wva_desired_ratio", "a", "2.5");
  has("wva_desired_ratio", "b", "3");
  has("wva_desired_ratio", "c", "0");
}

TEST(MetricsOutput, SaysOfPodsWhatIsKnownOfThem) {
  MetricsOutput output({});
  const auto snapshot = cluster_snapshot();
  CycleFacts facts;
  facts.snapshot = &snapshot;
  for (int i = 0; i < 3; ++i) output.record(record_of({decision("a", 4, 4)}), facts);
  const std::string page = output.expose();
  for (const char* line :
       {"wva_metrics_pods_discovered{namespace=\"llm\"} 4",
        "wva_metrics_freshness_status{variant_name=\"a\",status=\"fresh\"} 2",
        "wva_metrics_freshness_status{variant_name=\"a\",status=\"stale\"} 1",
        "wva_metrics_freshness_status{variant_name=\"a\",status=\"missing\"} 1",
        "wva_pod_mapping_miss_total{namespace=\"llm\",reason=\"unresolved\"} 6",
        "wva_kv_cache_tokens_used{variant_name=\"a\",namespace=\"llm\",model_name=\"m\"} 30000",
        "wva_kv_cache_tokens_capacity{variant_name=\"a\",namespace=\"llm\",model_name=\"m\"} "
        "200000",
        "wva_saturation_utilization{variant_name=\"a\",namespace=\"llm\",model_name=\"m\","
        "accelerator_type=\"H100\"} 1.25",
        "wva_saturation_metrics_up{variant_name=\"a\",namespace=\"llm\"} 1"}) {
    EXPECT_THAT(page, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(MetricsOutput, FreeGpusStayAsLastReadAndAreAbsentWithoutACluster) {
  MetricsOutput output({});
  auto snapshot = cluster_snapshot();
  CycleFacts facts;
  facts.snapshot = &snapshot;
  auto record = record_of({decision("a", 2, 5)});
  record.result.models[0].variants[0].current = 2;
  record.result.models[0].variants[0].pending = 1;
  record.result.models[0].variants[0].gpus_per_replica = 4;
  output.record(record, facts);
  const std::string free =
      "wva_available_gpus{accelerator_vendor=\"nvidia.com\",accelerator_model=\"H100\","
      "accelerator_type=\"H100\"} 4\n";
  EXPECT_THAT(output.expose(), HasSubstr(free));
  EXPECT_THAT(output.expose(), HasSubstr("wva_gpu_discovery_up 1\n"));
  snapshot.gpus = ClusterGpus{};
  output.record(record, facts);
  EXPECT_THAT(output.expose(), HasSubstr(free));
  EXPECT_THAT(output.expose(), HasSubstr("wva_gpu_discovery_up 0\n"));
  snapshot.gpus.reset();
  output.record(record, facts);
  EXPECT_THAT(output.expose(), Not(HasSubstr("gpu")));
}

TEST(MetricsOutput, WhereRolesAreApartEachLacksItsOwn) {
  MetricsOutput output({});
  auto record = record_of({decision("a", 2, 5)});
  record.result.models[0].variants[0].role = capacity::Role::kDecode;
  record.result.models[0].roles[capacity::Role::kPrefill] = {.required_per_s = 7};
  record.result.models[0].roles[capacity::Role::kDecode] = {.spare_per_s = 2};
  output.record(record, {});
  const std::string labels =
      "{variant_name=\"a\",namespace=\"llm\",model_name=\"m\",unit=\"requests_per_second\"} ";
  EXPECT_THAT(output.expose(), HasSubstr("wva_required_capacity" + labels + "0\n"));
  EXPECT_THAT(output.expose(), HasSubstr("wva_spare_capacity" + labels + "2\n"));
}

TEST(MetricsOutput, SaysWhatIsInForceAndNothingWithoutADefaultEntry) {
  MetricsOutput output({});
  auto record = record_of({decision("a", 2, 2)});
  output.record(record, {});
  EXPECT_THAT(output.expose(), Not(HasSubstr("wva_config_info")));
  EXPECT_THAT(output.expose(), Not(HasSubstr("wva_optimizer_active")));
  record.in_force = InForce{capacity::OptimizerKind::kGreedyByScore, true, false};
  output.record(record, {});
  EXPECT_THAT(output.expose(),
              HasSubstr("wva_optimizer_active{optimizer_name=\"cost-aware\"} 0\n"));
  EXPECT_THAT(output.expose(),
              HasSubstr("wva_optimizer_active{optimizer_name=\"greedy-by-score\"} 1\n"));
  EXPECT_THAT(output.expose(),
              HasSubstr("wva_config_info{analyzer_name=\"queueing-model\",limiter_enabled=\"true\","
                        "scale_to_zero_enabled=\"false\"} 1\n"));
}

TEST(MetricsOutput, ErrorsAreCountedByWhoSaysSo) {
  MetricsOutput output({});
  CycleFacts facts;
  facts.errors = {{"settings prod-llama", "trouble"}, {"settings", "trouble"}, {"scale", "order"}};
  output.record(record_of({decision("a", 2, 2)}), facts);
  EXPECT_THAT(output.expose(),
              HasSubstr("wva_errors_total{component=\"settings\",error_type=\"trouble\"} 2\n"));
  EXPECT_THAT(output.expose(),
              HasSubstr("wva_errors_total{component=\"scale\",error_type=\"order\"} 1\n"));
}

// The first cycles know no rates yet: that is no error.
TEST(MetricsOutput, ACycleThatKnowsTooLittleIsUndecidedAndNoError) {
  MetricsOutput output({});
  auto record = record_of({decision("a", 3, 3)});
  record.result.models[0].failure = "no rates yet";
  output.record(record, {});
  EXPECT_THAT(output.expose(),
              HasSubstr("tailrace_autoscaler_cycles_total{result=\"undecided\"} 1\n"));
  EXPECT_THAT(output.expose(), Not(HasSubstr("status=\"error\"")));
  EXPECT_THAT(output.expose(), Not(HasSubstr("wva_errors_total")));
}

TEST(MetricsOutput, AddsTheControllersInstanceWhereThereIsOne) {
  MetricsOutputConfig config;
  config.controller_instance = "blue";
  MetricsOutput output(config);
  output.record(record_of({decision("a", 2, 5)}), {});
  EXPECT_THAT(output.expose(),
              HasSubstr("accelerator_type=\"H100\",controller_instance=\"blue\"} 5\n"));
}

TEST(MetricsOutput, SaysWhatWasLearntAndHowSureThatIs) {
  MetricsOutput output({});
  const Snapshot snapshot = snapshot_of({50, 12});
  CycleFacts facts;
  facts.elected = true;
  facts.duration_s = 0.25;
  facts.snapshot = &snapshot;
  output.record(record_of({decision("a", 2, 5)}), facts);
  const std::string page = output.expose();
  const std::string labels = "{variant_name=\"a\",namespace=\"llm\",model=\"m\"} ";
  for (const std::string& line : {
           "tailrace_autoscaler_alpha_seconds" + labels + "0.0105",
           "tailrace_autoscaler_parameters_identified" + labels + "1",
           "tailrace_autoscaler_parameters_condition" + labels + "31.5",
           "tailrace_autoscaler_nis" + labels + "0.9",
           "tailrace_autoscaler_rate_per_replica" + labels + "6",
           "tailrace_autoscaler_utilization" + labels + "1.25",
           "tailrace_autoscaler_data_age_seconds" + labels + "12",
           std::string(
               "tailrace_autoscaler_slo_seconds{namespace=\"llm\",model=\"m\",kind=\"ttft\","
               "statistic=\"p99\",source=\"explicit\"} 0.5"),
           std::string("tailrace_autoscaler_required{namespace=\"llm\",model=\"m\"} 3"),
           std::string("tailrace_autoscaler_leader 1"),
           std::string("action=\"scale_up\",rule=\"optimizer\"} 1"),
           std::string("tailrace_autoscaler_cycles_total{result=\"decided\"} 1"),
       }) {
    EXPECT_THAT(page, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(page, Not(HasSubstr("holdout_error{"))) << "not known";
  EXPECT_THAT(page, Not(HasSubstr("kind=\"e2e\""))) << "no such target";
}

TEST(MetricsOutput, WhatIsNotKnownIsAbsentAndWhatIsHeldStays) {
  MetricsOutput output({});
  auto record = record_of({decision("a", 3, 3)});
  record.result.decisions[0].informed = false;
  record.result.models[0].failure = "no metrics";
  record.result.models[0].slo = {};
  record.result.models[0].variants[0].evidence = capacity::Evidence::kUnknown;
  record.result.models[0].variants[0].parameters = {};
  record.result.models[0].variants[0].parameters.nis = std::numeric_limits<double>::quiet_NaN();
  output.record(record, {});
  const std::string page = output.expose();
  EXPECT_THAT(page, HasSubstr("wva_desired_replicas{variant_name=\"a\""));
  EXPECT_THAT(page, HasSubstr("tailrace_autoscaler_informed{variant_name=\"a\",namespace=\"llm\","
                              "model=\"m\"} 0\n"));
  for (const char* name :
       {"tailrace_autoscaler_alpha", "tailrace_autoscaler_rate_per_replica",
        "tailrace_autoscaler_demand", "tailrace_autoscaler_slo", "tailrace_autoscaler_nis",
        "wva_required_capacity", "wva_saturation_utilization", "wva_kv_cache", "_data_age"}) {
    EXPECT_THAT(page, Not(HasSubstr(std::string(name)))) << name;
  }
}

TEST(MetricsOutput, ABlindCycleKeepsTheLastDecisionAndSaysSo) {
  MetricsOutput output({});
  output.record(record_of({decision("a", 2, 5)}), {});
  CycleRecord blind;
  blind.time_s = 1'700'000'015;
  blind.blind = "the API server does not answer";
  output.record(blind, {});
  const std::string page = output.expose();
  EXPECT_THAT(page, HasSubstr("wva_desired_replicas{variant_name=\"a\",namespace=\"llm\","
                              "accelerator_type=\"H100\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("tailrace_autoscaler_blind 1\n"));
  EXPECT_THAT(page, HasSubstr("tailrace_autoscaler_cycles_total{result=\"blind\"} 1\n"));
}

TEST(MetricsOutput, AVariantThatVanishesTakesItsSeriesAlong) {
  MetricsOutput output({});
  output.record(record_of({decision("a", 2, 5), decision("b", 1, 2)}), {});
  EXPECT_THAT(output.expose(), HasSubstr("variant_name=\"b\""));
  output.record(record_of({decision("a", 5, 5)}), {});
  EXPECT_THAT(output.expose(), Not(HasSubstr("variant_name=\"b\"")));
  output.record(record_of({}), {});
  EXPECT_THAT(output.expose(), Not(HasSubstr("variant_name")));
}

TEST(MetricsOutput, OnlyTheLeaderSaysHowManyAreWanted) {
  MetricsOutput output({});
  CycleFacts facts;
  facts.leads = false;
  facts.elected = false;
  output.record(record_of({decision("a", 2, 5)}), facts);
  const std::string page = output.expose();
  EXPECT_THAT(page, Not(HasSubstr("variant_name")));
  EXPECT_THAT(page, HasSubstr("tailrace_autoscaler_leader 0\n"));
}

TEST(MetricsOutput, CountsChangesByDirectionAndRule) {
  MetricsOutput output({});
  for (int i = 0; i < 3; ++i) output.record(record_of({decision("a", 2, 5)}), {});
  output.record(record_of({decision("a", 5, 4)}), {});
  output.record(record_of({decision("a", 4, 4)}), {});
  const std::string page = output.expose();
  EXPECT_THAT(page, HasSubstr("direction=\"up\",reason=\"optimizer\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("direction=\"down\",reason=\"optimizer\"} 1\n"));
}

TEST(MetricsOutput, ConditionsAreCountedByKind) {
  MetricsOutput output({});
  auto record = record_of({decision("a", 2, 2)});
  record.conditions = {{observe::ConditionKind::kPodMissing, "p", "m"},
                       {observe::ConditionKind::kPodMissing, "q", "m"}};
  output.record(record, {});
  EXPECT_THAT(output.expose(),
              HasSubstr("tailrace_autoscaler_conditions{kind=\"pod_missing\"} 2\n"));
  EXPECT_THAT(output.expose(), HasSubstr("tailrace_autoscaler_conditions{kind=\"stale\"} 0\n"));
}

TEST(MetricsOutput, TheNumberOfSeriesHasABound) {
  MetricsOutputConfig config;
  config.variants_max = 10;
  MetricsOutput output(config);
  std::vector<capacity::Decision> many;
  for (int i = 0; i < 200; ++i) many.push_back(decision("v" + std::to_string(i), 1, 1));
  output.record(record_of(many), {});
  const std::string page = output.expose();
  EXPECT_THAT(page, Not(HasSubstr("variant_name=\"v10\"")));
  EXPECT_THAT(page, HasSubstr("tailrace_autoscaler_variants_dropped 190\n"));
}

TEST(MetricsOutput, NamesFromOutsideAreEscaped) {
  MetricsOutput output({});
  output.record(record_of({decision("a\"}\n\xff", 1, 1)}), {});
  EXPECT_THAT(output.expose(), HasSubstr(R"(variant_name="a\"}\n?")"));
}

TEST(MetricsOutput, WvaNamesCanBeLeftOut) {
  MetricsOutputConfig config;
  config.wva_names = false;
  MetricsOutput output(config);
  output.record(record_of({decision("a", 2, 5)}), {});
  EXPECT_THAT(output.expose(), Not(HasSubstr("wva_")));
  EXPECT_THAT(output.expose(), HasSubstr("tailrace_autoscaler_desired_replicas{"));
}

TEST(MetricsOutput, EverySeriesStandsInTheCatalogueAndThePageIsThatOfTheDocumentation) {
  std::set<std::string_view> names;
  for (const auto& series : series_catalogue()) {
    EXPECT_TRUE(names.insert(series.name).second) << series.name;
    EXPECT_FALSE(series.help.empty()) << series.name;
  }
  const auto page =
      core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/autoscaler-exports.md", 1 << 20);
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(*page, autoscaler_metrics_reference())
      << "run: tailrace check --metrics-reference-autoscaler > docs/autoscaler-exports.md";
}

}  // namespace
}  // namespace tailrace::autoscaler
