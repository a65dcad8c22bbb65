#include "tailrace/simulate/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::simulate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kBase =
    "workload:\n"
    "  rate: 10\n"
    "  requests: 100\n";

Experiment parsed(const std::string& text) {
  auto experiment = parse_experiment(text, "x.yaml");
  EXPECT_TRUE(experiment.has_value()) << (experiment ? "" : experiment.error().message);
  return experiment ? *experiment : Experiment{};
}

std::string refused(const std::string& text) {
  const auto experiment = parse_experiment(text, "x.yaml");
  EXPECT_FALSE(experiment.has_value());
  return experiment ? "" : experiment.error().message;
}

TEST(Experiment, WithoutAGridIsOneCell) {
  const Experiment e = parsed(std::string(kBase) + "name: one\nseeds: 3\n");
  ASSERT_EQ(e.cells.size(), 1u);
  EXPECT_THAT(e.seeds, ElementsAre(1, 2, 3));
  EXPECT_EQ(e.label(e.cells[0]), "one");
  EXPECT_DOUBLE_EQ(e.cells[0].spec.workload.arrivals.rate, 10);
  EXPECT_EQ(e.cells[0].spec.fleet.line, FleetSpec::Line::kFcfs);
  EXPECT_FALSE(e.compared.has_value());
}

TEST(Experiment, TakesSeedsAsAList) {
  EXPECT_THAT(parsed(std::string(kBase) + "seeds: [7]\n").seeds, ElementsAre(7));
  EXPECT_THAT(refused(std::string(kBase) + "seeds: 0\n"), HasSubstr("x.yaml:4: seeds: \"0\""));
  EXPECT_THAT(refused(std::string(kBase) + "seeds: [-1]\n"), HasSubstr("is no seed"));
}

TEST(Experiment, RunsEveryCombinationOfTheGridWithTheLastDimensionFastest) {
  const Experiment e = parsed(std::string(kBase) +
                              "grid:\n"
                              "  workload.rate: [5, 20]\n"
                              "  fleet.engines: [1, 2, 4]\n");
  ASSERT_EQ(e.cells.size(), 6u);
  EXPECT_DOUBLE_EQ(e.cells[1].spec.workload.arrivals.rate, 5);
  EXPECT_EQ(e.cells[1].spec.fleet.engines, 2);
  EXPECT_DOUBLE_EQ(e.cells[3].spec.workload.arrivals.rate, 20);
  EXPECT_EQ(e.cells[3].spec.fleet.engines, 1);
  EXPECT_EQ(e.label(e.cells[5]), "workload.rate 20, fleet.engines 4");
}

TEST(Experiment, ArmsAreNamedSetsOfSettingsAndTheFirstIsTheBaseline) {
  const Experiment e = parsed(std::string(kBase) +
                              "grid: {workload.rate: [5, 20]}\n"
                              "arms:\n"
                              "  by arrival: {policy.name: fcfs}\n"
                              "  in front: {policy: {name: tie, place: front, decay: 0.5}}\n");
  ASSERT_EQ(e.cells.size(), 4u);
  EXPECT_TRUE(e.cells[1].spec.front.queue);
  EXPECT_EQ(e.cells[1].spec.front.dispatch.policy, "tie");
  EXPECT_DOUBLE_EQ(e.cells[1].spec.front.dispatch.policy_options.decay, 0.5);
  EXPECT_FALSE(e.cells[0].spec.front.queue);
  EXPECT_EQ(e.baseline_of(0), std::nullopt);
  EXPECT_EQ(e.baseline_of(1), 0u);
  EXPECT_EQ(e.baseline_of(3), 2u);
}

TEST(Experiment, TheBaselineMayBeAnyValueOfWhatIsCompared) {
  const Experiment e = parsed(std::string(kBase) +
                              "grid: {policy.name: [fcfs, tie, mean]}\n"
                              "baseline: tie\n");
  EXPECT_EQ(e.baseline_of(0), 1u);
  EXPECT_EQ(e.baseline_of(1), std::nullopt);
  EXPECT_EQ(e.cells[2].spec.fleet.line, FleetSpec::Line::kPolicy);
  EXPECT_THAT(refused(std::string(kBase) + "grid: {policy.name: [tie]}\nbaseline: fcfs\n"),
              HasSubstr("\"fcfs\" is no value of policy.name; use tie"));
  EXPECT_THAT(refused(std::string(kBase) + "compare: policy.name\n"),
              HasSubstr("does not vary; what varies is nothing"));
}

