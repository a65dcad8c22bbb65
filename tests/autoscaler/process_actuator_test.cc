#include "tailrace/autoscaler/process_actuator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "autoscaler/support/process_world.h"

namespace tailrace::autoscaler {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProcessWorld;
using ::testing::SizeIs;

TEST(ProcessActuator, StartsReplicasAndRegistersThemOnceTheyAreWell) {
  ProcessWorld world;
  world.start();
  const auto outcome = world.decide("small", 2);
  EXPECT_TRUE(outcome.done);
  EXPECT_EQ(outcome.message, "2 wanted, 2 starting");
  EXPECT_EQ(world.machine.alive(), 2u);
  world.run_for(seconds(2));
  EXPECT_THAT(world.gateway.calls, IsEmpty()) << "not well yet";
  world.run_for(seconds(4));
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
  ASSERT_EQ(world.gateway.backends.size(), 2u);
  EXPECT_EQ(world.gateway.backends.at("small-0").url, "http://127.0.0.1:18000");
  EXPECT_EQ(world.gateway.backends.at("small-1").url, "http://127.0.0.1:18001");
  EXPECT_THAT(world.gateway.backends.at("small-0").body, HasSubstr(R"("slots":4)"));
  EXPECT_THAT(world.gateway.backends.at("small-0").body, HasSubstr(R"("models":["m"])"));
  EXPECT_EQ(world.gateway.tokens.front(), "Bearer sesame");
}

TEST(ProcessActuator, FillsTheCommandInAndMarksTheProcess) {
  ProcessWorld world;
  world.config.variants[0].command = {"engine",          "{\"a\":1}", "{name}",
                                      "{model}/{index}", "{host}",    "{port}"};
  world.start();
  world.decide("small", 1);
  const auto& spec = world.machine.programs.at(0)->spec;
  EXPECT_THAT(spec.argv,
              ElementsAre("engine", "{\"a\":1}", "small-0", "m/0", "127.0.0.1", "18000"));
  EXPECT_EQ(spec.environment.back().first, "TAILRACE_REPLICA");
}

TEST(ProcessActuator, LeavesTheGatewayFinishesItsAnswersAndThenEnds) {
  ProcessWorld world;
  world.start_with(2);
  world.gateway.backends.at("small-1").running = 3;
  world.gateway.backends.at("small-0").running = 1;
  world.run_for(seconds(3));
  world.decide("small", 1);
  world.run_for(seconds(5));
  // The one with less to finish goes.
  EXPECT_THAT(world.names(ReplicaState::kDraining), ElementsAre("small-0"));
  EXPECT_TRUE(world.gateway.backends.at("small-0").draining);
  EXPECT_EQ(world.machine.alive(), 2u) << "an answer is still under way";
  world.gateway.backends.erase("small-0");
  world.run_for(seconds(5));
  EXPECT_EQ(world.machine.alive(), 1u);
  EXPECT_THAT(world.machine.programs.at(0)->signals, ElementsAre(SIGTERM));
  EXPECT_THAT(world.names(ReplicaState::kReady), ElementsAre("small-1"));
  EXPECT_EQ(world.actuator->replicas().size(), 1u);
}

TEST(ProcessActuator, CutsAnswersThatOutlastTheDrainLimit) {
  ProcessWorld world;
  world.config.variants[0].drain_limit = seconds(20);
  world.start_with(1);
  world.gateway.backends.at("small-0").running = 1;
  world.decide("small", 0);
  world.run_for(seconds(19));
  EXPECT_EQ(world.machine.alive(), 1u);
  world.run_for(seconds(3));
  EXPECT_EQ(world.machine.alive(), 0u);
}

TEST(ProcessActuator, KillsWhatDoesNotHeedTerminate) {
  ProcessWorld world;
  world.machine.heeds_terminate = false;
  world.start_with(1);
  world.decide("small", 0);
  world.run_for(seconds(10));
  EXPECT_EQ(world.count(ReplicaState::kStopping), 1);
  EXPECT_EQ(world.machine.alive(), 1u);
  world.run_for(seconds(15));
  EXPECT_THAT(world.machine.programs.at(0)->signals, ElementsAre(SIGTERM, SIGKILL));
  EXPECT_EQ(world.machine.alive(), 0u);
}

TEST(ProcessActuator, WhatHasOnlyBegunToLeaveIsKeptWhenItIsWantedAgain) {
  ProcessWorld world;
  world.start_with(2);
  world.gateway.backends.at("small-1").running = 1;
  world.gateway.backends.at("small-0").running = 1;
  world.run_for(seconds(3));
  world.decide("small", 1);
  world.run_for(seconds(3));
  ASSERT_EQ(world.count(ReplicaState::kDraining), 1);
  world.decide("small", 2);
  world.run_for(seconds(3));
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
  EXPECT_EQ(world.machine.programs.size(), 2u) << "none was started anew";
  EXPECT_FALSE(world.gateway.backends.at("small-1").draining);
  EXPECT_FALSE(world.gateway.backends.at("small-0").draining);
}

TEST(ProcessActuator, AnAutoscalerThatWasKilledFindsItsReplicasAgain) {
  ProcessWorld world;
  world.start_with(3);
  world.kill();
  world.run_for(seconds(60));
  world.start();
  EXPECT_EQ(world.actuator->target("small"), 3);
  EXPECT_EQ(world.count(ReplicaState::kReady), 3);
  world.run_for(seconds(30));
  EXPECT_EQ(world.machine.programs.size(), 3u) << "none was started twice";
  EXPECT_EQ(world.count(ReplicaState::kReady), 3);
  world.decide("small", 3);
  world.run_for(seconds(30));
  EXPECT_EQ(world.machine.programs.size(), 3u);
}

/// Dies where a test says, as a process does that is killed.
class DyingMachine final : public ProcessRunner {
 public:
  explicit DyingMachine(testing::Machine& machine) : machine_(machine) {}
  Result<ProcessId> start(const ProcessSpec& spec) override {
    std::ifstream file(registry);
    before_start.emplace_back(std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>());
    return machine_.start(spec);
  }
  ProcessLook look(const ProcessId& id) override { return machine_.look(id); }
  void signal(const ProcessId& id, int signal) override { machine_.signal(id, signal); }
  std::optional<ProcessId> find(const std::string& name, const std::string& value) override {
    return machine_.find(name, value);
  }
  void end_left(const std::string& name, const std::string& value,
                const ProcessId& ended) override {
    machine_.end_left(name, value, ended);
  }
  bool port_is_free(const std::string& host, std::uint16_t port) override {
    return machine_.port_is_free(host, port);
  }
  std::string registry;
  std::vector<std::string> before_start;  ///< what the registry said

