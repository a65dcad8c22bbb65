#include "tailrace/emulator/emulator.h"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "emulator/admission_watch.h"
#include "emulator/answer.h"
#include "emulator/engine_driver.h"
#include "emulator/engine_metrics.h"
#include "emulator/generation_request.h"
#include "emulator/wire.h"
#include "tailrace/core/log.h"
#include "tailrace/core/rng.h"

namespace tailrace::emulator {
namespace {

using net::Exchange;
using ExchangePtr = std::shared_ptr<Exchange>;

// A request has at most 128 choices, so its number and the choice's make the sequence's id.
constexpr std::uint64_t kChoiceBits = 7;
constexpr Duration kDrainPoll = std::chrono::milliseconds(5);

engine::SequenceId sequence_id(std::uint64_t answer, std::size_t choice) {
  return engine::SequenceId((answer << kChoiceBits) | choice);
}

void respond_json(Exchange& exchange, int status, std::string body) {
  net::ResponseHead head{status, "", {{"content-type", "application/json"}}};
  if (status == 429 || status == 503) head.headers.add("retry-after", "1");
  exchange.respond(std::move(head), std::move(body));
}

void refuse(Exchange& exchange, int status, std::string_view type, std::string_view message) {
  respond_json(exchange, status, error_body(status, type, message));
}

int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kResourceExhausted:
      return 413;
    case ErrorCode::kDeadlineExceeded:
      return 408;
    default:
      return 400;
  }
}

class Server final : public Emulator, private TokenSink {
 public:
  Server(net::EventLoop& loop, const EmulatorConfig& config)
      : loop_(loop),
        config_(config),
        core_(config.engine, make_scheduler(config.scheduling)),
        driver_(loop, core_, config.time_scale, *this),
        metrics_(config.model, config.engine) {}

  Result<void> listen(net::Network& network) {
    auto server = net::HttpServer::listen(
        loop_, network, config_.listen, config_.server_limits.value_or(net::ServerLimits{}),
        [this](ExchangePtr exchange) { on_request(std::move(exchange)); });
    if (!server) return fail(server.error());
    server_ = std::move(*server);
    return {};
  }

  net::Endpoint local() const override { return server_->local(); }
  engine::EngineState state() const override { return core_.state(); }
  std::string metrics() const override { return metrics_.text(core_.state(), driver_.lag()); }

  void drain(Duration deadline, Task done) override {
    drained_ = std::move(done);
    server_->close_when_idle();
    drain_until_ = loop_.now() + deadline;
    poll_drain();
  }

 private:
  std::unique_ptr<engine::BatchScheduler> make_scheduler(EmulatorConfig::Scheduling scheduling) {
    auto line = scheduling == EmulatorConfig::Scheduling::kPriority
                    ? engine::make_priority_scheduler()
                    : engine::make_fcfs_scheduler();
    return std::make_unique<AdmissionWatch>(
        std::move(line), [this](engine::SequenceId id, MonoTime at) { on_admitted(id, at); });
  }

  // Requests ------------------------------------------------------------------------------------

