// The loop in virtual time: order of things, time-outs, leadership, ends and restarts.
#include "tailrace/autoscaler/control_loop.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>

#include "autoscaler/support/fakes.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using testing::FakeActuator;
using testing::FakeCollector;
using testing::FakeElector;
using testing::FakeSettings;
using testing::FakeStateStore;
using testing::Fleet;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SimCalendar;

constexpr const char* kTargets = "targetTTFT: 150\ntargetITL: 15\n";

struct LoopTest : ::testing::Test {
  net::SimLoop loop;
  SimCalendar calendar{loop};
  FakeSettings settings{kTargets};
  Fleet fleet;
  FakeCollector collector{loop, fleet};
  FakeActuator actuator{loop, fleet};
  FakeStateStore state;
  FakeElector elector;
  LoopConfig config;
  std::vector<CycleReport> reports;
  std::unique_ptr<ControlLoop> control;

  LoopParts parts() {
    LoopParts out;
    out.loop = &loop;
    out.calendar = &calendar;
    out.settings = &settings;
    out.collector = &collector;
    out.actuators = {&actuator};
    out.state = &state;
    return out;
  }
  /// A single cycle that may wait 20 s for the lease; its report comes to `done`.
  void run_once(std::function<void(const CycleReport&)> done) {
    auto with = parts();
    with.elector = &elector;
    config.lead_wait = seconds(20);
    fleet.rate_per_s = 200;
    control = std::make_unique<ControlLoop>(config, std::move(with));
    control->run_once(std::move(done));
  }
  void start(LoopParts with) {
    control = std::make_unique<ControlLoop>(config, std::move(with));
    control->start([this](const CycleReport& report) { reports.push_back(report); });
  }
  std::vector<std::string> troubles() const {
    std::vector<std::string> out;
    for (const auto& report : reports) {
      for (const auto& trouble : report.troubles) {
        out.push_back(trouble.subject + ": " + trouble.message);
      }
    }
    return out;
  }
};

TEST_F(LoopTest, ACycleEveryIntervalMovesReplicasToWhatTheLoadNeeds) {
  fleet.rate_per_s = 120;
  start(parts());
  loop.run_for(seconds(15 * 20) + seconds(1));
  EXPECT_EQ(reports.size(), 21u);
  EXPECT_GT(fleet.replicas, 2);
  EXPECT_TRUE(std::any_of(reports.begin(), reports.end(), [](const CycleReport& r) {
    return std::any_of(r.results.begin(), r.results.end(), [&](const auto& result) {
      return result.second.done && result.second.message() == "fake: set";
    });
  }));
  EXPECT_GT(state.saves, 1);
  EXPECT_EQ(control->unhealthy(), "");
}

TEST_F(LoopTest, ASlowCollectionDelaysTheNextCycleAndSaysSo) {
  collector.takes = seconds(40);
  start(parts());
  loop.run_for(seconds(130));
  EXPECT_EQ(reports.size(), 3u);
  EXPECT_EQ(collector.calls, 4);
  EXPECT_THAT(troubles(), Contains(HasSubstr("collecting took 40.0 s, longer than the interval")));
  EXPECT_THAT(troubles(), Contains(HasSubstr("begins 25.0 s late")));
}

TEST_F(LoopTest, ACollectorThatNeverAnswersIsSeenFromOutside) {
  collector.never = true;
  start(parts());
  loop.run_for(seconds(200));
  EXPECT_TRUE(reports.empty());
  EXPECT_THAT(control->unhealthy(), HasSubstr("the last cycle began 200 s ago"));
}

TEST_F(LoopTest, ABlindCycleIsRepeatedSoonWithPausesThatGrowAndChangesNothing) {
  fleet.spoil = [](Snapshot& s) { s.blind = "the API server does not answer"; };
  start(parts());
  loop.run_for(seconds(60));
  EXPECT_EQ(actuator.calls, 0);
  // At 0, 1, 3, 7, 15, 30 and 45 s.
  EXPECT_EQ(reports.size(), 7u);
  EXPECT_TRUE(reports.back().failed());
  EXPECT_THAT(troubles(), Contains("blind: the API server does not answer"));
  fleet.spoil = nullptr;
  loop.run_for(seconds(20));
  EXPECT_FALSE(reports.back().failed());
  EXPECT_GT(actuator.calls, 0);
}