 private:
  testing::Machine& machine_;
};

TEST(ProcessActuator, AReplicaWhoseStartWasNeverWrittenDownIsFoundByItsEnvironment) {
  ProcessWorld world;
  DyingMachine machine(world.machine);
  machine.registry = world.folder.file("replicas.json");
  auto made =
      ProcessActuator::make(world.loop, world.network, world.calendar, machine, world.config);
  ASSERT_TRUE(made.has_value());
  world.actuator = std::move(*made);
  world.decide("small", 1);
  world.kill();
  // Back to the moment between the start and its note.
  ASSERT_EQ(machine.before_start.size(), 1u);
  EXPECT_THAT(machine.before_start[0], HasSubstr(R"("process":null)"));
  std::ofstream(machine.registry, std::ios::trunc) << machine.before_start[0];
  world.run_for(seconds(5));
  world.start();
  world.run_for(seconds(5));
  EXPECT_EQ(world.machine.programs.size(), 1u);
  ASSERT_EQ(world.count(ReplicaState::kReady), 1);
  EXPECT_EQ(world.actuator->replicas().at(0).pid, 100);
}

TEST(ProcessActuator, AReplicaThatWasLostWithTheRegistryEndsBeforeAnotherHasItsName) {
  ProcessWorld world;
  world.start_with(1);
  world.kill();
  std::filesystem::remove(world.folder.file("replicas.json"));
  world.machine.heeds_terminate = false;
  world.start();
  const auto outcome = world.decide("small", 1);
  EXPECT_THAT(outcome.message, HasSubstr("process 100 has this name and is in no registry"));
  EXPECT_EQ(world.machine.alive(), 1u);
  world.run_for(seconds(120));
  EXPECT_FALSE(world.machine.program(100)->alive);
  EXPECT_EQ(world.machine.program(100)->signals.front(), SIGTERM);
  EXPECT_EQ(world.machine.program(100)->signals.back(), SIGKILL);
  EXPECT_EQ(world.machine.alive(), 1u);
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
}

TEST(ProcessActuator, ARegistryThatIsRemovedIsWrittenAgain) {
  ProcessWorld world;
  world.start_with(1);
  const std::string path = world.folder.file("replicas.json");
  std::filesystem::remove(path);
  world.decide("small", 1);
  world.run_for(seconds(2));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ProcessActuator, WhatAReplicaLeftBehindIsEndedWithIt) {
  ProcessWorld world;
  world.start_with(1);
  EXPECT_TRUE(world.machine.left_ended.empty());
  world.machine.end(100, "signal 9 (Killed)");
  world.run_for(seconds(5));
  EXPECT_THAT(world.machine.left_ended, ElementsAre(HasSubstr("small-0 100")));
  world.decide("small", 0);
  world.run_for(seconds(30));
  EXPECT_THAT(world.machine.left_ended, SizeIs(2)) << "one that was told to end, too";
}

TEST(ProcessActuator, ALogThatGrowsFastIsCutWithinASecond) {
  ProcessWorld world;
  world.config.log_bytes_max = 1000;
  world.start_with(1);
  const auto log = world.folder.file("logs/small-0.log");
  for (int i = 0; i < 3; ++i) {
    std::ofstream(log, std::ios::app) << std::string(5000, 'x');
    world.run_for(std::chrono::milliseconds(600));
    EXPECT_LE(std::filesystem::file_size(log), 1000U) << i;
    EXPECT_LE(std::filesystem::file_size(log + ".1"), 500U) << i;
  }
}

TEST(ProcessActuator, WhatEndedWhileNobodyLookedIsReplaced) {
  ProcessWorld world;
  world.start_with(2);
  world.kill();
  world.machine.end(100, "signal 11");
  world.run_for(seconds(10));
  world.start();
  world.run_for(seconds(8));
  EXPECT_EQ(world.machine.programs.size(), 3u);
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
  EXPECT_EQ(world.gateway.backends.at("small-0").url, "http://127.0.0.1:18000");
}

TEST(ProcessActuator, DrainingGoesOnAfterAKill) {
  ProcessWorld world;
  world.start_with(1);
  world.gateway.backends.at("small-0").running = 1;
  world.decide("small", 0);
  world.run_for(seconds(3));
  world.kill();
  world.start();
  world.run_for(seconds(5));
  EXPECT_EQ(world.count(ReplicaState::kDraining), 1);
  world.gateway.backends.clear();
  world.run_for(seconds(5));
  EXPECT_EQ(world.machine.alive(), 0u);
  EXPECT_THAT(world.actuator->replicas(), IsEmpty());
}

TEST(ProcessActuator, AReplicaThatDiesIsReplacedAndKeepsItsPlaceAtTheGateway) {
  ProcessWorld world;
  world.start_with(1);
  world.machine.end(100, "signal 9 (Killed)");
  world.run_for(milliseconds(600));
  ASSERT_EQ(world.count(ReplicaState::kFailed), 1);
  const auto failed = world.actuator->replicas().at(0);
  EXPECT_THAT(failed.message, HasSubstr("ended: signal 9 (Killed)"));
  EXPECT_THAT(failed.message, HasSubstr("started again in 1 s"));
  EXPECT_EQ(world.gateway.backends.count("small-0"), 1u) << "requests wait for its successor";
  world.run_for(seconds(8));
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
  EXPECT_THAT(world.gateway.calls, ElementsAre("PUT small-0", "PUT small-0"));
}

TEST(ProcessActuator, ACommandThatKeepsEndingIsTriedEverMoreRarelyAndSaysWhy) {
  ProcessWorld world;
  world.machine.lives_for = seconds(1);
  world.start();
  world.decide("small", 1);
  std::ofstream(world.folder.file("logs/small-0.log")) << "starting\nCUDA error: no device\n\n";
  world.run_for(seconds(30));
  const auto first = world.machine.programs.size();
  EXPECT_LE(first, 6u);
  EXPECT_GE(first, 4u);
  world.run_for(minutes(30));
  const auto later = world.machine.programs.size();
  EXPECT_LE(later, 16u) << "pauses grow to 5 minutes";
  const auto outcome = world.decide("small", 1);
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.message, HasSubstr("ended: exit status 3"));
  EXPECT_THAT(outcome.message, HasSubstr("CUDA error: no device"));
  world.machine.lives_for = Duration{0};
  world.run_for(minutes(8));
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
  EXPECT_EQ(world.actuator->replicas().at(0).failures, 0) << "it has been well for long";
}

