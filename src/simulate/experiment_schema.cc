#include "simulate/experiment_schema.h"

#include <fmt/format.h>

#include <filesystem>

#include "tailrace/core/settings_reference.h"
#include "tailrace/dispatch/backend_choice.h"
#include "tailrace/engine/presets.h"
#include "tailrace/engine/profile.h"

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
using core::optional_real_field;
using core::real_field;
using core::SchemaVisitor;
using core::text_field;
using core::text_list_field;
using core::tokens_field;
using core::whole_field;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kYear = hours(24 * 365);
constexpr Duration kHour = hours(1);

/// Of an engine that the preset or the profile describes.
Field of_preset(Field field, const Settings& s) {
  if (!s.read) field.default_text = "the preset's";
  return field;
}

Field preset_field(Settings& s) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& preset : engine::presets()) names.emplace_back(preset.name, preset.name);
  Field field = choice_field("preset", s.preset, names,
                             "The engine that the keys under `engine` change; `tailrace presets` "
                             "lists them.");
  if (s.read && !s.profile.empty()) field.default_text.clear();  // it is the profile's engine
  field.assign = [&s, choose = std::move(field.assign)](std::string_view text) -> Result<void> {
    if (auto set = choose(text); !set) return set;
    s.spec.fleet.engine = engine::find_preset(s.preset)->config;
    return {};
  };
  return field;
}

/// The engine of a file. Read at once, so that the keys under `engine` change it.
Field profile_field(Settings& s) {
  Field field = text_field("profile", s.profile,
                           "File of an engine's profile, in the place of `preset` "
                           "(docs/emulated-engine.md); relative to the experiment's folder.");
  field.assign = [&s](std::string_view text) -> Result<void> {
    if (!s.folder) return fail(ErrorCode::kInvalidArgument, "cannot be read from here");
    s.profile = text;
    const auto path = std::filesystem::path(*s.folder) / s.profile;
    auto profile = engine::read_profile(path.string());
    if (!profile) {
      return fail(ErrorCode::kInvalidArgument, "is no profile: " + profile.error().message);
    }
    s.spec.fleet.engine = profile->config;
    return {};
  };
  return field;
}

void visit_engine(SchemaVisitor& v, Settings& s) {
  engine::EngineConfig& e = s.spec.fleet.engine;
  engine::IterationCost& cost = e.cost;
  const auto milli = [&](const char* name, double& into, double high, const char* help) {
    v.field(of_preset(real_field(name, into, 0, high, help), s));
  };
  milli("alpha_ms", cost.alpha_ms, 1e5, "Milliseconds of any iteration.");
  milli("beta_ms", cost.beta_ms, 1e3, "For each token computed beyond the knee.");
  milli("gamma_ms", cost.gamma_ms, 1e2, "For each token of context that is read.");
  milli("knee_tokens", cost.knee_tokens, 1e6, "Tokens that an iteration computes for nothing.");
  milli("per_request_ms", cost.per_request_ms, 1e3, "For each sequence in the batch.");
  milli("cpu_ms", cost.cpu_ms, 1e5, "The processor's share of any iteration.");
  milli("cpu_per_request_ms", cost.cpu_per_request_ms, 1e3, "And for each sequence.");
  v.field(of_preset(flag_field("async_scheduling", cost.async_scheduling,
                               "Whether the processor's share hides behind the GPU's."),
                    s));
  const auto whole = [&](const char* name, std::int64_t& into, std::int64_t low, std::int64_t high,
                         const char* help) {
    v.field(of_preset(whole_field(name, into, low, high, help), s));
  };
  whole("max_num_seqs", e.max_num_seqs, 1, 1 << 20, "Sequences in a batch.");
  whole("max_batched_tokens", e.max_batched_tokens, 1, 1 << 24,
        "Tokens that one iteration computes.");
  whole("block_tokens", e.block_tokens, 1, 1 << 16, "Tokens of context in a KV block.");
  whole("kv_blocks", e.kv_blocks, 2, 1'000'000'000'000, "KV blocks in memory.");
  Field kv_tokens;  // what many look for
  kv_tokens.name = "kv_tokens";
  kv_tokens.assign = [](std::string_view) -> Result<void> {
    return fail(ErrorCode::kInvalidArgument,
                "tokens: memory is given in blocks; set kv_blocks, which is tokens divided by "
                "block_tokens");
  };
  v.field(std::move(kv_tokens));
  whole("max_model_len", e.max_model_len, 2, 1 << 30, "Prompt and answer together.");
  whole("long_prefill_tokens", e.long_prefill_tokens, 0, 1 << 24,
        "Tokens of one prompt that an iteration computes; 0: no limit of its own.");
  v.field(of_preset(flag_field("chunked_prefill", e.chunked_prefill,
                               "Whether prompts may be computed in pieces."),
                    s));
  v.field(of_preset(flag_field("prefix_caching", e.prefix_caching,
                               "Whether prompts that begin alike share what was computed."),
                    s));
  v.field(of_preset(flag_field("reserve_full_sequence", e.reserve_full_sequence,
                               "Whether a request is admitted only if its whole context fits."),
                    s));
  whole("watermark_blocks", e.watermark_blocks, 0, 1'000'000'000'000,
        "Blocks that stay free when one is admitted.");
}

