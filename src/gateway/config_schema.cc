#include "gateway/config_schema.h"

#include <fmt/format.h>

#include "tailrace/core/log_field.h"
#include "tailrace/dispatch/backend_choice.h"

namespace tailrace::gateway {
namespace {

using core::bytes_field;
using core::choice_field;
using core::count_field;
using core::duration_field;
using core::flag_field;
using core::int_field;
using core::optional_duration_field;
using core::optional_real_field;
using core::optional_tokens_field;
using core::real_field;
using core::required;
using core::text_field;
using core::text_list_field;
using core::tokens_field;

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;
constexpr Duration kDay = hours(24);

void visit_admin(SchemaVisitor& v, AdminConfig& admin) {
  v.field(flag_field("enabled", admin.enabled, "Whether the admin listener is opened at all."));
  v.field(endpoint_field("listen", admin.listen,
                         "Address of metrics and the admin API. Anything but "
                         "loopback needs a token."));
  v.field(text_field("token_env", admin.token_env,
                     "Environment variable that holds the bearer token for this listener."));
  v.field(text_field("token_file", admin.token_file,
                     "File that holds it instead; white space at its ends does not count."));
}

void visit_model(SchemaVisitor& v, ModelConfig& model) {
  v.field(optional_tokens_field("context_length", model.context_length,
                                "Tokens that prompt and answer may have together. What the prompt "
                                "leaves bounds every answer's length in the scheduler's eyes."));
  v.field(optional_tokens_field("default_cap", model.default_cap,
                                "Longest answer, in tokens, to reckon with where a request sets no "
                                "limit."));
  v.field(
      flag_field("awaited", model.awaited,
                 "Whether requests that generate wait while no engine serves it, for an "
                 "autoscaler to bring one; otherwise they are answered with 404. Others, such "
                 "as embeddings, bring one too, but are answered with 503 until then, to be sent "
                 "again. At most 1,000 models."));
  v.field(int_field("slots", model.slots, 0, 100'000,
                    "Of an awaited model: slots of the largest engine that may serve it. Requests "
                    "with a larger n are refused at once; others wait for such an engine (at most "
                    "timeouts.queue) while only smaller ones are there. 0: as many as the engines "
                    "have that are there, and any n waits for the first."));
}

void visit_schedule(SchemaVisitor& v, dispatch::DispatchConfig& dispatch) {
  std::vector<std::pair<std::string, std::string>> policies;
  for (const auto name : schedule::policy_names()) policies.emplace_back(name, name);
  v.field(choice_field("policy", dispatch.policy, policies,
                       "Order of waiting requests; docs/policies.md tells them apart."));
  std::vector<std::pair<std::string, std::string>> choices;
  for (const auto name : dispatch::backend_choice_names()) choices.emplace_back(name, name);
  v.field(choice_field("choice", dispatch.choice, choices,
                       "Which of the backends with a free slot gets a request: the smallest share "
                       "of its slots in use, each in turn, the fewest tokens predicted to come, or "
                       "the one that has seen how the prompt begins, unless it holds too much."));
  v.field(
      optional_duration_field("waiting_bound", dispatch.waiting_bound, milliseconds(1), kDay,
                              "A request that has waited so long goes before all that have not, "
                              "oldest first. off: short ones may pass it for ever."));
  v.field(count_field("queued_jobs_max", dispatch.queued_jobs_max, 1, 10'000'000,
                      "Requests that may wait per model; more are refused with 429."));
  v.field(bytes_field("queued_bytes_max", dispatch.queued_bytes_max, kKiB, 1024 * kGiB,
                      "Bytes that their bodies may hold per model; more are refused with 413."));
  schedule::PolicyOptions& options = dispatch.policy_options;
  v.field(real_field("cvar_level", options.cvar_level, 0.01, 0.999,
                     "tie: the tail begins at this quantile of the length."));
  v.field(real_field("beta_min", options.beta_min, 0, 100,
                     "tie: weight of the tail when the queue is short."));
  v.field(real_field("beta_max", options.beta_max, 0, 100,
                     "tie: weight of the tail when the queue is long."));
  v.field(real_field("beta_slope", options.beta_slope, 0, 100,
                     "tie: weight gained per waiting request and slot."));
  v.field(optional_real_field("fixed_beta", options.fixed_beta, 0, 100,
                              "tie: one weight at every load. auto: by the queue's length."));
  v.field(real_field("decay", options.decay, 0.01, 1,
                     "tie: factor by which waiting shrinks a score every decay_period; 1: waiting "
                     "does not count."));
  v.field(
      duration_field("decay_period", options.decay_period, milliseconds(1), kDay, "See decay."));
  v.field(tokens_field("gittins_quantum", options.gittins_quantum, 1, 1'000'000,
                       "gittins: least service, in tokens, that a rank reckons with."));
  v.field(real_field("gittins_context_weight", options.gittins_context_weight, 0, 1000,
                     "gittins: a rank grows by this share of it per prompt token, for the memory "
                     "that the prompt holds."));
  v.field(
      optional_real_field("gittins_length_exponent", options.gittins_length_exponent, 0, 4,
                          fmt::format("gittins: an answer of L tokens counts for L^-exponent. 0: "
                                      "mean latency; 1: latency per token. auto: {}.",
                                      schedule::kGittinsInFront.length_exponent)));
  v.field(optional_real_field("gittins_prefill_weight", options.gittins_prefill_weight, 0, 1000,
                              fmt::format("gittins: what a token of the prompt costs to compute, "
                                          "in tokens generated. auto: {}.",
                                          schedule::kGittinsInFront.prefill_weight)));
  v.field(optional_real_field(
      "gittins_decay", options.gittins_decay, 0.01, 1,
      fmt::format("gittins: as decay is for tie. auto: {}.", schedule::kGittinsInFront.decay)));
}

void visit_limits(SchemaVisitor& v, Config& config) {
  net::ServerLimits& server = config.server;
  v.field(bytes_field("body_bytes_max", config.body_bytes_max, kKiB, kGiB,
                      "Largest request body; a larger one is refused with 413."));
  v.field(
      bytes_field("inline_body_bytes_max", config.inline_body_bytes_max, 0, kGiB,
                  "Bodies above this are read on a thread of their own, so that they do not hold "
                  "up streams."));
  v.field(bytes_field("head_bytes_max", server.head_bytes_max, kKiB, kMiB,
                      "Largest request line and headers together; more is refused with 431."));
  v.field(count_field("headers_max", server.headers_max, 1, 10'000,
                      "Most headers of a request; more is refused with 431."));
  v.field(count_field("connections_max", server.connections_max, 1, 1'000'000,
                      "Client connections; further ones are closed at once."));
  v.field(bytes_field("write_buffer_bytes_max", server.write_buffer_bytes_max, 4 * kKiB, kGiB,
                      "Bytes that may wait for a slow client before its engine is slowed down."));
}

void visit_timeouts(SchemaVisitor& v, Config& config) {
  TimeoutsConfig& timeouts = config.timeouts;
  net::ServerLimits& server = config.server;
  v.field(duration_field("connect", timeouts.connect, milliseconds(1), hours(1),
                         "To reach an engine, TLS included; then another one is tried."));
  v.field(
      duration_field("first_byte", timeouts.first_byte, Duration{0}, kDay,
                     "From sending a request to the engine's first byte; 0: as long as it takes."));
  v.field(duration_field("idle", timeouts.idle, Duration{0}, kDay,
                         "Between two reads of an engine's answer; 0: as long as it takes."));
  v.field(
      duration_field("queue", timeouts.queue, Duration{0}, kDay,
                     "A request still waiting after this is answered with 503; 0: it waits on."));
  v.field(duration_field("head", server.head_timeout, milliseconds(10), hours(1),
                         "From the first byte of a request's head to its end; then 408."));
  v.field(duration_field("body", server.body_timeout, milliseconds(10), hours(1),
                         "Between two reads of a request's body; then 408."));
  v.field(duration_field("write", server.write_timeout, milliseconds(10), kDay,
                         "A client that takes no byte for so long counts as gone."));
  v.field(duration_field("keep_alive", server.idle_timeout, milliseconds(10), kDay,
                         "A client connection without a request is closed after this."));
}

void visit_health(SchemaVisitor& v, HealthConfig& health) {
  v.field(flag_field("enabled", health.enabled, "Whether engines are probed."));
  v.field(duration_field("interval", health.interval, milliseconds(10), hours(1),
                         "Between two probes of an engine."));
  v.field(duration_field("timeout", health.timeout, milliseconds(10), hours(1),
                         "A probe without an answer after this has failed."));
  v.field(int_field("unhealthy_after", health.unhealthy_after, 1, 1000,
                    "Failed probes or requests in a row until an engine gets no new requests; one "
                    "that never answered is out after the first."));
  v.field(int_field("healthy_after", health.healthy_after, 1, 1000,
                    "Good probes in a row until it gets requests again."));
}

void visit_predict(SchemaVisitor& v, PredictConfig& predict) {
  v.field(choice_field(
      "mode", predict.mode,
      {{"off", PredictMode::kOff}, {"shadow", PredictMode::kShadow}, {"on", PredictMode::kOn}},
      "off: nothing is predicted. shadow: predict and learn, but order by arrival. "
      "on: predictions order the queue once they are calibrated."));
  v.field(choice_field("predictor", predict.predictor,
                       {{"online", PredictorKind::kOnline}, {"prior", PredictorKind::kPrior}},
                       "online: learns from every finished answer. prior: only averages per model "
                       "and tenant."));
  v.field(flag_field("accept_given_laws", predict.accept_given_laws,
                     "Whether clients may state an answer's length law in the header "
                     "x-tailrace-length-law. They can jump the queue with it."));
  v.field(flag_field("learn_from_estimates", predict.learn_from_estimates,
                     "Whether to learn from counted events where an engine reports no usage (cut "
                     "answers are learned from them in any case, as a least length)."));
  v.field(text_field("model_file", predict.model_file,
                     "File that keeps what was learned across restarts; none: it is forgotten."));
  v.field(duration_field("save_every", predict.save_every, seconds(1), kDay,
                         "How often that file is written."));
  v.field(tokens_field("default_cap", predict.default_cap, 1, 1 << 30,
                       "Longest answer, in tokens, to reckon with where neither request nor model "
                       "say more."));
  v.field(count_field("batch_max", predict.batcher.batch_max, 1, 4096,
                      "Most requests predicted together."));
  v.field(duration_field("batch_wait", predict.batcher.wait_max, Duration{0}, seconds(1),
                         "Longest wait for a batch to fill."));
  v.field(count_field("pending_max", predict.batcher.pending_max, 1, 1'000'000,
                      "Requests that may wait for a prediction; the oldest beyond it go without."));
  predict::PredictorOptions& options = predict.options;
  v.field(real_field("prior_mu", options.prior_mu, 0, 20,
                     "Natural logarithm of a typical answer's length, before anything is known."));
  v.field(real_field("prior_sigma", options.prior_sigma, 0.01, 10,
                     "Spread of that logarithm, before anything is known."));
  v.field(int_field("table_bits", options.table_bits, 8, 24,
                    "The learner keeps 2^table_bits weights per parameter."));
  v.field(int_field("min_samples", options.min_samples, 1, 1'000'000,
                    "Finished answers before predictions may order the queue."));
}

void visit_drain(SchemaVisitor& v, DrainConfig& drain) {
  v.field(duration_field("limit", drain.limit, Duration{0}, kDay,
                         "After SIGTERM, answers under way may take so long; then they are cut."));
  v.field(
      duration_field("notice", drain.notice, Duration{0}, hours(1),
                     "Before that, how long to report not ready while still accepting requests."));
}

void visit_logging(SchemaVisitor& v, LoggingConfig& logging) {
  v.field(core::log_level_field(logging.level));
  v.field(core::log_format_field(logging.format));
  v.field(flag_field("requests", logging.requests, "Whether each finished request is one line."));
}

}  // namespace

void visit_backend(SchemaVisitor& v, BackendConfig& backend) {
  v.field(required(text_field("name", backend.name,
                              "Its name in headers, metrics and the admin API: letters, digits, "
                              "dots, dashes and underscores.")));
  v.field(required(url_field("url", backend.url,
                             "Where the engine listens; a path is put before every request's.")));
  v.field(required(text_list_field("models", backend.models,
                                   "Names of the models it serves, as requests spell them.")));
  v.field(required(int_field("slots", backend.slots, 1, 100'000,
                             "Requests it may hold at once: vLLM's --max-num-seqs, llama.cpp's "
                             "--parallel.")));
  v.field(text_field("api_key_env", backend.api_key_env,
                     "Environment variable that holds the engine's API key, sent as a bearer token "
                     "instead of the client's."));
  v.field(text_field("api_key_file", backend.api_key_file, "File that holds it instead."));
  v.field(text_field("health_path", backend.health_path,
                     "Path of its health check, behind the URL's own path."));
  v.field(choice_field("usage", backend.usage,
                       {{"auto", UsageRequest::kAuto}, {"off", UsageRequest::kOff}},
                       "auto: streams ask the engine for usage, and the event that this adds does "
                       "not reach clients that did not ask. off: for engines that refuse "
                       "stream_options."));
}

void visit_config(SchemaVisitor& v, Config& config) {
  v.field(endpoint_field("listen", config.listen, "Address of the OpenAI API for clients."));
  v.section("admin", "The listener for operators.", [&] { visit_admin(v, config.admin); });
  v.list("backends", "The engines. May be empty: the admin API can add some.", [&] {
    config.backends.emplace_back();
    visit_backend(v, config.backends.back());
  });
  v.map("models", "What a model can hold, by its name. Models need no entry here.",
        [&](const std::string& name) { visit_model(v, config.models[name]); });
  v.section("schedule", "Who goes next.", [&] { visit_schedule(v, config.dispatch); });
  v.section("predict", "How lengths are predicted.", [&] { visit_predict(v, config.predict); });
  v.section("limits", "What clients may send.", [&] { visit_limits(v, config); });
  v.section("timeouts", "How long to wait for whom.", [&] { visit_timeouts(v, config); });
  v.section("health", "How engines are probed.", [&] { visit_health(v, config.health); });
  v.section("drain", "How the gateway stops.", [&] { visit_drain(v, config.drain); });
  v.section("logging", "What is logged, on standard error.",
            [&] { visit_logging(v, config.logging); });
}

}  // namespace tailrace::gateway