TEST(ProcessActuator, AProgramThatDoesNotExistIsSaidAtOnce) {
  ProcessWorld world;
  world.machine.refuses = Error{ErrorCode::kNotFound, "\"engin\" cannot be started: No such file"};
  world.start();
  const auto outcome = world.decide("small", 1);
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.message, HasSubstr("\"engin\" cannot be started"));
  world.machine.refuses.reset();
  world.run_for(seconds(10));
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
}

TEST(ProcessActuator, OneThatNeverBecomesWellIsEndedAndTriedAgain) {
  ProcessWorld world;
  world.config.variants[0].start_limit = seconds(60);
  world.machine.start_up = minutes(60);
  world.start();
  world.decide("small", 1);
  world.run_for(seconds(59));
  EXPECT_EQ(world.machine.alive(), 1u);
  world.run_for(seconds(2));
  ASSERT_EQ(world.count(ReplicaState::kFailed), 1);
  EXPECT_THAT(world.actuator->replicas().at(0).message, HasSubstr("not ready after 60 s"));
  EXPECT_THAT(world.actuator->replicas().at(0).message, HasSubstr("health check at"));
}

TEST(ProcessActuator, AGatewayThatRestartsIsToldAgain) {
  ProcessWorld world;
  world.start_with(2);
  world.gateway.stop();
  world.run_for(seconds(10));
  EXPECT_THAT(world.actuator->gateway_problem(), HasSubstr("10.0.0.2:9090"));
  world.gateway.start();
  world.run_for(seconds(4));
  EXPECT_EQ(world.gateway.backends.size(), 2u);
  EXPECT_EQ(world.actuator->gateway_problem(), "");
  EXPECT_EQ(world.machine.programs.size(), 2u);
}