TEST_F(LoopTest, AnActuatorWithoutAnAnswerIsWaitedForOnceAndNotAskedTwice) {
  FakeActuator dead(loop, fleet, "dead");
  dead.never = true;
  auto with = parts();
  with.actuators.push_back(&dead);
  start(std::move(with));
  loop.run_for(seconds(100));
  EXPECT_EQ(dead.calls, 1);
  EXPECT_GE(actuator.calls, 5);
  EXPECT_THAT(troubles(), Contains(HasSubstr("no answer within 30s")));
  const auto& result = reports.back().results.begin()->second;
  EXPECT_FALSE(result.done);
}

TEST_F(LoopTest, ARefusalIsInTheReport) {
  actuator.refuses = true;
  start(parts());
  loop.run_for(seconds(1));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_FALSE(reports[0].results.begin()->second.done);
  EXPECT_EQ(reports[0].results.begin()->second.message(), "fake: refused");
}

// knative/serving#12409: two instances disagree and flap. Only the leader acts.
TEST_F(LoopTest, AnInstanceThatDoesNotLeadThinksAlongAndTouchesNothing) {
  elector.leadership = {false, "other", 4, "other leads"};
  auto with = parts();
  with.elector = &elector;
  fleet.rate_per_s = 120;
  start(std::move(with));
  loop.run_for(seconds(15 * 20));
  EXPECT_EQ(actuator.calls, 0);
  EXPECT_EQ(state.saves, 0);
  EXPECT_FALSE(reports.back().leads);
  EXPECT_EQ(reports.back().leader, "other");
  EXPECT_THAT(report_table(reports.back()), HasSubstr("other leads, so this one changes nothing"));
  elector.leadership = {true, "me", 5, "holds the lease"};
  loop.run_for(seconds(30));
  EXPECT_GT(actuator.calls, 0);
  EXPECT_EQ(reports.back().record.orders[0].decision.writer.generation, 5u);
  EXPECT_GT(fleet.replicas, 2);
}

TEST_F(LoopTest, WhoLosesTheLeaseWhileCollectingCarriesNothingOut) {
  elector.leadership = {true, "me", 1, ""};
  auto with = parts();
  with.elector = &elector;
  collector.takes = seconds(5);
  start(std::move(with));
  loop.run_for(seconds(2));
  elector.leadership = {false, "other", 2, ""};
  loop.run_for(seconds(10));
  EXPECT_EQ(actuator.calls, 0);
}

TEST_F(LoopTest, AnOrderOfATermThatHasEndedIsVoidAndSaidToBe) {
  elector.leadership = {true, "me", 1, ""};
  auto with = parts();
  with.elector = &elector;
  fleet.rate_per_s = 90;
  start(std::move(with));
  loop.run_for(seconds(15 * 20 + 1));
  const auto held = fleet.replicas;
  fleet.rate_per_s = 300;
  collector.takes = seconds(5);
  loop.run_for(seconds(16));
  elector.leadership = {true, "me", 2, ""};
  const auto before = reports.size();
  loop.run_for(seconds(5));
  ASSERT_EQ(reports.size(), before + 1);
  const std::string line = decision_lines(reports.back()).at(0);
  EXPECT_THAT(line, HasSubstr("holds term 2: void"));
  EXPECT_THAT(line, HasSubstr(R"("action":"hold")"));
  EXPECT_EQ(fleet.replicas, held);
  loop.run_for(seconds(30));
  EXPECT_GT(fleet.replicas, held);
}

TEST_F(LoopTest, AFirstCycleWaitsForSettingsThatAreOnTheirWay) {
  class Late final : public SettingsSource {
   public:
    explicit Late(SettingsSource& settings) : settings_(settings) {}
    const Settings& read() override { return settings_.read(); }
    bool known() const override { return is_known; }
    std::string_view origin() const override { return "test"; }
    bool is_known = false;

   private:
    SettingsSource& settings_;
  } late(settings);
  auto with = parts();
  with.settings = &late;
  start(with);
  loop.run_for(seconds(10));
  EXPECT_EQ(collector.calls, 0);
  late.is_known = true;
  loop.run_for(seconds(1));
  EXPECT_EQ(reports.size(), 1u);
  EXPECT_THAT(troubles(), IsEmpty()) << "waiting is not being late";
  control.reset();
  late.is_known = false;
  start(with);
  loop.run_for(seconds(20));
  EXPECT_EQ(reports.size(), 2u) << "not for ever";
}