void visit_fleet(SchemaVisitor& v, Settings& s) {
  v.field(preset_field(s));
  v.field(profile_field(s));
  v.field(int_field("engines", s.spec.fleet.engines, 1, 4096, "How many of them."));
  v.section("engine", "What differs from the preset.", [&] { visit_engine(v, s); });
}

/// "auto" for no value.
Field optional_whole_field(std::string name, std::optional<std::int64_t>& into, std::int64_t low,
                           std::int64_t high, std::string help) {
  std::int64_t now = low;
  Field field = whole_field(std::move(name), now, low, high, std::move(help));
  field.type += ", or auto";
  field.default_text = into ? std::to_string(*into) : "auto";
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    if (text == "auto") {
      into.reset();
      return {};
    }
    std::int64_t value = 0;
    if (auto set = whole_field("", value, low, high, "").assign(text); !set) {
      return fail(ErrorCode::kInvalidArgument, set.error().message + ", nor auto");
    }
    into = value;
    return {};
  };
  return field;
}

void visit_policy_options(SchemaVisitor& v, schedule::PolicyOptions& o) {
  using schedule::TieVariant;
  const schedule::GittinsDefaults& in_engines = schedule::kGittinsInEngines;
  const schedule::GittinsDefaults& in_front = schedule::kGittinsInFront;
  v.field(real_field("cvar_level", o.cvar_level, 0.01, 0.999, "tie: where the tail begins."));
  v.field(real_field("beta_min", o.beta_min, 0, 100, "tie: least weight of the tail."));
  v.field(real_field("beta_max", o.beta_max, 0, 100, "tie: most weight of the tail."));
  v.field(
      real_field("beta_slope", o.beta_slope, 0, 100, "tie: weight per waiting request and slot."));
  v.field(real_field("beta_bucket", o.beta_bucket, 1e-3, 100, "tie: the weight moves by steps."));
  v.field(optional_real_field("fixed_beta", o.fixed_beta, 0, 100,
                              "tie: the weight, in the place of the adaptive one."));
  v.field(real_field("decay", o.decay, 1e-6, 1,
                     "tie: a score shrinks by this factor per decay_period of waiting; 1: never."));
  v.field(duration_field("decay_period", o.decay_period, milliseconds(1), kYear, "See `decay`."));
  v.field(choice_field("tie_variant", o.tie_variant,
                       {{"paper", TieVariant::kPaper}, {"code", TieVariant::kReleasedCode}},
                       "tie: as in the paper's text, or as in the code published with it."));
  v.field(count_field("tie_seed", o.tie_seed, 0, 1 << 30, "tie, code: seed of its draws."));
  v.field(flag_field("uncapped_mean", o.uncapped_mean,
                     "mean, tie: whether the mean leaves out the request's own limit."));
  v.field(tokens_field("gittins_quantum", o.gittins_quantum, 1, 1 << 20,
                       "gittins: least service that a rank reckons with, tokens."));
  v.field(real_field("gittins_context_weight", o.gittins_context_weight, 0, 1e6,
                     "gittins: what a token of context adds to the cost of the next one."));
  v.field(optional_real_field(
      "gittins_length_exponent", o.gittins_length_exponent, 0, 4,
      fmt::format("gittins: an answer of L tokens counts for L^-exponent. 0: mean "
                  "latency; 1: latency per token. auto, here and below: what suits place; {} in "
                  "engines, {} in front.",
                  in_engines.length_exponent, in_front.length_exponent)));
  v.field(optional_real_field(
      "gittins_prefill_weight", o.gittins_prefill_weight, 0, 1e6,
      fmt::format("gittins: what computing a token of context costs at admission, in tokens "
                  "generated. auto: {} in engines, {} in front.",
                  in_engines.prefill_weight, in_front.prefill_weight)));
  v.field(optional_real_field("gittins_decay", o.gittins_decay, 1e-6, 1,
                              fmt::format("gittins: as `decay`. auto: {} in engines, {} in front.",
                                          in_engines.decay, in_front.decay)));
  v.field(duration_field("ssjf_starving_wait", o.ssjf_starving_wait, Duration{0}, kYear,
                         "ssjf: the oldest goes first once it has waited so long,"));
  v.field(real_field("ssjf_starving_times", o.ssjf_starving_times, 0, 1e9,
                     "ssjf: or so many times what it is expected to run for"));
  v.field(duration_field("ssjf_token_time", o.ssjf_token_time, Duration{1000}, kHour,
                         "ssjf: at this time a token."));
  v.field(flag_field("ltr_preemptive", o.ltr_preemptive,
                     "ltr: whether its order displaces running requests too."));
  v.field(optional_whole_field("starvation_idle", o.starvation_idle, 0, 1 << 30,
                               "ltr, mlfq: iterations idle after which a request goes first; 0: "
                               "never. auto: 0 for ltr, 120 for mlfq."));
  v.field(optional_whole_field("starvation_runs", o.starvation_runs, 1, 1 << 30,
                               "ltr, mlfq: iterations that it then runs for, protected. auto: 10 "
                               "for ltr, 100 for mlfq."));
  v.field(
      tokens_field("mlfq_quantum", o.mlfq_quantum, 1, 1 << 20, "mlfq: tokens in the first level."));
  v.field(real_field("mlfq_growth", o.mlfq_growth, 1.1, 1000,
                     "mlfq: each level's quantum over that of the level above."));
  v.field(real_field("trail_preemptible", o.trail_preemptible, 0, 1,
                     "trail: preemptible until this share of its first prediction."));
  v.field(tokens_field("elis_interval", o.elis_interval, 1, 1 << 20,
                       "elis: tokens from one prediction to the next."));
}