TEST(Experiment, CellsThatDifferInPolicyAloneShareRequestsAndMaximumRate) {
  const Experiment e = parsed(std::string(kBase) +
                              "grid:\n"
                              "  policy.name: [fcfs, tie]\n"
                              "  workload.rate: [5, 20]\n"
                              "  workload.lengths.mu_mean: [4, 5]\n");
  EXPECT_EQ(e.cells[0].workload_key, e.cells[4].workload_key);
  EXPECT_NE(e.cells[0].workload_key, e.cells[2].workload_key);
  EXPECT_EQ(e.cells[0].capacity_key, e.cells[2].capacity_key);
  EXPECT_NE(e.cells[0].capacity_key, e.cells[1].capacity_key);
}

TEST(Experiment, PresetComesBeforeWhatDiffersFromIt) {
  const Experiment e = parsed(std::string(kBase) +
                              "fleet:\n"
                              "  engine: {max_num_seqs: 7}\n"
                              "  preset: a100-8b\n");
  EXPECT_EQ(e.cells[0].spec.fleet.engine.max_num_seqs, 7);
  EXPECT_GT(e.cells[0].spec.fleet.engine.cost.alpha_ms, 8);
}

TEST(Experiment, AProfileTakesThePresetsPlaceAndTheEnginesKeysChangeIt) {
  const TempFolder folder;
  const std::string name = "profile.yaml";
  folder.write(name, "alpha_ms: 77\nmax_num_seqs: 5\n");
  const std::string text =
      std::string(kBase) + "fleet: {profile: " + name + ", engine: {max_num_seqs: 6}}\n";
  const auto e = parse_experiment(text, "x.yaml", {}, folder.path().string());
  ASSERT_TRUE(e.has_value()) << e.error().message;
  EXPECT_DOUBLE_EQ(e->cells[0].spec.fleet.engine.cost.alpha_ms, 77);
  EXPECT_EQ(e->cells[0].spec.fleet.engine.max_num_seqs, 6);
  EXPECT_THAT(refused(text), HasSubstr("fleet.profile: \"" + name + "\" cannot be read from here"));
}

TEST(Experiment, AClassChangesWhatItNamesAndLeavesTheRestToTheWorkload) {
  const Experiment e = parsed(std::string(kBase) +
                              "  lengths: {mu_mean: 3, cap: 500}\n"
                              "  classes:\n"
                              "    chat: {share: 3, priority: 2, weight: 4, deadline: 5s}\n"
                              "    batch: {tenant: night, lengths: {mu_mean: 6}}\n");
  const auto& classes = e.cells[0].spec.workload.classes;
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].tenant, "night");  // by name: batch, chat
  EXPECT_DOUBLE_EQ(classes[0].lengths->mu_mean, 6);
  EXPECT_EQ(classes[0].lengths->cap, 500);
  EXPECT_EQ(classes[1].tenant, "chat");
  EXPECT_DOUBLE_EQ(classes[1].share, 3);
  EXPECT_EQ(classes[1].priority, 2);
  EXPECT_DOUBLE_EQ(classes[1].weight, 4);
  EXPECT_DOUBLE_EQ(*classes[1].deadline_s, 5);
  EXPECT_DOUBLE_EQ(classes[1].lengths->mu_mean, 3);
  EXPECT_THAT(refused(std::string(kBase) + "  classes: {a: {prompts: {least: 9, most: 8}}}\n"),
              HasSubstr("workload.classes.a.prompts.least: 9 is more than "
                        "workload.classes.a.prompts.most (8)"));
  EXPECT_THAT(refused("workload: {trace: {files: x}, classes: {a: {}}}\n"),
              HasSubstr("workload.classes: stand beside recorded requests"));
}

TEST(Experiment, SharesOfClassesAreWhatComes) {
  const Experiment e = parsed(
      "workload: {rate: 10, requests: 4000, classes: {a: {share: 3}, b: {lengths: {kind: fixed, "
      "mean: 7}}}}\n");
  int of_a = 0;
  const auto totals = run(e.cells[0].spec, [&](const RequestRecord& r) {
    of_a += r.tenant == "a";
    EXPECT_TRUE(r.tenant == "a" || r.output == Tokens(7));
  });
  ASSERT_TRUE(totals.has_value()) << totals.error().message;
  EXPECT_NEAR(of_a, 3000, 100);
}