TEST_F(LoopTest, AnEndWaitsForOrdersUnderWayThenSavesAndGivesTheLeaseBack) {
  elector.leadership = {true, "me", 1, ""};
  actuator.takes = seconds(5);
  auto with = parts();
  with.elector = &elector;
  start(std::move(with));
  loop.run_for(seconds(1));
  ASSERT_EQ(actuator.calls, 1);
  bool ended = false;
  control->stop([&] { ended = true; });
  loop.run_for(seconds(1));
  EXPECT_FALSE(ended);
  loop.run_for(seconds(10));
  EXPECT_TRUE(ended);
  EXPECT_TRUE(elector.released);
  EXPECT_GE(state.saves, 1);
  EXPECT_EQ(reports.size(), 1u);
  loop.run_for(seconds(100));
  EXPECT_EQ(actuator.calls, 1);
}

TEST_F(LoopTest, AnEndAbandonsWhatIsBeingCollected) {
  collector.takes = seconds(50);
  start(parts());
  loop.run_for(seconds(1));
  bool ended = false;
  control->stop([&] { ended = true; });
  EXPECT_TRUE(ended);
  control.reset();
  loop.run_for(seconds(100));  // the late answer meets nobody
  EXPECT_TRUE(reports.empty());
  EXPECT_EQ(actuator.calls, 0);
}

TEST_F(LoopTest, OneCycleAndItsReport) {
  control = std::make_unique<ControlLoop>(config, parts());
  int calls = 0;
  control->run_once([&](const CycleReport& report) {
    ++calls;
    EXPECT_EQ(report.record.cycle, 1u);
    EXPECT_EQ(report.record.orders.size(), 1u);
  });
  loop.run_for(seconds(100));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(collector.calls, 1);
}

TEST_F(LoopTest, OneCycleWaitsForTheLease) {
  int reported = 0;
  run_once([&](const CycleReport& report) {
    ++reported;
    EXPECT_TRUE(report.leads);
    EXPECT_THAT(report.troubles, IsEmpty()) << "waiting is not being late";
  });
  loop.run_for(seconds(19));
  EXPECT_EQ(state.loads, 0) << "another one may learn still";
  EXPECT_EQ(reported, 0);
  elector.leadership = {true, "me", 1, "holds the lease"};
  loop.run_for(seconds(2));
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(actuator.calls, 1);
}

TEST_F(LoopTest, OneCycleIsWithoutEffectWhereAnotherOneStillLeadsAfterTheWait) {
  elector.leadership = {false, "other", 4, "other leads"};
  int reported = 0;
  run_once([&](const CycleReport& report) { reported += report.leader == "other"; });
  loop.run_for(seconds(22));
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(actuator.calls, 0);
}

TEST_F(LoopTest, OneCycleThatIsToldToEndWhileItWaitsForTheLeaseEnds) {
  int reported = 0, ended = 0;
  run_once([&](const CycleReport&) { ++reported; });
  loop.run_for(seconds(5));
  control->stop([&] { ++ended; });
  loop.run_for(seconds(60));
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(reported, 0);
  EXPECT_EQ(collector.calls, 0);
  EXPECT_TRUE(elector.released);
}

TEST_F(LoopTest, AStoreThatDoesNotAnswerIsReadAgainAndNeverSavedOver) {
  start(parts());
  fleet.rate_per_s = 120;
  loop.run_for(seconds(15 * 30));
  bool ended = false;
  control->stop([&] { ended = true; });
  loop.run_for(seconds(1));
  ASSERT_TRUE(ended);
  control.reset();
  const auto learnt = state.document;
  const auto steady = fleet.replicas;
  ASSERT_TRUE(learnt);
  reports.clear();
  state.unread = Error{ErrorCode::kUnavailable, "nobody answers"};
  start(parts());
  loop.run_for(seconds(15 * 5 + 10));
  EXPECT_EQ(state.document, learnt);
  EXPECT_THAT(troubles(), Each(HasSubstr("state: nobody answers; it is read again")));
  EXPECT_EQ(troubles().size(), reports.size());
  state.unread.reset();
  reports.clear();
  const int loads = state.loads;
  loop.run_for(seconds(15 * 6));
  EXPECT_EQ(state.loads, loads + 1);
  EXPECT_THAT(troubles(), IsEmpty());
  EXPECT_NE(state.document, learnt) << "it is saved again";
  EXPECT_EQ(fleet.replicas, steady);
}