void visit_policy(SchemaVisitor& v, Settings& s) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& name : simulated_policies()) names.emplace_back(name, name);
  v.field(choice_field("name", s.policy, names,
                       "Order of waiting requests (docs/policies.md). fcfs in the engines is "
                       "vLLM's own, as is priority."));
  v.field(choice_field("place", s.policy_place,
                       {{"engines", PolicyPlace::kEngines}, {"front", PolicyPlace::kFront}},
                       "Who orders: a scheduler inside each engine, or a queue in front of all, as "
                       "in the gateway, which hands out no more than the engines have slots."));
  v.field(optional_duration_field("waiting_bound", s.waiting_bound, milliseconds(1), kYear,
                                  "A request that has waited so long goes before all that have "
                                  "not."));
  visit_policy_options(v, s.spec.fleet.scheduler.policy_options);
}

void visit_preemption(SchemaVisitor& v, schedule::PreemptionOptions& o) {
  v.field(flag_field("enabled", o.enabled,
                     "Whether an age-aware policy in the engines may send running requests back."));
  v.field(optional_count_field("review_iterations", o.review_iterations, 1, 1'000'000,
                               "Iterations from one review of the batch to the next. auto, here "
                               "and below: what suits the policy; 8 for gittins."));
  v.field(optional_count_field("max_per_job", o.max_per_job, 0, 1'000'000,
                               "A request preempted so often stays in the batch. 1 for gittins."));
  v.field(optional_real_field("hysteresis", o.hysteresis, 1e-3, 1,
                              "A waiting request displaces one only if its rank is below this "
                              "share of the other's. 0.25 for gittins."));
  v.field(optional_count_field("quantum", o.quantum, 1, 1'000'000,
                               "Tokens that a request generates before it may be displaced. 16 "
                               "for gittins."));
}

