// What is one generation request doing right now, and what ends it?
//
//   reading → parsing → queued → connecting → first byte → streaming → ended
//                         ↑___________|____________|  (engine busy, or dead before its first byte)
//
// Every arrow out of a state releases what the state held: the queue entry, the slot, the
// connection to the engine, the timers. The client may leave in any state. Owned by the gateway
// until it ends; callbacks of others hold weak references. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "gateway/answer_relay.h"
#include "gateway/context.h"
#include "gateway/error_body.h"
#include "gateway/request_reader.h"
#include "tailrace/net/http_server.h"

namespace tailrace::gateway {

class GenerationRequest : public std::enable_shared_from_this<GenerationRequest> {
 public:
  GenerationRequest(Context& context, JobId id, Route route, std::string request_id,
                    std::shared_ptr<net::Exchange> exchange);

  void start();
  /// The dispatcher gave it a slot.
  void run(const dispatch::Assignment& assignment);
  /// The predictor's answer.
  void predicted(const predict::Prediction& prediction);
  /// Backends went or shrank: ends now if it waits for what nobody can give it any more.
  void backends_changed();
  /// The drain limit has passed: ends now, in whatever state.
  void shut_down();
  bool awaits_law() const { return asked_for_law_ && !record_->law; }
  const std::string& model() const { return parsed_.model; }
  bool waits() const { return state_ == State::kQueued; }
  /// That it is predicted to generate, all of its answers together; empty without a law that
  /// counts.
  std::optional<double> predicted_tokens() const { return predicted_tokens_; }

 private:
  enum class State { kReading, kParsing, kQueued, kConnecting, kFirstByte, kStreaming, kEnded };

  // request.cc: up to the queue, and the end.
  void body_arrived(Result<std::string> body);
  void parsed(Result<ReadBody> read);
  void submit(const RequestHints& hints);
  void ask_for_law();
  void use_law(const length::LengthLaw& law);
  void wait_in_queue();
  void waited_too_long();
  void client_gone();
  void refuse(dispatch::Refusal refusal, std::string_view reason,
              std::optional<Duration> retry_after);
  void answer_error(const ErrorAnswer& answer, RequestOutcome outcome,
                    std::optional<Duration> retry_after = {});
  void learn(bool complete);
  /// Tells the predictor that a long answer still goes on, each time its length has doubled.
  void report_running();
  void end(RequestOutcome outcome, int status);
  void log_end(RequestOutcome outcome);
  LeaveState leave_state() const;
  void enter(State state);

  // request_upstream.cc: one attempt at an engine.
  void connected();
  void got_head(net::ResponseHead head);
  void got_body(std::string_view bytes);
  void got_end();
  void got_error(const net::CallError& error);
  void first_byte_timed_out();
  void engine_refused();
  void relay_refusal();
  void failed_before_first_byte(const net::CallError& error);
  void failed_mid_answer(const net::CallError& error);
  bool another_backend_could() const;
  void back_to_queue(std::string_view avoid);
  void count_failure(const net::CallError& error);
  net::Headers added_headers() const;
  net::CallHandlers handlers();
  void first_byte_came(MonoTime now);
  void count_tokens(MonoTime now, std::int64_t events_before);

  Context& context_;
  const JobId id_;
  const Route route_;
  const std::shared_ptr<net::Exchange> exchange_;
  const std::shared_ptr<RequestRecord> record_;
  State state_ = State::kReading;

  ParsedRequest parsed_;
  ModelMetrics* metrics_;  ///< of the model; looked up once, since streams count every event
  bool asked_for_law_ = false;
  std::optional<double> predicted_tokens_;
  std::shared_ptr<const std::string> body_;
  std::shared_ptr<const std::string> body_with_usage_;
  MonoTime arrival_;  ///< of the whole request: when it joined the queue
  std::optional<MonoTime> deadline_;
  std::unique_ptr<net::Timer> queue_timer_;

  // The attempt under way.
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<net::Call> call_;
  std::optional<AnswerRelay> relay_;
  std::unique_ptr<net::Timer> first_byte_timer_;
  std::set<std::string, std::less<>> failed_backends_;
  std::optional<PacedStream> pace_;
  MonoTime last_event_;
  Tokens reported_{0};  ///< so many tokens the predictor was told of in passing

  // The engine's last "busy", kept to be relayed when the patience ends.
  struct EngineRefusal {
    net::ResponseHead head;
    std::string body;
  };
  std::optional<EngineRefusal> refusal_;
  bool refusing_ = false;  ///< the answer under way is a refusal
  std::optional<MonoTime> first_refusal_;
};

}  // namespace tailrace::gateway