TEST(Experiment, TheDispatchersOwnChoiceIsAKeyToo) {
  const Experiment e = parsed(std::string(kBase) +
                              "policy: {place: front}\n"
                              "grid: {dispatch.choice: [least-outstanding, least-work]}\n");
  EXPECT_EQ(e.cells[0].spec.front.dispatch.choice, "least-outstanding");
  EXPECT_EQ(e.cells[1].spec.front.dispatch.choice, "least-work");
  EXPECT_THAT(refused(std::string(kBase) + "dispatch: {choice: best}\n"),
              HasSubstr("dispatch.choice: \"best\" is unknown; use least-outstanding, "));
}

TEST(Experiment, KeysMayBeDottedAtTheTopAndBelowASection) {
  const Experiment dotted = parsed(
      "workload.rate: 10\nworkload: {requests: 100, lengths.cap: 500}\npolicy.name: sjf\n"
      "workload.classes: {gpt-4.1: {share: 2}}\n");
  ASSERT_EQ(dotted.cells.size(), 1u);
  const RunSpec& spec = dotted.cells[0].spec;
  EXPECT_DOUBLE_EQ(spec.workload.arrivals.rate, 10);
  EXPECT_EQ(spec.workload.lengths.cap, 500);
  EXPECT_EQ(spec.fleet.scheduler.policy, "sjf");
  ASSERT_EQ(spec.workload.classes.size(), 1u);
  EXPECT_EQ(spec.workload.classes[0].tenant, "gpt-4.1") << "a name is no key";
  EXPECT_THAT(refused(std::string(kBase) + "workload.rate: 5\n"),
              HasSubstr("\"workload.rate\" is given twice"));
}

TEST(Experiment, NamesTheFlagOfWhatIsWrongThere) {
  const std::vector<Override> given = {{"workload.rate", "10", "--rate"},
                                       {"grid.policy.name", "[fcfs, nope]", "--policy"}};
  const auto experiment = parse_experiment("workload: {requests: 5}", "flags", given);
  ASSERT_FALSE(experiment.has_value());
  EXPECT_THAT(experiment.error().message, testing::StartsWith("--policy: policy.name: \"nope\""));
}

TEST(Experiment, PointsFromTokensOfMemoryToItsBlocks) {
  EXPECT_THAT(refused(std::string(kBase) + "fleet: {engine: {kv_tokens: 40000}}"),
              HasSubstr("set kv_blocks"));
}

TEST(Experiment, NamesFileLineKeyValueAndRemedyOfWhatIsWrong) {
  EXPECT_THAT(refused("workload:\n  rate: fast\n  requests: 5\n"),
              HasSubstr("x.yaml:2: workload.rate: \"fast\" is not a number from"));
  EXPECT_THAT(refused(std::string(kBase) + "polcy: {name: tie}\n"),
              HasSubstr("x.yaml:4: polcy: unknown key \"polcy\"; did you mean \"policy\"?"));
  EXPECT_THAT(refused(std::string(kBase) + "policy: {name: best}\n"),
              HasSubstr("x.yaml:4: policy.name: \"best\" is unknown; use fcfs"));
  EXPECT_THAT(refused(std::string(kBase) + "arms:\n  a: {}\n  b: {policy.nam: tie}\n"),
              HasSubstr("x.yaml:6: policy.nam: unknown key"));
  EXPECT_THAT(refused(std::string(kBase) + "  load: 1.5\n"),
              HasSubstr("workload.load: stands beside workload.rate; keep one"));
  EXPECT_THAT(refused("workload: {rate: 1}\n"), HasSubstr("give requests or duration"));
  EXPECT_THAT(refused("workload: {requests: 1}\n"), HasSubstr("give rate"));
  EXPECT_THAT(refused(std::string(kBase) + "grid: {seeds: [1, 2]}\n"),
              HasSubstr("\"seeds\" is one for the whole experiment"));
  EXPECT_THAT(refused("- 1\n"), HasSubstr("must be a mapping"));
  EXPECT_THAT(refused("a: [\n"), HasSubstr("not valid YAML"));
}