void visit_front(SchemaVisitor& v, FrontSpec& front) {
  using Choice = FrontSpec::Choice;
  v.field(choice_field("choice", front.choice,
                       {{"round-robin", Choice::kRoundRobin},
                        {"least-outstanding", Choice::kLeastOutstanding},
                        {"least-predicted-work", Choice::kLeastPredictedWork},
                        {"prefix-affinity", Choice::kPrefixAffinity},
                        {"least-reported", Choice::kLeastReported}},
                       "Which engine a request goes to, where no queue stands in front of them."));
  v.field(duration_field("staleness", front.staleness, Duration{0}, kHour,
                         "least-reported: engines report so often; 0: always."));
  v.field(flag_field("corrected_reports", front.corrected_reports,
                     "least-reported: an engine counts for no less than what it was sent and has "
                     "not ended."));
  v.field(int_field("frozen_engine", front.frozen_engine, -1, 4095,
                    "least-reported: this engine's report never changes; -1: none."));
  v.field(int_field("prefix_depth", front.prefix_depth, 1, 1'000'000,
                    "prefix-affinity: ids that prompts must share to go together."));
  v.field(int_field("slots_per_engine", front.slots_per_engine, 0, 1 << 20,
                    "policy.place front: requests handed to an engine at once; 0: its "
                    "max_num_seqs."));
}

void visit_dispatch(SchemaVisitor& v, dispatch::DispatchConfig& config) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto name : dispatch::backend_choice_names()) names.emplace_back(name, name);
  v.field(choice_field("choice", config.choice, names,
                       "Which of the engines with a slot to spare gets the request whose turn it "
                       "is."));
}

void visit_predictor(SchemaVisitor& v, PredictorSpec& p) {
  using Kind = PredictorSpec::Kind;
  using Family = PredictorSpec::Family;
  v.field(choice_field("kind", p.kind,
                       {{"none", Kind::kNone},
                        {"oracle-law", Kind::kOracleLaw},
                        {"noisy-law", Kind::kNoisyLaw},
                        {"true-length", Kind::kTrueLength},
                        {"point", Kind::kPoint},
                        {"rank", Kind::kRank},
                        {"online", Kind::kOnline}},
                       "What is known of lengths: nothing, the law that each was drawn from, that "
                       "law with errors, the length itself, the length with errors, an order, or "
                       "what the gateway's predictor learns."));
  v.field(real_field("r2_mu", p.r2_mu, 0, 1,
                     "noisy-law, point, rank: share of the variance of mu that is explained."));
  v.field(real_field("r2_sigma", p.r2_sigma, 0, 1, "noisy-law: the same of ln sigma."));
  v.field(optional_real_field("tau", p.tau, 0, 1,
                              "noisy-law, point, rank: Kendall's tau with the lengths, in the "
                              "place of r2_mu."));
  v.field(flag_field("calibrated", p.calibrated,
                     "noisy-law: whether the law is widened by what the estimate does not know."));
  v.field(choice_field("family", p.family,
                       {{"log-t", Family::kLogT}, {"log-normal", Family::kLogNormal}},
                       "noisy-law: the family that the predictor believes in."));
  v.field(optional_real_field("nu", p.nu, 0.5, 1000, "noisy-law: the nu that it believes in."));
  v.field(real_field("nu_error", p.nu_error, 0, 5,
                     "noisy-law: standard deviation of the error of ln nu."));
  v.field(optional_real_field(
      "log_mean", p.log_mean, -20, 20,
      "Recorded requests without a law: mean of ln length; auto: that of the run's own."));
  v.field(optional_real_field("log_sd", p.log_sd, 1e-6, 10, "And its standard deviation."));
  v.field(optional_real_field("r2_refined", p.r2_refined, 0, 1,
                              "Predictions made again while decoding: variance of ln of what is "
                              "left that they explain; auto: none are made."));
  v.field(whole_field("refine_every", p.refine_every, 1, 1 << 30,
                      "Tokens from one such prediction to the next."));
  v.field(duration_field("delay", p.delay, Duration{0}, kHour,
                         "From a request's arrival until its law is known."));
  v.field(duration_field("blocking", p.blocking, Duration{0}, kHour,
                         "Engine time that each prediction takes, where the engine makes it."));
}

}  // namespace

