#include "tailrace/autoscaler/control_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autoscaler/condition_log.h"
#include "autoscaler/recovery.h"
#include "tailrace/core/field.h"
#include "tailrace/core/log.h"

namespace tailrace::autoscaler {
namespace {

/// The first pause after a cycle that could not decide; it doubles up to the interval.
constexpr Duration kFirstPause = std::chrono::seconds(1);
/// Between two looks at what the first cycle waits for.
constexpr Duration kLook = std::chrono::milliseconds(50);
/// For settings that are on their way; longer than a request and its repetitions take.
constexpr Duration kSettingsWait = std::chrono::seconds(16);
/// Without a cycle for so many intervals the loop is not healthy.
constexpr int kIntervalsMissed = 4;

bool moves(const Order& order) {
  return order.decision.action != capacity::Action::kHold;
}

}  // namespace

struct ControlLoop::Impl : std::enable_shared_from_this<ControlLoop::Impl> {
  Impl(LoopConfig c, LoopParts p)
      : config(std::move(c)),
        parts(std::move(p)),
        brain(capacity::StabilisationConfig{}),
        recovery(parts.journal, parts.decision_log) {}

  LoopConfig config;
  LoopParts parts;
  Brain brain;
  Recovery recovery;
  ConditionLog conditions;
  std::function<void(const CycleReport&)> on_report;
  UniqueFunction<void(const CycleReport&)> once;
  UniqueFunction<void()> on_stopped;

  enum class Phase { kIdle, kCollect, kApply, kSave };
  Phase phase = Phase::kIdle;
  bool begun = false, stopping = false, stopped = false;
  bool restored = false;  ///< what was learnt before has been read; nothing is saved over it sooner
  std::uint64_t turn = 0;  ///< of cycles; answers of another turn are late
  std::unique_ptr<net::Timer> next, watch;
  MonoTime began_at{}, phase_at{}, saved_at{}, due_at{};
  int failures = 0;
  CycleReport report, last;
  bool have_last = false;
  std::size_t waiting_for = 0;
  std::map<const Actuator*, std::uint64_t> busy;  ///< in which turn they were asked
  std::vector<OpenOrder> open;                    ///< of this cycle
  std::vector<Trouble> startup_troubles;

  // --- life ---
  void begin();
  bool awaited(Duration waited) const;
  void await();
  void stop();
  void finish();
  void save_state(bool now, UniqueFunction<void()> then);

  // --- a cycle ---
  void cycle();
  void restore();
  void loaded(const Result<std::optional<std::string>>& state);
  void collect();
  void read_settings();
  void collected(Snapshot snapshot);
  void think(const Snapshot& snapshot);
  void write_down();
  void apply();
  void applied(Actuator& actuator, std::uint64_t of_turn, const std::vector<Outcome>& outcomes);
  void overdue();
  void record();
  void cycle_done();
  void say_conditions();

