#include "tailrace/simulate/workload.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "simulate/arrivals.h"
#include "simulate/field_check.h"
#include "simulate/prefix_words.h"
#include "simulate/servegen_workload.h"
#include "simulate/token_draws.h"
#include "simulate/trace_workload.h"

namespace tailrace::simulate {
namespace {

// MonoTime ends 9.2e9 s after its start.
constexpr MonoTime kLastArrival{std::chrono::seconds(9'000'000'000)};
constexpr double kOpenSessionsMax = 1e7;
constexpr std::size_t kClassesMax = 10'000;

/// Ends another stream after so many requests or seconds.
class Limited final : public Workload {
 public:
  Limited(std::unique_ptr<Workload> inner, const ArrivalSpec& limits)
      : inner_(std::move(inner)), left_(limits.count) {
    if (limits.duration_s) end_ = MonoTime{from_seconds(*limits.duration_s)};
  }

  Result<bool> next(Request& out) override {
    if (left_ && *left_ == 0) return false;
    auto more = inner_->next(out);
    if (!more) return fail(more.error());
    if (!*more || (end_ && out.arrival >= *end_)) return false;
    if (out.arrival > kLastArrival) {
      return fail(ErrorCode::kInvalidArgument,
                  "requests come after 9e9 s, where simulated time ends; give a higher rate or "
                  "speed, or arrivals.duration_s");
    }
    if (left_) --*left_;
    return true;
  }
  std::uint64_t dropped() const override { return inner_->dropped(); }
  std::uint64_t cut_sessions() const override { return inner_->cut_sessions(); }

 private:
  std::unique_ptr<Workload> inner_;
  std::optional<std::uint64_t> left_;
  std::optional<MonoTime> end_;
};

/// What every class says, the workload's where it says nothing; and who is of which.
class Classes {
 public:
  Classes(const WorkloadSpec& spec, const Rng& rng)
      : choice_(rng.fork("classes")), lengths_(rng.fork("lengths")), prompts_(rng.fork("prompts")) {
    for (const ClassSpec& given : spec.classes) add(given, spec);
    if (spec.classes.empty()) add(ClassSpec{}, spec);
  }

  std::size_t draw() {
    if (all_.size() == 1) return 0;
    const double at = choice_.uniform() * ends_.back();
    const auto it = std::upper_bound(ends_.begin(), ends_.end() - 1, at);
    return static_cast<std::size_t>(it - ends_.begin());
  }

  /// All of `out` but id, session, prefix and what `prompt` is part of.
  void fill(std::size_t which, double arrival_s, Request& out) {
    const Class& c = all_[which];
    out.arrival = MonoTime{from_seconds(arrival_s)};
    out.tenant = c.spec.tenant;
    out.priority = c.spec.priority;
    out.weight = c.spec.weight;
    out.deadline.reset();
    if (c.spec.deadline_s) out.deadline = out.arrival + from_seconds(*c.spec.deadline_s);
    out.prompt = draw_prompt(c.prompts, prompts_);
    draw_length(c.lengths, lengths_, out);
  }

 private:
  struct Class {
    ClassSpec spec;
    LengthSpec lengths;
    PromptSpec prompts;
  };

  void add(const ClassSpec& given, const WorkloadSpec& spec) {
    all_.push_back(
        {given, given.lengths.value_or(spec.lengths), given.prompts.value_or(spec.prompts)});
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + given.share);
  }

  std::vector<Class> all_;
  std::vector<double> ends_;  ///< sums of the shares
  Rng choice_, lengths_, prompts_;
};

/// Every request stands alone.
class Single final : public Workload {
 public:
  Single(const WorkloadSpec& spec, const Rng& rng)
      : arrivals_(spec.arrivals, rng.fork("arrivals")), classes_(spec, rng) {}

  Result<bool> next(Request& out) override {
    classes_.fill(classes_.draw(), arrivals_.next_s(), out);
    out.id = made_++;
    out.session = 0;
    out.prefix.ids.clear();
    return true;
  }

 private:
  ArrivalProcess arrivals_;
  Classes classes_;
  std::uint64_t made_ = 0;
};

class Sessions final : public Workload {
 public:
  Sessions(const WorkloadSpec& spec, const Rng& rng)
      : spec_(*spec.sessions),
        arrivals_(spec.arrivals, rng.fork("arrivals")),
        turns_(rng.fork("sessions")),
        classes_(spec, rng),
        words_(rng.fork("prefixes").next_u64()) {
    begin_next_session();
  }

  Result<bool> next(Request& out) override {
    for (;;) {
      const Turn turn = turns_to_come_.top();
      turns_to_come_.pop();
      if (turn.is_first) begin_next_session();
      classes_.fill(turn.of_class, turn.at_s, out);
      out.prompt = Tokens(turn.history) + out.prompt;
      if (turn.is_first) {
        out.prompt = std::min(out.prompt, Tokens(spec_.context) - out.cap);
      } else if (out.prompt + out.cap > Tokens(spec_.context)) {
        ++cut_;
        continue;
      }
      out.id = made_++;
      out.session = turn.session;
      const std::int64_t conversation = (out.prompt + out.output).count();
      name_tokens(turn, conversation, out.prefix);
      plan_next_turn(turn, conversation, out.output);
      return true;
    }
  }
  std::uint64_t cut_sessions() const override { return cut_; }

 private:
  struct Turn {
    double at_s = 0;
    std::uint64_t session = 0;
    std::size_t of_class = 0;
    std::int64_t history = 0;  ///< tokens of the conversation before this turn's message
    bool is_first = true;

    /// Of a heap whose top is the earliest; ties fall to the older session.
    bool operator<(const Turn& other) const {
      return std::pair(at_s, session) > std::pair(other.at_s, other.session);
    }
  };

  /// There is always one session that has not begun, so that turns come in order.
  void begin_next_session() {
    Turn turn;
    turn.at_s = arrivals_.next_s();
    turn.session = ++sessions_;
    turn.of_class = classes_.draw();
    turn.history = spec_.system_tokens;
    turns_to_come_.push(turn);
  }

  void plan_next_turn(const Turn& turn, std::int64_t conversation, Tokens answer) {
    if (turns_.uniform() * spec_.turns < 1) return;  // it was the last: probability 1/turns
    Turn next = turn;
    next.at_s +=
        static_cast<double>(answer.count()) * spec_.token_s + turns_.exponential() * spec_.think_s;
    next.history = conversation;
    next.is_first = false;
    turns_to_come_.push(next);
  }

  /// Ids of the whole conversation, this answer included: the next turn repeats it.
  void name_tokens(const Turn& turn, std::int64_t conversation, engine::PrefixIds& into) const {
    into.tokens_per_id = spec_.tokens_per_id;
    into.ids.clear();
    const std::int64_t shared = spec_.system_tokens / spec_.tokens_per_id;
    const std::int64_t all = (conversation + spec_.tokens_per_id - 1) / spec_.tokens_per_id;
    for (std::int64_t i = 0; i < all; ++i) {
      const auto place = static_cast<std::uint64_t>(i);
      into.ids.push_back(i < shared ? words_.of_class(turn.of_class, place)
                                    : words_.of_session(turn.session, place));
    }
  }

  SessionSpec spec_;
  ArrivalProcess arrivals_;
  Rng turns_;
  Classes classes_;
  PrefixWords words_;
  std::priority_queue<Turn> turns_to_come_;
  std::uint64_t sessions_ = 0, cut_ = 0;
  std::uint64_t made_ = 0;
};

Result<void> check(const ClassSpec& spec, const std::string& section) {
  const FieldCheck in(section);
  if (!in_range(spec.share, 1e-9, 1e9)) return in.bad("share", spec.share, "1e-9 to 1e9");
  if (!in_range(spec.weight, 1e-9, 1e9)) return in.bad("weight", spec.weight, "1e-9 to 1e9");
  if (spec.deadline_s && !in_range(*spec.deadline_s, 0, 1e9)) {
    return in.bad("deadline_s", *spec.deadline_s, "seconds from arrival, 0 to 1e9");
  }
  if (spec.lengths) {
    if (auto ok = check(*spec.lengths, section + ".lengths"); !ok) return ok;
  }
  if (spec.prompts) {
    if (auto ok = check(*spec.prompts, section + ".prompts"); !ok) return ok;
  }
  return {};
}

Result<void> check(const SessionSpec& spec, const WorkloadSpec& workload) {
  constexpr std::int64_t kContextMax = 1 << 26;
  const FieldCheck in("sessions");
  if (!in_range(spec.turns, 1, 1e6)) return in.bad("turns", spec.turns, "a mean, 1 to 1e6");
  if (!in_range(spec.think_s, 0, 1e6)) return in.bad("think_s", spec.think_s, "seconds, 0 to 1e6");
  if (!in_range(spec.token_s, 0, 1e3)) return in.bad("token_s", spec.token_s, "seconds, 0 to 1000");
  if (spec.tokens_per_id < 1 || spec.tokens_per_id > 1 << 20) {
    return in.bad("tokens_per_id", spec.tokens_per_id, "tokens, 1 to 2^20");
  }
  // A request names its whole conversation, so its ids are bounded too.
  if (spec.context < 2 || spec.context > kContextMax ||
      spec.context / spec.tokens_per_id > 100'000) {
    return in.bad("context", spec.context,
                  "tokens, 2 to 2^26 and at most 100000 times tokens_per_id");
  }
  std::int64_t cap = workload.lengths.cap;
  for (const ClassSpec& c : workload.classes) {
    if (c.lengths) cap = std::max(cap, c.lengths->cap);
  }
  if (spec.system_tokens < 0 || spec.system_tokens + cap >= spec.context) {
    return in.bad("system_tokens", spec.system_tokens,
                  "tokens, 0 or more, that leave room for a message and the lengths' cap in "
                  "sessions.context");
  }
  if (workload.arrivals.kind == ArrivalSpec::Kind::kAtOnce) {
    return fail(ErrorCode::kInvalidArgument,
                "sessions are given with arrivals that all come at once, so that no second turn "
                "would ever come; give arrivals a rate");
  }
  const double turn_s = spec.think_s + spec.token_s * static_cast<double>(cap);
  const double open = mean_rate(workload.arrivals) * spec.turns * turn_s;
  if (open > kOpenSessionsMax) {
    return in.bad("think_s", spec.think_s,
                  fmt::format("short enough that no more than 1e7 sessions go on at once, and not "
                              "{:.3g}; think less, or begin fewer",
                              open));
  }
  return {};
}

/// Of what is generated. A trace has fields of its own.
Result<void> check(const WorkloadSpec& spec) {
  if (auto ok = check(spec.arrivals); !ok) return ok;
  if (auto ok = check(spec.lengths, "lengths"); !ok) return ok;
  if (auto ok = check(spec.prompts, "prompts"); !ok) return ok;
  if (spec.classes.size() > kClassesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("classes holds {} entries; it must be at most {}", spec.classes.size(),
                            kClassesMax));
  }
  for (std::size_t i = 0; i < spec.classes.size(); ++i) {
    if (auto ok = check(spec.classes[i], fmt::format("classes[{}]", i)); !ok) return ok;
  }
  if (spec.sessions) return check(*spec.sessions, spec);
  return {};
}

}  // namespace

Result<std::unique_ptr<Workload>> make_workload(const WorkloadSpec& spec, const Rng& rng) {
  std::unique_ptr<Workload> made;
  if (spec.servegen) {
    auto servegen = make_servegen_workload(spec, rng);
    if (!servegen) return fail(servegen.error());
    made = std::move(*servegen);
  } else if (spec.trace) {
    auto trace = make_trace_workload(spec, rng);
    if (!trace) return fail(trace.error());
    made = std::move(*trace);
  } else {
    if (auto ok = check(spec); !ok) return fail(ok.error());
    if (spec.sessions) {
      made = std::make_unique<Sessions>(spec, rng);
    } else {
      made = std::make_unique<Single>(spec, rng);
    }
  }
  return std::make_unique<Limited>(std::move(made), spec.arrivals);
}

}  // namespace tailrace::simulate