TEST(ProcessActuator, AGatewayThatIsAwayIsToldOfTheEndLater) {
  ProcessWorld world;
  world.config.variants[0].drain_limit = seconds(10);
  world.start_with(1);
  const auto backends = world.gateway.backends;
  world.gateway.stop();
  world.decide("small", 0);
  world.run_for(seconds(30));
  EXPECT_EQ(world.machine.alive(), 0u) << "the drain has a limit";
  world.kill();
  world.start();
  world.gateway.start();
  world.gateway.backends = backends;
  world.run_for(seconds(5));
  EXPECT_THAT(world.gateway.backends, IsEmpty()) << "not even a restart forgets it";
}

TEST(ProcessActuator, ForeignBackendsAreLeftAlone) {
  ProcessWorld world;
  world.gateway.backends["gpu0"] = {"http://10.0.0.9:8000", "", 0, false};
  world.start_with(1);
  world.decide("small", 0);
  world.run_for(seconds(10));
  EXPECT_EQ(world.gateway.backends.size(), 1u);
  EXPECT_EQ(world.gateway.backends.count("gpu0"), 1u);
}

TEST(ProcessActuator, AnUninformedDecisionChangesNothing) {
  ProcessWorld world;
  world.start_with(2);
  world.decide("small", 0, false);
  world.run_for(seconds(10));
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
  EXPECT_EQ(world.actuator->target("small"), 2);
}

TEST(ProcessActuator, AMinimumThatWasRaisedHoldsWithoutMetricsToo) {
  ProcessWorld world;
  world.start_with(1);
  Order order = ProcessWorld::order_for("small");
  order.decision.current = order.decision.desired = 1;
  order.decision.apply("min", "1 raised to the minimum 3", 3);
  world.carry_out(order);
  world.run_for(seconds(6));
  EXPECT_EQ(world.count(ReplicaState::kReady), 3);
  EXPECT_EQ(world.actuator->target("small"), 3);
}

