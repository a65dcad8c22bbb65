// Which keys say what comes?
#include <fmt/format.h>

#include "simulate/experiment_schema.h"

namespace tailrace::simulate {
namespace {

using core::choice_field;
using core::count_field;
using core::duration_field;
using core::Field;
using core::flag_field;
using core::int_field;
using core::optional_count_field;
using core::optional_duration_field;
using core::real_field;
using core::SchemaVisitor;
using core::text_field;
using core::text_list_field;
using core::whole_field;
using std::chrono::hours;
using std::chrono::milliseconds;

constexpr Duration kYear = hours(24 * 365);
constexpr Duration kHour = hours(1);
constexpr double kRateMax = 1e6;
constexpr std::int64_t kRequestsMax = 1'000'000'000;

/// A duration in the file, seconds in the structure.
Field seconds_field(std::string name, double& into, Duration low, Duration high, std::string help) {
  Duration now = from_seconds(into);
  Field field = duration_field(std::move(name), now, low, high, std::move(help));
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    Duration value{0};
    if (auto set = duration_field("", value, low, high, "").assign(text); !set) return set;
    into = to_seconds(value);
    return {};
  };
  return field;
}

Field optional_seconds_field(std::string name, std::optional<double>& into, Duration low,
                             Duration high, std::string help) {
  std::optional<Duration> now;
  if (into) now = from_seconds(*into);
  Field field = optional_duration_field(std::move(name), now, low, high, std::move(help));
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    std::optional<Duration> value;
    if (auto set = optional_duration_field("", value, low, high, "").assign(text); !set) return set;
    into = value ? std::optional<double>(to_seconds(*value)) : std::nullopt;
    return {};
  };
  return field;
}

/// A number that may not be there: no word stands for its absence, the key is left out.
Field maybe_real_field(std::string name, std::optional<double>& into, double low, double high,
                       std::string help) {
  double now = low;
  Field field = real_field(std::move(name), now, low, high, std::move(help));
  field.default_text = into ? fmt::format("{}", *into) : "";
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    double value = 0;
    if (auto set = real_field("", value, low, high, "").assign(text); !set) return set;
    into = value;
    return {};
  };
  return field;
}

Field maximum_rate_field(MaximumRate& into) {
  Field field;
  field.name = "maximum_rate";
  field.type = "measure \\| off \\| number above 0";
  field.help =
      "Requests per second that the fleet can serve, what `load` is a share of. measure: by a run "
      "of its own, in arrival order with the queue never empty.";
  using Kind = MaximumRate::Kind;
  field.default_text = into.kind == Kind::kMeasure ? "measure"
                       : into.kind == Kind::kOff   ? "off"
                                                   : fmt::format("{}", into.per_second);
  field.assign = [&into](std::string_view text) -> Result<void> {
    if (text == "measure" || text == "off") {
      into = {text == "off" ? MaximumRate::Kind::kOff : MaximumRate::Kind::kMeasure, 0};
      return {};
    }
    double value = 0;
    if (auto set = real_field("", value, 1e-6, kRateMax, "").assign(text); !set) {
      return fail(ErrorCode::kInvalidArgument, set.error().message + ", measure or off");
    }
    into = {MaximumRate::Kind::kGiven, value};
    return {};
  };
  return field;
}

void visit_arrivals(SchemaVisitor& v, ArrivalSpec& arrivals) {
  using Kind = ArrivalSpec::Kind;
  v.field(choice_field("kind", arrivals.kind,
                       {{"poisson", Kind::kPoisson},
                        {"gamma", Kind::kGamma},
                        {"markov", Kind::kMarkov},
                        {"sinusoid", Kind::kSinusoid},
                        {"spikes", Kind::kSpikes},
                        {"at-once", Kind::kAtOnce}},
                       "How requests come: poisson; gamma, gaps of variation `cv`; markov, a rate "
                       "that jumps up and down; sinusoid; spikes; at-once, all at time 0."));
  v.field(real_field("cv", arrivals.cv, 0.01, 100, "gamma: coefficient of variation of the gaps."));
  v.field(real_field("high", arrivals.high, 1, 1000,
                     "markov, spikes: the high rate over the low one. The mean is `rate`."));
  v.field(real_field("amplitude", arrivals.amplitude, 0, 1, "sinusoid: swing, share of the mean."));
  v.field(seconds_field("period", arrivals.period_s, milliseconds(1), kYear,
                        "sinusoid, spikes: from one crest or spike to the next."));
  v.field(seconds_field("spike", arrivals.spike_s, milliseconds(1), kYear, "spikes: how long."));
  v.field(seconds_field("low_sojourn", arrivals.low_sojourn_s, milliseconds(1), kYear,
                        "markov: mean time at the low rate."));
  v.field(seconds_field("high_sojourn", arrivals.high_sojourn_s, milliseconds(1), kYear,
                        "markov: mean time at the high rate."));
}