TEST(Experiment, RefusesListsOfNothing) {
  EXPECT_THAT(refused(std::string(kBase) + "seeds: []\n"),
              HasSubstr("x.yaml:4: seeds: is empty; name at least one"));
  EXPECT_THAT(refused(std::string(kBase) + "  trace:\n    files: []\n"),
              HasSubstr("x.yaml:5: workload.trace.files: is empty"));
  EXPECT_THAT(refused(std::string(kBase) + "grid: {workload.rate: []}\n"),
              HasSubstr("x.yaml:4: grid.workload.rate: must be a list of values"));
  EXPECT_THAT(refused(std::string(kBase) + "arms: {}\n"),
              HasSubstr("x.yaml:4: arms: names no arm"));
  const std::vector<Override> given = {{"seeds", "[]", "--set"}};
  const auto overridden = parse_experiment(kBase, "x.yaml", given);
  ASSERT_FALSE(overridden.has_value());
  EXPECT_THAT(overridden.error().message, HasSubstr("seeds: is empty"));
}

TEST(Experiment, RefusesGridsAndTextsThatAreTooLarge) {
  std::string numbers = "[1";
  for (int i = 2; i <= 100; ++i) numbers += ", " + std::to_string(i);
  numbers += "]";
  EXPECT_THAT(refused(std::string(kBase) + "grid:\n  workload.rate: " + numbers +
                      "\n  workload.prompts.mean: " + numbers + "\n"),
              HasSubstr("10000 combinations, more than 2000"));
  EXPECT_THAT(refused(std::string(kBase) + "seeds: 1000\ngrid: {workload.rate: " + numbers + "}\n"),
              HasSubstr("more than 20000 runs"));
  EXPECT_THAT(refused(std::string(kExperimentBytesMax + 1, ' ')), HasSubstr("longer than"));
}