  capacity::Writer writer() const;
  bool leads() const { return parts.elector == nullptr || parts.elector->now().leads; }
  void trouble(std::string subject, std::string message);
};

void ControlLoop::Impl::trouble(std::string subject, std::string message) {
  log::warn("trouble", {{"subject", subject}, {"message", message}});
  report.troubles.push_back({std::move(subject), std::move(message)});
}

capacity::Writer ControlLoop::Impl::writer() const {
  if (parts.elector == nullptr) return {config.identity, config.generation};
  return {config.identity, parts.elector->now().generation};
}

void ControlLoop::Impl::begin() {
  if (begun) return;
  begun = true;
  began_at = saved_at = due_at = parts.loop->now();
  if (parts.journal != nullptr) {
    if (const auto last_cycle = parts.journal->last_cycle()) {
      brain.count_from(*last_cycle);
    } else {
      startup_troubles.push_back({"journal", last_cycle.error().message});
    }
  }
  await();
}

/// Without settings the first cycle would hold everything, and a single one that does not lead is
/// without effect.
bool ControlLoop::Impl::awaited(Duration waited) const {
  const bool settings = parts.settings == nullptr || parts.settings->known();
  const bool lead = !once || leads();
  return (settings || waited >= kSettingsWait) && (lead || waited >= config.lead_wait);
}

void ControlLoop::Impl::await() {
  const MonoTime now = parts.loop->now();
  due_at = saved_at = now;
  if (awaited(now - began_at)) return cycle();
  if (once && !leads() && now == began_at) {
    log::info("awaits_lease", {{"at_most_seconds", to_seconds(config.lead_wait)}});
  }
  next = parts.loop->after(kLook, [this] { await(); });
}

void ControlLoop::Impl::cycle() {
  if (stopping) return;
  ++turn;
  const MonoTime now = parts.loop->now();
  report = CycleReport{};
  report.troubles = std::exchange(startup_troubles, {});
  report.dry_run = config.dry_run;
  if (const Duration late = now - due_at; late > config.interval / 2) {
    trouble("schedule", fmt::format("this cycle begins {:.1f} s late, because the one before took "
                                    "longer than the interval of {}",
                                    to_seconds(late), core::print_duration(config.interval)));
  }
  began_at = now;
  if (parts.state == nullptr || restored) return collect();
  restore();
}

/// Before the first cycle, and again before each one while the store does not answer.
void ControlLoop::Impl::restore() {
  phase = Phase::kSave;
  parts.state->load([self = shared_from_this()](const Result<std::optional<std::string>>& state) {
    self->loaded(state);
  });
}

void ControlLoop::Impl::loaded(const Result<std::optional<std::string>>& state) {
  phase = Phase::kIdle;
  restored = state.has_value();
  if (!state) {
    trouble("state", state.error().message + "; it is read again before the next cycle");
  } else if (*state) {
    if (const auto read = brain.restore(**state); !read) {
      trouble("state", read.error().message + "; learning starts afresh");
    }
  }
  if (stopping) return finish();
  collect();
}

void ControlLoop::Impl::collect() {
  phase_at = parts.loop->now();
  phase = Phase::kCollect;
  read_settings();
  watch = parts.loop->after(config.interval, [this] {
    log::warn("collect_slow", {{"seconds", to_seconds(parts.loop->now() - phase_at)}});
  });
  parts.collector->collect(parts.calendar->unix_s(),
                           [self = shared_from_this(), of_turn = turn](Snapshot snapshot) {
                             if (self->turn != of_turn || self->phase != Phase::kCollect) return;
                             self->collected(std::move(snapshot));
                           });
}

void ControlLoop::Impl::read_settings() {
  if (parts.settings == nullptr) return;
  const Settings& now = parts.settings->read();
  for (const auto& problem : now.problems) {
    trouble("settings " + problem.entry, problem.message);
  }
  if (!now.condition.empty()) trouble("settings", now.condition);
  capacity::CycleConfig cycle;
  cycle.models = now.config;
  cycle.optimizer = now.config.fleet().optimizer;
  cycle.total_gpus = now.config.fleet().total;
  cycle.limit_to_nodes = now.config.fleet().limit_to_nodes;
  cycle.writer = writer();
  brain.configure(std::move(cycle));
  const auto& windows = now.config.fleet().stabilisation;
  brain.stabilise(windows ? *windows : capacity::StabilisationConfig{});
}

void ControlLoop::Impl::collected(Snapshot snapshot) {
  watch.reset();
  if (stopping) return finish();
  const MonoTime now = parts.loop->now();
  report.collect_s = to_seconds(now - phase_at);
  if (now - phase_at > config.interval) {
    trouble("collector", fmt::format("collecting took {:.1f} s, longer than the interval of {}",
                                     report.collect_s, core::print_duration(config.interval)));
  }
  phase_at = now;
  report.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  think(*report.snapshot);
  report.think_s = to_seconds(parts.loop->now() - phase_at);
  report.leads = leads();
  report.leader = parts.elector == nullptr ? config.identity : parts.elector->now().holder;
  phase = Phase::kApply;
  phase_at = parts.loop->now();
  if (!report.leads || config.dry_run) return record();
  for (auto& closed : recovery.reconcile(*report.snapshot, report.record, writer())) {
    trouble("journal", std::move(closed));
  }
  write_down();
  apply();
}

void ControlLoop::Impl::think(const Snapshot& snapshot) {
  report.record = brain.think(snapshot);
  if (report.record.blind) trouble("blind", *report.record.blind);
  // The lease may have gone while this cycle was collecting.
  const capacity::Writer holder = writer();
  auto& said = report.record.result.decisions;  // one for each order
  for (std::size_t i = 0; i < report.record.orders.size(); ++i) {
    auto& d = report.record.orders[i].decision;
    if (d.writer == holder) continue;
    const auto current = d.current, pending = d.pending;
    d = capacity::reconcile(std::move(d), holder, current, pending);
    if (i < said.size()) said[i] = d;
  }
}

void ControlLoop::Impl::write_down() {
  open.clear();
  if (parts.journal == nullptr) return;
  if (const auto there = parts.journal->in_place(); !there) {
    trouble("journal", there.error().message);
  }
  const auto lines = decision_lines(report);
  for (std::size_t i = 0; i < report.record.orders.size() && i < lines.size(); ++i) {
    if (!moves(report.record.orders[i])) continue;
    open.push_back({report.record.orders[i], report.record.cycle, report.record.time_s, lines[i]});
  }
  if (const auto begun_orders = parts.journal->begin(open); !begun_orders) {
    // Orders name replicas, not differences: carried out twice they do no more than once.
    trouble("journal", begun_orders.error().message + "; orders are carried out all the same");
    open.clear();
  }
}

void ControlLoop::Impl::apply() {
  const auto& orders = report.record.orders;
  if (orders.empty() || parts.actuators.empty()) return record();
  for (const Order& order : orders) report.results[order.id];
  waiting_for = parts.actuators.size();
  watch = parts.loop->after(config.apply_timeout, [this] { overdue(); });
  const auto self = shared_from_this();
  for (Actuator* actuator : parts.actuators) {
    const auto still = busy.find(actuator);
    if (still != busy.end()) {
      std::vector<Outcome> refused;
      refused.reserve(orders.size());
      for (const Order& order : orders) {
        refused.push_back({order.id, false, "still at work on an earlier cycle"});
      }
      parts.loop->post([self, actuator, refused = std::move(refused), of_turn = turn] {
        self->applied(*actuator, of_turn, refused);
      });
      continue;
    }
    busy[actuator] = turn;
    actuator->apply(orders, [self, actuator, of_turn = turn](const std::vector<Outcome>& outcomes) {
      self->busy.erase(actuator);
      self->applied(*actuator, of_turn, outcomes);
    });
  }
}

void ControlLoop::Impl::applied(Actuator& actuator, std::uint64_t of_turn,
                                const std::vector<Outcome>& outcomes) {
  if (of_turn != turn || phase != Phase::kApply || waiting_for == 0) return;  // too late
  const std::string name(actuator.name());
  for (const Outcome& outcome : outcomes) {
    const auto found = report.results.find(outcome.id);
    if (found != report.results.end()) found->second.by_actuator[name] = outcome;
  }
  for (auto& [id, result] : report.results) {
    result.by_actuator.try_emplace(name, Outcome{id, false, "gave no answer about this order"});
  }
  if (--waiting_for == 0) record();
}

void ControlLoop::Impl::overdue() {
  for (const auto& [actuator, of_turn] : busy) {
    if (of_turn != turn) continue;
    const std::string name(actuator->name());
    trouble(name, fmt::format("no answer within {}; the next cycle decides from what is there",
                              core::print_duration(config.apply_timeout)));
    for (auto& [id, result] : report.results) {
      result.by_actuator.try_emplace(name, Outcome{id, false, "no answer in time"});
    }
  }
  waiting_for = 0;
  record();
}

void ControlLoop::Impl::record() {
  watch.reset();
  phase = Phase::kSave;
  const MonoTime now = parts.loop->now();
  report.apply_s = to_seconds(now - phase_at);
  bool changed = false;
  for (auto& [id, result] : report.results) {
    result.done = std::all_of(result.by_actuator.begin(), result.by_actuator.end(),
                              [](const auto& by) { return by.second.done; });
    changed = changed || !result.by_actuator.empty();
  }
  if (!config.dry_run && report.leads) {
    const auto lines = decision_lines(report);
    for (auto& failure : recovery.close(report.record.orders, open, lines)) {
      trouble("records", std::move(failure));
    }
    if (parts.history != nullptr) {
      const auto kept =
          parts.history->add({report.record.cycle, report.record.time_s, report_json(report)},
                             report.record.time_s - to_seconds(config.history_keep));
      if (!kept) trouble("history", kept.error().message);
    }
  }
  save_state(!open.empty(), [self = shared_from_this()] { self->cycle_done(); });
}

void ControlLoop::Impl::save_state(bool now, UniqueFunction<void()> then) {
  const bool due = now || parts.loop->now() - saved_at >= config.state_every;
  if (parts.state == nullptr || config.dry_run || !restored || !due || !leads()) return then();
  saved_at = parts.loop->now();
  parts.state->save(
      brain.save(parts.calendar->unix_s()),
      [self = shared_from_this(), then = std::move(then)](const Result<void>& saved) mutable {
        if (!saved) self->trouble("state", saved.error().message);
        then();
      });
}

void ControlLoop::Impl::cycle_done() {
  phase = Phase::kIdle;
  failures = report.failed() ? failures + 1 : 0;
  last = std::move(report);
  report = CycleReport{};
  have_last = true;
  log::info("cycle", {{"cycle", last.record.cycle},
                      {"leads", last.leads},
                      {"variants", static_cast<std::uint64_t>(last.record.orders.size())},
                      {"moved", static_cast<std::uint64_t>(open.size())},
                      {"conditions", static_cast<std::uint64_t>(last.record.conditions.size())},
                      {"undecided", last.undecided()},
                      {"orders_failed", last.orders_failed()},
                      {"seconds", to_seconds(parts.loop->now() - began_at)}});
  say_conditions();
  if (on_report) on_report(last);
  if (once) {
    auto done = std::exchange(once, nullptr);
    done(last);
    if (stopping) finish();  // told to end while orders were under way
    return;
  }
  if (stopping) return finish();
  Duration pause = std::max(Duration{0}, began_at + config.interval - parts.loop->now());
  const bool late = parts.loop->now() - began_at > config.interval;
  if (last.record.blind && failures > 0) {
    const Duration grown = kFirstPause * (1LL << std::min(failures - 1, 20));
    pause = std::min(config.interval, grown);
  }
  due_at = late ? began_at + config.interval : parts.loop->now() + pause;
  next = parts.loop->after(pause, [this] { cycle(); });
}

void ControlLoop::Impl::say_conditions() {
  for (const auto& change : conditions.changes(last.record.conditions)) {
    if (change.gone) {
      log::info("condition_gone", {{"kind", change.kind}, {"subject", change.subject}});
    } else {
      log::warn("condition",
                {{"kind", change.kind}, {"subject", change.subject}, {"message", change.message}});
    }
  }
}

void ControlLoop::Impl::stop() {
  if (stopping) return;
  stopping = true;
  next.reset();
  if (phase == Phase::kCollect) {
    ++turn;  // its answer is of no interest any more
    watch.reset();
    phase = Phase::kIdle;
  }
  if (phase == Phase::kIdle) finish();
}

void ControlLoop::Impl::finish() {
  if (stopped) return;
  stopped = true;
  const auto self = shared_from_this();
  save_state(have_last, [self] {
    const auto end = [self] {
      if (self->on_stopped) std::exchange(self->on_stopped, nullptr)();
    };
    if (self->parts.elector == nullptr) return end();
    self->parts.elector->release(end);
  });
}

ControlLoop::ControlLoop(LoopConfig config, LoopParts parts)
    : impl_(std::make_shared<Impl>(std::move(config), std::move(parts))) {}

ControlLoop::~ControlLoop() {
  // Whoever still answers finds nobody: a turn that never was.
  impl_->stopping = impl_->stopped = true;
  impl_->turn = 0;
  impl_->next.reset();
  impl_->watch.reset();
  impl_->once = nullptr;
  impl_->on_stopped = nullptr;
  impl_->on_report = nullptr;
}

void ControlLoop::start(std::function<void(const CycleReport&)> on_report) {
  impl_->on_report = std::move(on_report);
  impl_->begin();
}

void ControlLoop::run_once(UniqueFunction<void(const CycleReport&)> done) {
  impl_->once = std::move(done);
  impl_->begin();
}

void ControlLoop::stop(UniqueFunction<void()> done) {
  impl_->on_stopped = std::move(done);
  impl_->stop();
}

const CycleReport* ControlLoop::latest() const {
  return impl_->have_last ? &impl_->last : nullptr;
}

std::string ControlLoop::unhealthy() const {
  const Duration since = impl_->parts.loop->now() - impl_->began_at;
  const Duration most =
      std::max<Duration>(std::chrono::seconds(30), impl_->config.interval * kIntervalsMissed);
  if (!impl_->begun || since <= most) return "";
  return fmt::format("the last cycle began {:.0f} s ago", to_seconds(since));
}

}  // namespace tailrace::autoscaler
