// A small world for the control loop: pods that report by a true model, actuators that obey late,
// partly or never, settings as a text.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/autoscaler/control_loop.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::autoscaler::testing {

inline constexpr double kStartS = 1.7e9;

/// Follows the loop's virtual time.
class SimCalendar final : public Calendar {
 public:
  explicit SimCalendar(const net::SimLoop& loop) : loop_(loop) {}
  double unix_s() const override {
    return kStartS + skew_s + static_cast<double>(loop_.now().time_since_epoch().count()) / 1e9;
  }
  double skew_s = 0;

 private:
  const net::SimLoop& loop_;
};

class FakeSettings final : public SettingsSource {
 public:
  explicit FakeSettings(std::string yaml);
  const Settings& read() override { return settings_; }
  std::string_view origin() const override { return "test"; }
  void set(const std::string& yaml);
  Settings& settings() { return settings_; }

 private:
  Settings settings_;
};

/// One model with one variant whose replicas serve as soon as they are there.
struct Fleet {
  capacity::ModelKey key{"prod", "llama"};
  std::string variant = "h100";
  std::int64_t replicas = 2, pending = 0;
  double rate_per_s = 40;
  int cycles = 0;
  /// Changes what a collection would say: holes, lies, silence.
  std::function<void(Snapshot&)> spoil;

  Snapshot snapshot(double now_s);
};

class FakeCollector final : public Collector {
 public:
  FakeCollector(net::SimLoop& loop, Fleet& fleet) : loop_(loop), fleet_(fleet) {}
  void collect(double now_s, UniqueFunction<void(Snapshot)> done) override;

  Duration takes = std::chrono::milliseconds(20);
  bool never = false;
  int calls = 0;
  bool under_way = false;

 private:
  net::SimLoop& loop_;
  Fleet& fleet_;
};

/// Sets the fleet's replicas, after a while.
class FakeActuator final : public Actuator {
 public:
  FakeActuator(net::SimLoop& loop, Fleet& fleet, std::string name = "fake")
      : loop_(loop), fleet_(fleet), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  void apply(std::vector<Order> orders, UniqueFunction<void(std::vector<Outcome>)> done) override;

  Duration takes = std::chrono::milliseconds(10);
  bool never = false, refuses = false;
  int calls = 0;
  std::vector<std::int64_t> desired;  ///< one for each call
  std::vector<std::string> moved;     ///< ids of orders that were not holds

 private:
  net::SimLoop& loop_;
  Fleet& fleet_;
  std::string name_;
};

class FakeStateStore final : public StateStore {
 public:
  void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) override {
    ++loads;
    if (unread) return done(fail(*unread));
    done(document);
  }
  void save(std::string text, UniqueFunction<void(Result<void>)> done) override {
    ++saves;
    document = std::move(text);
    done({});
  }
  std::optional<std::string> document;
  std::optional<Error> unread;  ///< what a load answers instead
  int loads = 0, saves = 0;
};

class FakeElector final : public kubernetes::LeaderElector {
 public:
  const kubernetes::Leadership& now() const override { return leadership; }
  void release(UniqueFunction<void()> done) override {
    released = true;
    leadership.leads = false;
    done();
  }
  kubernetes::Leadership leadership;
  bool released = false;
};

}  // namespace tailrace::autoscaler::testing
