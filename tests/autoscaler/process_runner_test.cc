#include "tailrace/autoscaler/process_runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "autoscaler/process_log.h"
#include "autoscaler/support/process_world.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <class Condition>
bool comes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

struct RealMachine : ::testing::Test {
  TempFolder folder;
  std::unique_ptr<ProcessRunner> runner = make_process_runner();
  std::string log = folder.file("log");

  ProcessSpec shell(const std::string& script) const {
    ProcessSpec spec;
    spec.argv = {"sh", "-c", script};
    spec.log_path = log;
    return spec;
  }
  std::string printed() const { return core::read_file(log, 1 << 20).value_or(""); }
  ProcessLook end_of(const ProcessId& id) {
    ProcessLook look;
    EXPECT_TRUE(comes_true([&] { return !(look = runner->look(id)).alive; }));
    return look;
  }
};

TEST_F(RealMachine, AProcessWritesItsLogAndItsEndIsTold) {
  const auto id = runner->start(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(end_of(*id).end, "exit status 3");
  EXPECT_EQ(printed(), "out\nerr\n");
  EXPECT_FALSE(runner->look(*id).alive) << "asked again";
}

TEST_F(RealMachine, ASignalReachesTheWholeGroup) {
  const auto id = runner->start(shell("sleep 1000 & echo $!; wait"));
  ASSERT_TRUE(id.has_value());
  ASSERT_TRUE(comes_true([&] { return printed().ends_with('\n'); }));
  const auto child = core::parse_int(core::trim(printed()));
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(runner->look(*id).alive);
  runner->signal(*id, SIGTERM);
  EXPECT_THAT(end_of(*id).end, HasSubstr("signal 15"));
  EXPECT_TRUE(comes_true([&] {
    const auto stat = core::read_file("/proc/" + std::to_string(*child) + "/stat", 4096);
    return !stat || stat->find(") Z") != std::string::npos;
  }));
}

TEST_F(RealMachine, WhatIsLeftOfAGroupEndsWithItsLeader) {
  const auto id = runner->start(shell("sleep 1000 & echo $!; exit 0"));
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(end_of(*id).end, "exit status 0");
  const auto child = core::parse_int(core::trim(printed()));
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(comes_true([&] {
    const auto stat = core::read_file("/proc/" + std::to_string(*child) + "/stat", 4096);
    return !stat || stat->find(") Z") != std::string::npos;
  }));
}

// An engine's workers may have made themselves sessions of their own, and hold its GPUs.
TEST_F(RealMachine, WhatLeftTheGroupEndsAfterItsLeaderAndNobodyElseDoes) {
  const auto marked = [&](const std::string& script) {
    auto spec = shell(script);
    spec.environment = {{"TAILRACE_REPLICA", folder.file("a")}};
    return spec;
  };
  const auto pids = [&] {
    std::vector<int> all;
    const std::string text = printed();
    for (const auto line : core::split(core::trim(text), '\n')) {
      all.push_back(static_cast<int>(core::parse_int(line).value_or(0)));
    }
    return all;
  };
  const auto lives = [](int pid) {
    const auto stat = core::read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
    return stat && stat->find(") Z") == std::string::npos;
  };
  const auto id = runner->start(marked(
      "setsid sh -c 'sleep 1000 & echo $!; echo $$; wait' & "
      "env -u TAILRACE_REPLICA setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.3; exit 0"));
  ASSERT_TRUE(id.has_value());
  ASSERT_TRUE(comes_true([&] { return pids().size() == 3; })) << printed();
  const auto shell_beside = runner->start(marked("exec sleep 1000"));
  EXPECT_EQ(end_of(*id).end, "exit status 0");
  for (const int pid : pids()) EXPECT_TRUE(lives(pid)) << pid;
  runner->end_left("TAILRACE_REPLICA", folder.file("b"), *id);
  for (const int pid : pids()) EXPECT_TRUE(lives(pid)) << "another replica's are not its";
  auto later = *id;
  later.started += 1'000'000;
  runner->end_left("TAILRACE_REPLICA", folder.file("a"), later);
  for (const int pid : pids()) EXPECT_TRUE(lives(pid)) << "older than the one that ended";
  runner->end_left("TAILRACE_REPLICA", folder.file("a"), *id);
  int left = 0;
  for (const int pid : pids()) {
    const auto block = core::read_file("/proc/" + std::to_string(pid) + "/environ", 1 << 20);
    const bool has_mark = block && block->find("TAILRACE_REPLICA=") != std::string::npos;
    if (lives(pid) && !has_mark) {
      ++left;
      ::kill(pid, SIGKILL);
      continue;
    }
    EXPECT_TRUE(comes_true([&] { return !lives(pid); })) << pid;
  }
  EXPECT_EQ(left, 1) << "what cannot be told to be its child stays";
  ASSERT_TRUE(shell_beside.has_value());
  EXPECT_TRUE(runner->look(*shell_beside).alive) << "its parent lives";
  runner->signal(*shell_beside, SIGKILL);
  end_of(*shell_beside);
}

TEST_F(RealMachine, ANewRunnerFindsWhatAnOldOneStartedAndKnowsWhenItEnds) {
  auto spec = shell("exec sleep 1000");
  spec.environment = {{"TAILRACE_REPLICA", folder.file("a")}};
  const auto id = runner->start(spec);
  ASSERT_TRUE(id.has_value());
  const auto later = make_process_runner();
  ASSERT_TRUE(comes_true(
      [&] { return later->find("TAILRACE_REPLICA", folder.file("a")) == std::optional(*id); }));
  EXPECT_FALSE(later->find("TAILRACE_REPLICA", folder.file("b")).has_value());
  EXPECT_TRUE(later->look(*id).alive);
  auto other = *id;
  other.started += 1;
  EXPECT_FALSE(later->look(other).alive) << "the same number, another process";
  later->signal(other, SIGKILL);
  EXPECT_TRUE(later->look(*id).alive);
  later->signal(*id, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !later->look(*id).alive; }));
  end_of(*id);
  EXPECT_FALSE(later->find("TAILRACE_REPLICA", folder.file("a")).has_value());
}