TEST(Experiment, RefusesNamesThatDoNotShowAsTheyAre) {
  const std::string base(kBase);
  EXPECT_THAT(refused(base + "name: \"\xff\xfe\"\n"), HasSubstr("name: "));
  EXPECT_THAT(refused(base + "arms: {\"\xff\": {}}\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(refused(base + "  classes: {\"a\xff\": {}}\n"), HasSubstr("UTF-8"));
  for (const char* unseen : {"\u202e", "\u2066", "\u200b", "\u200f", "\ufeff", "\u009b"}) {
    EXPECT_THAT(refused(base + "arms: {a" + unseen + ": {}}\n"), HasSubstr("does not show"));
    EXPECT_THAT(refused(base + "name: a" + unseen + "b\n"), HasSubstr("does not show"));
    EXPECT_THAT(refused(base + "  classes: {a: {tenant: b" + unseen + "b}}\n"),
                HasSubstr("does not show"));
  }
  EXPECT_EQ(parsed(base + "name: é 日本\n").name, "é 日本");
}

TEST(Experiment, NoTwoColumnsHaveOneName) {
  const std::string base(kBase);
  EXPECT_THAT(refused(base + "arms: {a: {}}\ngrid: {arm: {b: {}}}\n"),
              HasSubstr("another dimension"));
  for (const char* name : {"seed", "id", "tenant", "predicted_median"}) {
    EXPECT_THAT(refused(base + "grid: {" + name + ": {b: {}}}\n"), HasSubstr("a column of --csv"));
  }
}

TEST(Experiment, NoKeyIsSetByTwoDimensions) {
  const std::string base(kBase);
  for (const char* arm : {"policy.name: tie", "policy: {name: tie}"}) {
    EXPECT_THAT(refused(base + "arms: {a: {" + arm + "}}\ngrid: {policy.name: [fcfs, tie]}\n"),
                HasSubstr("sets \"policy.name\", as \"policy.name\" does"));
  }
  parsed(base + "arms: {a: {policy.decay: 0.5}}\ngrid: {policy.name: [fcfs, tie]}\n");
}

TEST(Experiment, AListBelowANestedKeyOfTheGridIsToldHowToBeWritten) {
  EXPECT_THAT(refused(std::string(kBase) + "grid: {workload: {rate: [10, 20]}}\n"),
              HasSubstr("to vary a key write it dotted"));
}

TEST(Experiment, MessagesHaveNoMarkup) {
  const std::string message = refused(std::string(kBase) + "policy: {name: }\n");
  EXPECT_THAT(message, HasSubstr("give a fcfs | "));
  EXPECT_EQ(message.find('\\'), std::string::npos);
}

TEST(Experiment, AnEmptyListGivenBesideTheFileIsNoValue) {
  const std::vector<Override> empty = {{"workload.trace.files", "[]", "--set"}};
  const auto experiment = parse_experiment(kBase, "x.yaml", empty);
  ASSERT_FALSE(experiment.has_value());
  EXPECT_THAT(experiment.error().message,
              HasSubstr("--set: workload.trace.files: is empty; name at least one"));
}

TEST(Experiment, TakesTheEndsOfTheRangesThatItDocuments) {
  const std::string base(kBase);
  for (const char* end :
       {"predictor: {kind: noisy-law, nu_error: 5}", "predictor: {kind: noisy-law, nu: 0.5}",
        "predictor: {kind: noisy-law, log_sd: 10}", "policy: {name: tie, beta_bucket: 0.001}",
        "policy: {name: mlfq, mlfq_growth: 1.1}", "policy: {name: ssjf, ssjf_token_time: 1us}",
        "fleet: {engine: {kv_blocks: 1000000000000}}"}) {
    parsed(base + end + "\n");
  }
  // The message is the range's own, with its key, not a later check's.
  for (const auto& [key, beyond] : std::vector<std::pair<std::string, std::string>>{
           {"predictor.nu_error", "5.1"},
           {"predictor.nu", "0.4"},
           {"predictor.log_sd", "11"},
           {"policy.beta_bucket", "0.0009"},
           {"policy.mlfq_growth", "1"},
           {"policy.ssjf_token_time", "0"},
           {"fleet.engine.kv_blocks", "1000000000001"}}) {
    EXPECT_THAT(refused(base + key.substr(0, key.find('.')) + ": {" +
                        (key.starts_with("fleet") ? "engine: {kv_blocks: " + beyond + "}"
                                                  : key.substr(key.find('.') + 1) + ": " + beyond) +
                        "}\n"),
                HasSubstr(key + ": \"" + beyond + "\" is not a"));
  }
}

TEST(Experiment, OverridesReplaceTheFilesSettingsAndGrid) {
  const std::vector<Override> given = {{"workload.rate", "3", "--rate"},
                                       {"grid.policy.name", "[mean, tie]", "--policy"}};
  const auto e = parse_experiment(kBase, "x.yaml", given);
  ASSERT_TRUE(e.has_value()) << e.error().message;
  EXPECT_DOUBLE_EQ(e->cells[0].spec.workload.arrivals.rate, 3);
  EXPECT_THAT(e->dimensions.at(0).labels, ElementsAre("mean", "tie"));
}

TEST(Experiment, TheRateIsTheMeanWhateverTheProcess) {
  const Experiment e = parsed(
      "workload:\n  rate: 10\n  requests: 5\n  arrivals: {kind: spikes, high: 4, period: 10s, "
      "spike: "
      "5s}\n");
  EXPECT_NEAR(e.cells[0].spec.workload.arrivals.rate, 4, 1e-12);
}

TEST(Experiment, EveryKeyIsInTheDocs) {
  const auto docs =
      core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/simulate.md", std::size_t{1} << 20);
  ASSERT_TRUE(docs.has_value());
  std::string reference = experiment_reference();
  reference.erase(0, reference.find_first_not_of('\n'));
  EXPECT_NE(docs->find(reference), std::string::npos)
      << "docs/simulate.md is out of date; paste what `tailrace simulate --keys` prints";
}

TEST(Experiment, TheExamplesOfTheDocsAreGood) {
  const auto first = load_experiment(std::string(TAILRACE_SOURCE_DIR) + "/experiments/first.yaml");
  EXPECT_TRUE(first.has_value()) << first.error().message;
  const auto docs =
      core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/simulate.md", std::size_t{1} << 20);
  ASSERT_TRUE(docs.has_value());
  const std::size_t begin = docs->find("```yaml\n") + 8;
  const auto example = parse_experiment(
      std::string_view(*docs).substr(begin, docs->find("```", begin) - begin), "docs");
  EXPECT_TRUE(example.has_value()) << example.error().message;
}

}  // namespace
}  // namespace tailrace::simulate