TEST(ProcessActuator, AFirstRequestStartsAProcessFromNone) {
  ProcessWorld world;
  world.start();
  Order order = ProcessWorld::order_for("small");
  order.decision.apply("scale to zero", "a request waits", 1);
  const auto outcome = world.carry_out(order);
  world.run_for(seconds(6));
  EXPECT_TRUE(outcome.done) << outcome.message;
  EXPECT_EQ(world.actuator->target("small"), 1);
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
}

TEST(ProcessActuator, ADecisionThatIsNotTheTargetIsNotDone) {
  ProcessWorld world;
  world.start();
  Order order = ProcessWorld::order_for("small");
  order.decision.current = order.decision.desired = 1;  // a hold, of a process that is leaving
  const auto outcome = world.carry_out(order);
  world.run_for(seconds(1));
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.message, HasSubstr("0 wanted"));
}

TEST(ProcessActuator, TheSameOrderTwiceDoesNoMoreThanOnce) {
  ProcessWorld world;
  world.start();
  world.decide("small", 2);
  world.decide("small", 2);
  EXPECT_EQ(world.machine.programs.size(), 2u);
  world.kill();
  world.start();
  world.decide("small", 2);
  EXPECT_EQ(world.machine.programs.size(), 2u);
}

TEST(ProcessActuator, OnlyWhatIsItsOwnIsDone) {
  ProcessWorld world;
  world.start();
  const auto outcome = world.decide("large", 2);
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.message, HasSubstr("no variant \"large\" of local/m"));
  EXPECT_EQ(world.machine.programs.size(), 0u);
}

TEST(ProcessActuator, AWrongNumberDoesNotFellTheMachine) {
  ProcessWorld world;
  world.config.replicas_max = 5;
  world.start();
  const auto outcome = world.decide("small", 1'000'000);
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.message, HasSubstr("replicas_max is 5"));
  world.run_for(seconds(10));
  EXPECT_EQ(world.machine.alive(), 5u);
}

TEST(ProcessActuator, ReplicasOfAVariantThatLeftTheConfigurationAreDrained) {
  ProcessWorld world;
  world.start_with(2);
  world.kill();
  world.config.variants[0].name = "other";
  world.start();
  world.run_for(seconds(15));
  EXPECT_EQ(world.machine.alive(), 0u);
  EXPECT_THAT(world.gateway.backends, IsEmpty());
}

TEST(ProcessActuator, TwoAutoscalersDoNotWorkInOneFolder) {
  ProcessWorld world;
  world.start();
  const auto second = world.make();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("another autoscaler works in"));
}

TEST(ProcessActuator, ADamagedRegistryIsRefusedRatherThanForgotten) {
  ProcessWorld world;
  std::ofstream(world.folder.file("replicas.json")) << R"({"version":1,"replicas":[3]})";
  const auto made = world.make();
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(made.error().message, HasSubstr("replicas.json"));
}

TEST(ProcessActuator, StopsEverythingWhereThatIsWantedAndRemembersHowManyThereWere) {
  ProcessWorld world;
  world.start_with(2);
  bool stopped = false;
  world.actuator->stop_all([&] { stopped = true; });
  world.run_for(seconds(10));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(world.machine.alive(), 0u);
  EXPECT_THAT(world.gateway.backends, IsEmpty());
  world.kill();
  world.start();
  world.run_for(seconds(6));
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
}

TEST(ProcessActuator, WithoutAGatewayReplicasComeAndGoAllTheSame) {
  ProcessWorld world;
  world.config.gateway.reset();
  world.start_with(1);
  EXPECT_EQ(world.count(ReplicaState::kReady), 1);
  world.decide("small", 0);
  world.run_for(seconds(2));
  EXPECT_EQ(world.machine.alive(), 0u);
  EXPECT_THAT(world.gateway.calls, IsEmpty());
}