TEST_F(LoopTest, TheFirstCycleIsNotLateHoweverLongTheStoreTakes) {
  class SlowStore final : public StateStore {
   public:
    explicit SlowStore(net::SimLoop& loop) : loop_(loop) {}
    void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) override {
      answer_ =
          loop_.after(seconds(14), [done = std::move(done)]() mutable { done(std::nullopt); });
    }
    void save(std::string, UniqueFunction<void(Result<void>)> done) override { done({}); }

   private:
    net::SimLoop& loop_;
    std::unique_ptr<net::Timer> answer_;
  } slow(loop);
  auto with = parts();
  with.state = &slow;
  start(std::move(with));
  loop.run_for(seconds(60));
  EXPECT_GE(reports.size(), 3u);
  EXPECT_THAT(troubles(), IsEmpty());
}

TEST_F(LoopTest, OneCycleThatIsToldToEndWhileItActsReportsAndEnds) {
  actuator.takes = seconds(5);
  fleet.rate_per_s = 200;
  control = std::make_unique<ControlLoop>(config, parts());
  int reported = 0, ended = 0;
  control->run_once([&](const CycleReport&) { ++reported; });
  loop.run_for(seconds(1));
  ASSERT_EQ(actuator.calls, 1);
  control->stop([&] { ++ended; });
  EXPECT_EQ(ended, 0);
  loop.run_for(seconds(10));
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(ended, 1);
}

TEST_F(LoopTest, ADryRunCarriesNothingOutAndWritesNothingDown) {
  config.dry_run = true;
  fleet.rate_per_s = 200;
  start(parts());
  loop.run_for(seconds(100));
  EXPECT_EQ(actuator.calls, 0);
  EXPECT_EQ(state.saves, 0);
  EXPECT_THAT(report_table(reports.back()), HasSubstr("dry run: nothing is changed"));
}

// vllm-project/aibrix#515: a scaler that did not start from the current replicas.
TEST_F(LoopTest, ARestartInSteadyStateChangesNoReplicaCount) {
  fleet.rate_per_s = 90;
  start(parts());
  loop.run_for(seconds(15 * 60));
  const auto steady = fleet.replicas;
  for (int restart = 0; restart < 5; ++restart) {
    bool ended = false;
    control->stop([&] { ended = true; });
    loop.run_for(seconds(1));
    ASSERT_TRUE(ended);
    control.reset();
    loop.run_for(seconds(13));
    start(parts());
    loop.run_for(seconds(60));
    EXPECT_EQ(fleet.replicas, steady) << "restart " << restart;
  }
}

TEST_F(LoopTest, SettingsAreReadInEveryCycleAndAProblemIsSaid) {
  start(parts());
  loop.run_for(seconds(1));
  settings.set("targetTTFT: 150\n");  // half a pair
  loop.run_for(seconds(15));
  EXPECT_THAT(troubles(), Contains(HasSubstr("settings default: ")));
  EXPECT_EQ(reports.back().record.orders[0].decision.action, capacity::Action::kHold);
}

/// A process with its journal and log; destroying it is a kill.
struct Process {
  std::unique_ptr<Database> database;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<History> history;
  std::unique_ptr<DecisionLog> log;
  std::unique_ptr<StateStore> store;
  std::unique_ptr<ControlLoop> control;
};

struct JournaledLoop : LoopTest {
  TempFolder folder;

  Process launch() {
    Process p;
    auto opened = Database::open(folder.file("db"));
    EXPECT_TRUE(opened) << opened.error().message;
    p.database = std::move(opened->database);
    p.journal = std::make_unique<Journal>(*p.database);
    p.history = std::make_unique<History>(*p.database);
    p.log = std::move(*DecisionLog::open(folder.file("log"), 1 << 20, 1));
    p.store = database_state_store(*p.database);
    auto with = parts();
    with.journal = p.journal.get();
    with.history = p.history.get();
    with.decision_log = p.log.get();
    with.state = p.store.get();
    config.generation = p.database->generation();
    p.control = std::make_unique<ControlLoop>(config, std::move(with));
    p.control->start([this](const CycleReport& report) { reports.push_back(report); });
    return p;
  }
  std::string log_text() const { return *core::read_file(folder.file("log"), 1 << 20); }
  void learn() { loop.run_for(15 * config.interval); }
  /// Gets more load than two replicas take. Gives the first order's id.
  std::string run_until_it_moves() {
    fleet.rate_per_s = 120;
    for (int i = 0; i < 1000 && actuator.moved.empty(); ++i) loop.run_for(milliseconds(100));
    EXPECT_FALSE(actuator.moved.empty()) << report_table(reports.back());
    return actuator.moved.empty() ? "" : actuator.moved.back();
  }
  /// Ids in the log of decisions that move replicas.
  std::vector<std::string> logged_moves() const {
    std::vector<std::string> out;
    const std::string text = log_text();
    for (const auto line : core::split(text, '\n')) {
      if (line.empty()) continue;
      EXPECT_TRUE(line.starts_with("{\"id\":\"") && line.ends_with("}")) << line;
      if (line.find("\"action\":\"hold\"") != std::string_view::npos) continue;
      out.emplace_back(line.substr(7, line.find('"', 7) - 7));
    }
    return out;
  }
};