void visit_lengths(SchemaVisitor& v, LengthSpec& lengths) {
  using Kind = LengthSpec::Kind;
  v.field(choice_field(
      "kind", lengths.kind,
      {{"log-t", Kind::kLogT}, {"fixed", Kind::kFixed}, {"exponential", Kind::kExponential}},
      "How long answers are, in tokens. log-t: each request has a mu and a sigma of its own, and "
      "ln length = mu + sigma · Student t."));
  v.field(real_field("mu_mean", lengths.mu_mean, -20, 20, "log-t: mean of mu over requests."));
  v.field(real_field("mu_sd", lengths.mu_sd, 0, 10, "log-t: standard deviation of mu."));
  v.field(real_field("sigma_median", lengths.sigma_median, 1e-4, 10, "log-t: median of sigma."));
  v.field(real_field("sigma_spread", lengths.sigma_spread, 0, 5,
                     "log-t: standard deviation of ln sigma."));
  v.field(real_field("correlation", lengths.correlation, -1, 1,
                     "log-t: correlation of mu and ln sigma."));
  v.field(real_field("nu", lengths.nu, 0.1, 1000, "log-t: degrees of freedom of the tail."));
  v.field(real_field("mean", lengths.mean, 1, 1e7, "fixed, exponential: mean length."));
  v.field(whole_field("least", lengths.least, 1, 1 << 30, "Shorter answers count as so long."));
  v.field(whole_field("cap", lengths.cap, 1, 1 << 30, "Longer answers are cut there."));
}

void visit_prompts(SchemaVisitor& v, PromptSpec& prompts) {
  using Kind = PromptSpec::Kind;
  v.field(choice_field("kind", prompts.kind,
                       {{"fixed", Kind::kFixed}, {"log-normal", Kind::kLogNormal}},
                       "How long prompts are."));
  v.field(real_field("mean", prompts.mean, 1, 1e7, "Mean length in tokens."));
  v.field(real_field("cv", prompts.cv, 0.01, 100, "log-normal: coefficient of variation."));
  v.field(whole_field("least", prompts.least, 1, 1 << 30, "Shorter prompts count as so long."));
  v.field(whole_field("most", prompts.most, 1, 1 << 30, "Longer prompts are cut there."));
}

void visit_trace(SchemaVisitor& v, TraceSpec& trace) {
  v.field(
      text_list_field("files", trace.paths,
                      "Recorded requests, in the place of arrivals, lengths and prompts: their "
                      "times and lengths (docs/traces.md). Several are merged by time. Relative "
                      "to the experiment's folder, or else to where tailrace runs."));
  v.field(seconds_field("from", trace.from_s, Duration{0}, kYear,
                        "What came earlier on the recorded clock is left out."));
  v.field(optional_seconds_field("until", trace.until_s, Duration{1}, kYear,
                                 "And what came at this time or later."));
  v.field(real_field("sample", trace.sample, 1e-9, 1, "Each request is kept with this chance."));
  v.field(real_field("speed", trace.speed, 1e-6, 1e6, "Requests come so many times faster."));
  v.field(count_field("repeat", trace.repeat, 1, 1'000'000, "Passes, one after the other."));
  v.field(flag_field("fresh_prefixes", trace.fresh_prefixes,
                     "Whether prompts of one pass or file share nothing with those of another."));
  v.field(whole_field(
      "cap", trace.cap, 0, 1 << 30,
      "Limit of requests whose row names none: longer answers are cut there. 0: answers "
      "end as recorded, and policies reckon with fleet.engine.max_model_len, the "
      "same for all."));
  v.field(flag_field("draw_lengths", trace.draw_lengths,
                     "Whether answers are as long as `lengths` draws them, not as recorded."));
}

void visit_servegen(SchemaVisitor& v, ServeGenSpec& servegen) {
  v.field(
      text_field("arrivals", servegen.arrivals,
                 "File of ServeGen's arrival windows: clients of a service with their rates, in "
                 "the place of arrivals, lengths and trace (docs/traces.md)."));
  v.field(text_field("lengths", servegen.lengths, "File of its length windows."));
  v.field(text_field("histograms", servegen.histograms,
                     "File of the busiest clients' histograms of lengths; may be left out."));
  v.field(seconds_field("from", servegen.from_s, Duration{0}, kYear,
                        "What comes earlier on the tables' clock is left out."));
  v.field(optional_seconds_field("until", servegen.until_s, Duration{1}, kYear,
                                 "And what comes at this time or later."));
  v.field(real_field("rate_scale", servegen.rate_scale, 1e-6, 1e6, "Factor of every rate."));
  v.field(whole_field("cap", servegen.cap, 0, 1 << 30, "Limit of every answer; 0: as of a trace."));
}