  void on_request(ExchangePtr exchange) {
    const std::string_view path = exchange->head().path();
    const std::string_view method = exchange->head().method;
    const bool chat = path == "/v1/chat/completions";
    if (chat || path == "/v1/completions") {
      if (method != "POST") return refuse_method(*exchange, "POST");
      return on_generation(std::move(exchange), chat);
    }
    if (method != "GET" && method != "HEAD") return refuse_method(*exchange, "GET");
    if (path == "/v1/models") {
      return respond_json(*exchange, 200,
                          models_body(config_.model, created(), config_.engine.max_model_len));
    }
    if (path == "/metrics") {
      return exchange->respond(
          {200, "", {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}}}, metrics());
    }
    if (path == "/version") {
      return respond_json(*exchange, 200, R"({"version":"tailrace-emulator"})");
    }
    if (path == "/health" || path == "/ping") {
      return exchange->respond({drained_ ? 503 : 200, "", {}}, "");
    }
    refuse(*exchange, 404, "NotFoundError", "there is no such route");
  }

  static void refuse_method(Exchange& exchange, std::string_view allowed) {
    exchange.respond(
        {405, "", {{"content-type", "application/json"}, {"allow", std::string(allowed)}}},
        error_body(405, "MethodNotAllowed", "this route does not take that method"));
  }

  void on_generation(ExchangePtr exchange, bool chat) {
    Exchange& asked = *exchange;
    asked.read_body(config_.body_bytes_max, [this, exchange = std::move(exchange),
                                             chat](Result<std::string> body) mutable {
      if (!body) {
        if (body.error().code == ErrorCode::kCancelled) return;
        return refuse(*exchange, status_of(body.error()), "BadRequestError", body.error().message);
      }
      auto request = parse_generation_request(
          *body, chat, config_.engine.prefix_caching ? config_.engine.block_tokens : 0);
      if (!request) {
        return refuse(*exchange, 400, "BadRequestError", request.error().message);
      }
      accept(std::move(exchange), std::move(*request));
    });
  }

  void accept(ExchangePtr exchange, GenerationRequest request) {
    if (drained_) {
      return refuse(*exchange, 503, "ServiceUnavailable", "the engine is shutting down");
    }
    if (request.model.empty()) request.model = config_.model;
    if (request.model != config_.model) {
      return refuse(*exchange, 404, "NotFoundError",
                    fmt::format("The model `{}` does not exist.", request.model));
    }
    if (request.fault.kind == Fault::kNone) request.fault = config_.fault;
    if (request.fault.kind == Fault::kStatus) {
      return refuse(*exchange, request.fault.status, "EmulatedFault",
                    "refused because emulator_fault asked for it");
    }
    if (request.priority != 0 && config_.scheduling == EmulatorConfig::Scheduling::kFcfs) {
      return refuse(
          *exchange, 400, "BadRequestError",
          fmt::format("priority is {}, but this engine serves first come, first served; "
                      "leave it out or start the engine with --scheduling-policy priority",
                      request.priority));
    }
    const engine::EngineState state = core_.state();
    if (state.running + state.waiting + static_cast<std::size_t>(request.n) > config_.queued_max) {
      metrics_.refused();
      return refuse(*exchange, 503, "ServiceUnavailable",
                    fmt::format("{} requests run or wait already", config_.queued_max));
    }
    const auto cap = answer_cap(request);
    if (!cap) return refuse(*exchange, 400, "BadRequestError", cap.error().message);
    start_answer(std::move(exchange), std::move(request), *cap);
  }

  Result<std::int64_t> answer_cap(const GenerationRequest& request) const {
    const std::int64_t room = config_.engine.max_model_len - request.prompt_tokens;
    const std::int64_t wanted = request.max_tokens.value_or(1);
    if (wanted > room) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("This model's maximum context length is {} tokens. However, you "
                              "requested {} tokens ({} in the prompt, {} in the completion).",
                              config_.engine.max_model_len, request.prompt_tokens + wanted,
                              request.prompt_tokens, wanted));
    }
    return request.max_tokens.value_or(room);
  }

  void start_answer(ExchangePtr exchange, GenerationRequest request, std::int64_t cap) {
    const std::uint64_t id = next_answer_++;
    std::vector<Choice> choices(static_cast<std::size_t>(request.n));
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      choices[i].tokens = answer_tokens(request, config_.lengths, index, cap);
      choices[i].cut = choices[i].tokens == cap;
    }
    if (request.fault.kind != Fault::kNeverAnswer) {
      if (auto queued = queue_sequences(id, request, choices); !queued) {
        return refuse(*exchange, 400, "BadRequestError", queued.error().message);
      }
    }
    exchange->on_client_gone([this, id, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) on_client_gone(id);
    });
    AnswerWriter writer(request, answer_name(*exchange, request.chat, id), created());
    answers_.emplace(
        id, std::make_unique<Answer>(std::move(exchange), std::move(request), std::move(choices),
                                     std::move(writer), driver_.emulated_now()));
  }

  Result<void> queue_sequences(std::uint64_t id, const GenerationRequest& request,
                               const std::vector<Choice>& choices) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      engine::SequenceSpec sequence{sequence_id(id, i), Tokens(request.prompt_tokens),
                                    Tokens(choices[i].tokens), request.priority};
      sequence.prefix = {request.prefix_ids, config_.engine.block_tokens};
      auto added = driver_.add(sequence);
      if (added) continue;
      abort_sequences(id, i);
      return added;
    }
    return {};
  }

  std::string answer_name(const Exchange& exchange, bool chat, std::uint64_t id) const {
    const std::string_view prefix = chat ? "chatcmpl-" : "cmpl-";
    if (const auto given = exchange.head().headers.find("x-request-id")) {
      return fmt::format("{}{}", prefix, *given);
    }
    return fmt::format("{}{:016x}", prefix,
                       stable_hash(fmt::format("{}", id), config_.lengths.seed));
  }

  std::int64_t created() const {
    return config_.unix_start_s + static_cast<std::int64_t>(to_seconds(loop_.now()));
  }

  // Tokens --------------------------------------------------------------------------------------

  void on_iteration(const engine::Iteration& iteration) override {
    iteration_ = iteration;
    metrics_.iteration(iteration.batch_tokens.count());
  }

  void on_admitted(engine::SequenceId sequence, MonoTime at) {
    const auto found = answers_.find(sequence.count() >> kChoiceBits);
    if (found == answers_.end() || found->second->admitted) return;  // again, after a preemption
    found->second->admitted = at;
  }

  void on_token(const engine::TokenEvent& event) override {
    const std::uint64_t id = event.id.count() >> kChoiceBits;
    const std::size_t choice = event.id.count() & ((1U << kChoiceBits) - 1);
    const auto found = answers_.find(id);
    if (found == answers_.end()) return;  // gone within this turn
    Answer& answer = *found->second;
    count_token(answer, choice);
    if (answer.take_token(choice, iteration_.ends)) {
      answer.fail_as(answer.request().fault);
      abort_sequences(id, answer.choices().size());
      answers_.erase(found);
      return;
    }
    if (answer.all_generated()) count_finished(answer);
    if (answer.queued_for_flush) return;
    answer.queued_for_flush = true;
    to_flush_.push_back(id);
  }

  void on_turn_end() override {
    for (const std::uint64_t id : to_flush_) flush(id);
    to_flush_.clear();
  }

  void flush(std::uint64_t id) {
    const auto found = answers_.find(id);
    if (found == answers_.end()) return;
    Answer& answer = *found->second;
    answer.queued_for_flush = false;
    if (answer.flush()) {
      answers_.erase(found);
      return;
    }
    if (!answer.has_pending()) return;
    answer.exchange().on_writable([this, id, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) flush(id);
    });
  }

  void count_token(Answer& answer, std::size_t choice) {
    const Answer::Progress& progress = answer.progress(choice);
    if (progress.generated > 0) {
      metrics_.next_token(iteration_.ends - progress.last_token);
      return;
    }
    if (answer.generated() == 0) {
      metrics_.prompt_started(answer.request().prompt_tokens);
      answer.first_token = iteration_.ends;
    }
    metrics_.first_token(iteration_.ends - answer.arrived());
  }

  void count_finished(const Answer& answer) {
    bool cut = false;
    for (const Choice& choice : answer.choices()) cut = cut || choice.cut;
    const MonoTime admitted = *answer.admitted;
    const MonoTime first_token = *answer.first_token;
    metrics_.finished({answer.request().prompt_tokens, answer.generated(),
                       iteration_.ends - answer.arrived(), admitted - answer.arrived(),
                       first_token - admitted, iteration_.ends - first_token, cut});
  }

  // Ends ----------------------------------------------------------------------------------------

  void on_client_gone(std::uint64_t id) {
    const auto found = answers_.find(id);
    if (found == answers_.end()) return;
    abort_sequences(id, found->second->choices().size());
    if (!found->second->all_generated()) metrics_.aborted();
    answers_.erase(found);
  }

  void abort_sequences(std::uint64_t id, std::size_t choices) {
    for (std::size_t i = 0; i < choices; ++i) driver_.abort(sequence_id(id, i));
  }

  void poll_drain() {
    if (server_->exchanges() > 0 && loop_.now() < drain_until_) {
      drain_timer_ = loop_.after(kDrainPoll, [this] { poll_drain(); });
      return;
    }
    for (auto& [id, answer] : answers_) {
      abort_sequences(id, answer->choices().size());
      answer->exchange().abort();
    }
    answers_.clear();
    server_->stop_accepting();
    drained_();
  }

  net::EventLoop& loop_;
  EmulatorConfig config_;
  engine::BatchEngine core_;
  EngineDriver driver_;
  EngineMetrics metrics_;
  std::unique_ptr<net::HttpServer> server_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Answer>> answers_;
  std::uint64_t next_answer_ = 1;
  std::vector<std::uint64_t> to_flush_;
  engine::Iteration iteration_;
  Task drained_;
  MonoTime drain_until_;
  std::unique_ptr<net::Timer> drain_timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<Emulator>> Emulator::start(net::EventLoop& loop, net::Network& network,
                                                  const EmulatorConfig& config) {
  if (auto ok = config.check(); !ok) return fail(ok.error());
  auto server = std::make_unique<Server>(loop, config);
  if (auto ok = server->listen(network); !ok) return fail(ok.error());
  return std::unique_ptr<Emulator>(std::move(server));
}

}  // namespace tailrace::emulator