TEST_F(JournaledLoop, AnOrderThatWasCarriedOutBeforeTheKillIsClosedAsDone) {
  actuator.takes = seconds(5);
  auto first = launch();
  learn();
  const std::string id = run_until_it_moves();
  const auto ordered = actuator.desired.back();
  first = Process{};  // killed while the actuator is at work
  loop.run_for(seconds(10));
  ASSERT_EQ(fleet.replicas, ordered);
  auto second = launch();
  loop.run_for(seconds(10));
  const auto moves = logged_moves();
  EXPECT_EQ(std::count(moves.begin(), moves.end(), id), 1);
  EXPECT_THAT(log_text(), HasSubstr(fmt::format(
                              "after a restart: {} replicas are there, as ordered", ordered)));
  EXPECT_TRUE(second.journal->unlogged()->empty());
}

TEST_F(JournaledLoop, AnOrderThatNobodyCarriedOutIsVoidAndDecidedAnew) {
  auto first = launch();
  learn();
  actuator.never = true;
  const std::string id = run_until_it_moves();
  const auto cycle = first.control->latest()->record.cycle;
  first = Process{};
  actuator.never = false;
  auto second = launch();
  loop.run_for(seconds(1));
  const auto moves = logged_moves();
  EXPECT_EQ(std::count(moves.begin(), moves.end(), id), 1);
  EXPECT_THAT(log_text(), HasSubstr("void"));
  EXPECT_GT(reports.back().record.cycle, cycle + 1);
  loop.run_for(seconds(15 * 20));
  EXPECT_GT(fleet.replicas, 2);
}

TEST_F(JournaledLoop, KilledAtAnyMomentItLosesAndDoublesNoOrder) {
  settings.set(std::string(kTargets) +
               "stabilisation: {downWindow: 1s, upPods: 20, upPeriod: 1s}\n");
  collector.takes = milliseconds(300);
  actuator.takes = milliseconds(300);
  config.interval = seconds(2);
  config.state_every = seconds(1);
  {
    auto process = launch();
    learn();
    (void)run_until_it_moves();
    loop.run_for(seconds(20));
  }
  std::uint64_t chance = 1;
  for (int kill = 0; kill < 60; ++kill) {
    fleet.rate_per_s = kill % 4 < 2 ? 130 : 60;
    auto process = launch();
    chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
    loop.run_for(milliseconds(50 + static_cast<std::int64_t>((chance >> 33) % 2500)));
    process = Process{};
    loop.run_for(milliseconds(static_cast<std::int64_t>((chance >> 40) % 500)));
  }
  fleet.rate_per_s = 100;
  auto process = launch();
  loop.run_for(seconds(30));
  process.control->stop([] {});
  loop.run_for(seconds(5));
  EXPECT_TRUE(process.journal->open_orders()->empty());
  EXPECT_TRUE(process.journal->unlogged()->empty());
  auto moves = logged_moves();
  EXPECT_GT(moves.size(), 5u);
  std::sort(moves.begin(), moves.end());
  EXPECT_EQ(std::adjacent_find(moves.begin(), moves.end()), moves.end());
  // Every move that was asked for is in the log.
  for (const std::string& id : actuator.moved) {
    EXPECT_TRUE(std::binary_search(moves.begin(), moves.end(), id)) << id;
  }
}

TEST_F(JournaledLoop, AFullDiskIsSaidInEachCycleAndReplicasStillMove) {
  auto process = launch();
  loop.run_for(seconds(1));
  sqlite3_exec(process.database->handle(), "PRAGMA max_page_count = 1", nullptr, nullptr, nullptr);
  fleet.rate_per_s = 200;
  loop.run_for(seconds(15 * 6));
  EXPECT_GT(fleet.replicas, 2);
  int said = 0;
  for (const auto& report : reports) {
    said += std::any_of(report.troubles.begin(), report.troubles.end(),
                        [](const Trouble& t) {
                          return t.message.find("free some space") != std::string::npos;
                        })
                ? 1
                : 0;
  }
  EXPECT_GE(said, 5);
}

}  // namespace
}  // namespace tailrace::autoscaler