std::vector<std::string> simulated_policies() {
  std::vector<std::string> names;
  for (const auto name : schedule::policy_names()) names.emplace_back(name);
  for (const auto name : schedule::batch_policy_names()) names.emplace_back(name);
  names.emplace_back("priority");
  return names;
}

Settings default_settings() {
  Settings settings;
  settings.seeds = {"1"};
  settings.preset = engine::presets().front().name;
  settings.spec.fleet.engine = engine::presets().front().config;
  settings.spec.front.dispatch.waiting_bound.reset();
  return settings;
}

void visit_settings(SchemaVisitor& v, Settings& s) {
  v.field(text_field("name", s.name, "What the experiment is called in reports."));
  Field seeds = text_list_field("seeds", s.seeds,
                                "How many (1, 2, … so many), or a list. Every cell runs once with "
                                "each, so cells are compared request by request.");
  seeds.type = "whole number from 1 to 1000, or list of them";
  v.field(std::move(seeds));
  v.field(real_field("warm_up", s.warm_up, 0, 0.9,
                     "Share of the requests, the first to arrive, that no metric of requests "
                     "counts. Totals and rates are of the whole run."));
  v.field(optional_duration_field("horizon", s.horizon, milliseconds(1), kYear,
                                  "The run ends there, whatever is left; else when all have "
                                  "ended."));
  v.field(text_field("compare", s.compare,
                     "The dimension of which one value is the baseline; by default `arm`, else "
                     "`policy.name`, if they vary."));
  v.field(text_field("baseline", s.baseline, "Its value; by default the first."));
  v.section("workload", "What comes.", [&] { visit_workload(v, s); });
  v.section("fleet", "Who serves it.", [&] { visit_fleet(v, s); });
  v.section("policy", "Who goes next.", [&] { visit_policy(v, s); });
  v.section("preemption", "Who is sent back.",
            [&] { visit_preemption(v, s.spec.fleet.scheduler.preemption); });
  v.section("front", "Which engine it goes to.", [&] { visit_front(v, s.spec.front); });
  v.section("dispatch", "The queue in front of the engines, where policy.place is front.",
            [&] { visit_dispatch(v, s.spec.front.dispatch); });
  v.section("predictor", "What the policy knows.", [&] { visit_predictor(v, s.spec.predictor); });
  v.section("slo", "What is served well: goodput is the share that meets all of these.", [&] {
    v.field(optional_duration_field("ttft", s.slo.ttft, Duration{1}, kYear, "To the first token."));
    v.field(optional_duration_field("itl", s.slo.itl, Duration{1}, kYear,
                                    "Mean gap between tokens after the first."));
    v.field(optional_duration_field("per_token", s.slo.per_token, Duration{1}, kYear,
                                    "From arrival to the last token, per token."));
  });
  v.map("arms", "Named sets of settings, compared with each other: `arms: {NAME: {KEY: VALUE}}`.",
        [](const std::string&) {});
  v.map("grid", "What varies besides: `grid: {KEY: [VALUE, …]}`, every combination.",
        [](const std::string&) {});
}

std::string experiment_reference() {
  Settings settings = default_settings();
  core::SettingsReference writer;
  visit_settings(writer, settings);
  return writer.text();
}

}  // namespace tailrace::simulate