void visit_sessions(SchemaVisitor& v, SessionSpec& sessions, double& turns) {
  v.field(real_field(
      "turns", turns, 0, 1e6,
      "Mean number of turns of a conversation, at least 1; 0: every request stands alone. `rate` "
      "is then of conversations."));
  v.field(seconds_field("think", sessions.think_s, Duration{0}, kYear,
                        "Mean time from the end of an answer to the next turn."));
  v.field(seconds_field("token_time", sessions.token_s, Duration{0}, kHour,
                        "That each token of an answer is meant to take."));
  v.field(whole_field("context", sessions.context, 2, 1 << 30,
                      "A conversation ends before it exceeds so many tokens."));
  v.field(whole_field("system_tokens", sessions.system_tokens, 0, 1 << 30,
                      "What every conversation begins with."));
  v.field(whole_field("tokens_per_id", sessions.tokens_per_id, 1, 1 << 20,
                      "Of the prefix ids: a multiple of the engine's block."));
}

/// Shows fields whose default is what the workload says.
class AsTheWorkload final : public SchemaVisitor {
 public:
  explicit AsTheWorkload(SchemaVisitor& visitor) : visitor_(visitor) {}
  void field(Field field) override {
    field.default_text = "the workload's";
    visitor_.field(std::move(field));
  }
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) override {
    visitor_.section(name, help, body);
  }
  void list(std::string_view name, std::string_view help,
            const std::function<void()>& element) override {
    visitor_.list(name, help, element);
  }
  void map(std::string_view name, std::string_view help,
           const std::function<void(const std::string&)>& element) override {
    visitor_.map(name, help, element);
  }

 private:
  SchemaVisitor& visitor_;
};

/// `lengths` and `prompts` are the workload's: a class changes what it names. `read`: it has.
void visit_class(SchemaVisitor& v, ClassSpec& c, const WorkloadSpec& workload, bool read) {
  Field tenant = text_field("tenant", c.tenant, "Whose requests these are.");
  if (!read) tenant.default_text = "the class's name";
  v.field(std::move(tenant));
  v.field(real_field("share", c.share, 1e-9, 1e9,
                     "Part of the requests, or conversations, over the sum of all shares."));
  v.field(int_field("priority", c.priority, -1'000'000, 1'000'000, "Higher is more urgent."));
  v.field(real_field("weight", c.weight, 1e-9, 1e9, "wspt: what a request is worth."));
  v.field(optional_seconds_field("deadline", c.deadline_s, Duration{0}, kYear,
                                 "edf: from a request's arrival."));
  if (!read) {
    c.lengths = workload.lengths;
    c.prompts = workload.prompts;
  }
  AsTheWorkload by_default(v);
  SchemaVisitor& as_the_workload = read ? v : by_default;
  v.section("lengths", "How long the answers of this class are.",
            [&] { visit_lengths(as_the_workload, *c.lengths); });
  v.section("prompts", "And its prompts.", [&] { visit_prompts(as_the_workload, *c.prompts); });
}

}  // namespace

void visit_workload(SchemaVisitor& v, Settings& s) {
  WorkloadSpec& workload = s.spec.workload;
  v.field(maybe_real_field("rate", s.rate, 1e-6, kRateMax,
                           "Mean requests per second. Of a trace: its own, times `speed`."));
  v.field(maybe_real_field("load", s.load, 1e-3, 1000,
                           "The rate as a share of the maximum rate, in the place of `rate`; of a "
                           "trace, in the place of `speed`. 1.5: half more than can be served."));
  v.field(maximum_rate_field(s.maximum_rate));
  v.field(optional_seconds_field("duration", workload.arrivals.duration_s, milliseconds(1), kYear,
                                 "Requests come for so long."));
  v.field(optional_count_field("requests", workload.arrivals.count, 1, kRequestsMax,
                               "At most so many come; without a trace this or `duration` must be "
                               "given."));
  v.section("arrivals", "When requests come.", [&] { visit_arrivals(v, workload.arrivals); });
  v.section("lengths", "How long their answers are.", [&] { visit_lengths(v, workload.lengths); });
  v.section("prompts", "How long they are themselves.",
            [&] { visit_prompts(v, workload.prompts); });
  v.map("classes",
        "Parts of the traffic: `classes: {NAME: {KEY: VALUE}}`. Without them all requests are "
        "alike.",
        [&](const std::string& name) {
          ClassSpec& c = s.classes[name];
          c.tenant = name;
          visit_class(v, c, workload, false);
        });
  if (s.read) {
    for (auto& [name, c] : s.classes) {
      v.section("classes." + name, "", [&, &one = c] { visit_class(v, one, workload, true); });
    }
  }
  v.section("sessions", "Conversations, whose turns begin with all that was said.",
            [&] { visit_sessions(v, s.sessions, s.turns); });
  v.section("trace", "Recorded requests instead of generated ones.",
            [&] { visit_trace(v, s.trace); });
  v.section("servegen", "Requests drawn from tables of a service's clients.",
            [&] { visit_servegen(v, s.servegen); });
}

}  // namespace tailrace::simulate