TEST(ProcessActuator, APortThatTheGatewayStillKnowsIsNotGivenToAnother) {
  ProcessWorld world;
  world.config.port_last = 18002;
  world.config.replicas_max = 3;
  world.machine.lives_for = seconds(0);
  world.start_with(2);
  world.machine.start_up = minutes(60);
  world.machine.end(100, "exit status 1");
  world.run_for(seconds(4));
  world.decide("small", 3);
  world.run_for(seconds(4));
  // Three ports for three replicas: each has its own, and small-0 kept the one that it is known by.
  std::map<std::string, std::uint16_t> ports;
  for (const auto& replica : world.actuator->replicas()) {
    ports[replica.name] = replica.url.endpoint.port;
  }
  EXPECT_NE(ports.at("small-2"), 18000);
  EXPECT_NE(ports.at("small-2"), ports.at("small-1"));
}

TEST(ProcessActuator, WaitsForThePortsOfThoseThatLeave) {
  ProcessWorld world;
  world.config.variants[0].port_first = 19000;
  world.config.variants[0].port_last = 19001;
  world.machine.heeds_terminate = false;
  world.start_with(2);
  world.decide("small", 0);
  world.run_for(seconds(8));
  ASSERT_EQ(world.count(ReplicaState::kStopping), 2);
  world.decide("small", 2);
  world.run_for(seconds(1));
  EXPECT_EQ(world.machine.programs.size(), 2u);
  EXPECT_EQ(world.count(ReplicaState::kFailed), 0);
  world.run_for(seconds(30));
  EXPECT_EQ(world.count(ReplicaState::kReady), 2);
  for (const auto& replica : world.actuator->replicas()) {
    EXPECT_GE(replica.url.endpoint.port, 19000);
    EXPECT_LE(replica.url.endpoint.port, 19001);
  }
}

TEST(ProcessConfig, NamesWhatIsWrongAndTheRemedy) {
  ProcessWorld world;
  const auto message = [&](const auto& change) {
    auto config = world.config;
    change(config);
    const auto ok = config.check();
    return ok ? std::string("fine") : ok.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "fine");
  EXPECT_THAT(message([](auto& c) { c.variants[0].command = {"engine"}; }), HasSubstr("no {port}"));
  EXPECT_THAT(
      message([](auto& c) { c.variants[0].command = {"engine", "{prot}"}; }),
      HasSubstr("{prot} stands for nothing here; use {host} {index} {model} {name} {port}"));
  EXPECT_THAT(message([](auto& c) { c.variants[0].name = "a b"; }), HasSubstr("\"a b\": name"));
  EXPECT_THAT(message([](auto& c) { c.variants.push_back(c.variants[0]); }),
              HasSubstr("two variants are named"));
  EXPECT_THAT(message([](auto& c) { c.variants[0].slots = 0; }), HasSubstr("slots is 0"));
  EXPECT_THAT(message([](auto& c) { c.port_last = 1; }), HasSubstr("are no range"));
  EXPECT_THAT(message([](auto& c) { c.replicas_max = 0; }), HasSubstr("replicas_max is 0"));
}

TEST(ProcessConfig, ComesFromTheAutoscalersFile) {
  const auto file = parse_config(R"(
database: /var/lib/tailrace/autoscaler.db
processes:
  gateway: http://127.0.0.1:9090
  token_env: GATEWAY_TOKEN
variants:
  small:
    model: m
    command: [engine, --port, "{port}"]
    env: ["CUDA_VISIBLE_DEVICES=0", "A=b=c"]
    first_port: 8100
    min: 1
    max: 4
    slots: 8
    drain_limit: 7s
)",
                                 "autoscaler.yaml");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto config = process_actuator_config(*file);
  ASSERT_TRUE(config.check().has_value());
  EXPECT_EQ(config.folder, "/var/lib/tailrace/tailrace-replicas");
  EXPECT_THAT(config.hidden, ElementsAre("GATEWAY_TOKEN"));
  ASSERT_EQ(config.variants.size(), 1u);
  const auto& variant = config.variants[0];
  EXPECT_EQ(variant.environment.at("A"), "b=c");
  EXPECT_EQ(variant.initial, 1);
  EXPECT_EQ(variant.port_first, 8100);
  EXPECT_EQ(variant.port_last, 8103);
  EXPECT_EQ(variant.drain_limit, seconds(7));
  EXPECT_EQ(config.replicas_max, 4);
}

}  // namespace
}  // namespace tailrace::autoscaler