TEST_F(RealMachine, AProgramThatIsNotThereIsNamed) {
  ProcessSpec spec;
  spec.argv = {"tailrace-no-such-program"};
  spec.log_path = log;
  const auto id = runner->start(spec);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(id.error().message, HasSubstr("\"tailrace-no-such-program\" cannot be started"));
}

TEST_F(RealMachine, InheritsNoDescriptorNoBlockedSignalAndNoToken) {
  const int open = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open, 3);
  ::setenv("TAILRACE_TEST_TOKEN", "secret", 1);
  auto spec = shell("ls /proc/self/fd | tr '\\n' ' '; env; grep SigBlk /proc/self/status; pwd");
  spec.hidden = {"TAILRACE_TEST_TOKEN"};
  spec.environment = {{"GREETING", "hello"}};
  spec.folder = "/";
  const auto id = runner->start(spec);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(end_of(*id).end, "exit status 0");
  ::unsetenv("TAILRACE_TEST_TOKEN");
  ::close(open);
  EXPECT_THAT(printed(), ::testing::StartsWith("0 1 2 3 ")) << "3 is ls's own";
  EXPECT_THAT(printed(), Not(HasSubstr("secret")));
  EXPECT_THAT(printed(), HasSubstr("GREETING=hello\n"));
  EXPECT_THAT(printed(), HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(printed(), ::testing::EndsWith("\n/\n"));
}

TEST_F(RealMachine, KnowsWhetherAPortIsTaken) {
  auto loop = net::make_event_loop();
  auto network = net::make_socket_network(*loop);
  auto listener = network->listen({"127.0.0.1", 0, false}, [](std::unique_ptr<net::Stream>) {});
  ASSERT_TRUE(listener.has_value());
  const std::uint16_t port = (*listener)->local().port;
  EXPECT_FALSE(runner->port_is_free("127.0.0.1", port));
  listener->reset();
  EXPECT_TRUE(runner->port_is_free("127.0.0.1", port));
}

TEST_F(RealMachine, ALogStaysBoundedWhileItIsWritten) {
  const auto id =
      runner->start(shell("while :; do echo 0123456789012345678901234567890123456789; done"));
  ASSERT_TRUE(id.has_value());
  ASSERT_TRUE(comes_true([&] { return std::filesystem::file_size(log) > 200'000; }));
  trim_log(log, 100'000);
  EXPECT_EQ(std::filesystem::file_size(log + ".1"), 50'000u);
  EXPECT_TRUE(comes_true([&] { return std::filesystem::file_size(log) > 100; }));
  runner->signal(*id, SIGKILL);
  end_of(*id);
}

TEST_F(RealMachine, TheLastLineOfALogIsSafeToPrint) {
  EXPECT_EQ(last_line(log), "");
  std::ofstream(log) << "first\nout of \x1b[31mmemory  \n\n";
  EXPECT_EQ(last_line(log), "out of \\x1b[31mmemory");
  trim_log(log, 1 << 20);
  EXPECT_FALSE(std::filesystem::exists(log + ".1"));
}

}  // namespace
}  // namespace tailrace::autoscaler
