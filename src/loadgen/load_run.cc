#include "tailrace/loadgen/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <iterator>
#include <unordered_map>

#include "loadgen/answer_reader.h"
#include "tailrace/core/check.h"
#include "tailrace/core/text.h"

namespace tailrace::loadgen {
namespace {

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text.data(), text.size()));
}

std::string request_body(const LoadRequest& request, const LoadOptions& options) {
  std::string body = fmt::format(R"({{"model":{},"messages":{},"stream":{})",
                                 json_text(options.model), request.messages_json, options.stream);
  if (options.stream) body += R"(,"stream_options":{"include_usage":true})";
  if (request.max_tokens) body += fmt::format(R"(,"max_tokens":{})", *request.max_tokens);
  if (options.send_lengths && request.output_tokens) {
    body += fmt::format(R"(,"emulator_output_tokens":{})", *request.output_tokens);
  }
  // "{…}" without its opening brace continues the object.
  const std::string_view fields = request.fields_json;
  if (fields.size() > 2) {
    body += ',';
    body += fields.substr(1);
  } else {
    body += '}';
  }
  return body;
}

net::RequestHead request_head(const LoadRequest& request, const LoadOptions& options) {
  net::RequestHead head;
  head.method = "POST";
  head.target = options.target.prefix + "/v1/chat/completions";
  head.headers.add("content-type", "application/json");
  head.headers.add("accept", options.stream ? "text/event-stream" : "application/json");
  for (const net::Header& header : options.headers) head.headers.add(header.name, header.value);
  if (options.send_laws && request.law) {
    head.headers.add("x-tailrace-length-law",
                     fmt::format("log-t;mu={};sigma={};nu={}", request.law->mu, request.law->sigma,
                                 request.law->nu));
  }
  return head;
}

std::string kind_of(const net::CallError& error) {
  switch (error.phase) {
    case net::CallPhase::kConnect:
      return fmt::format("connect_{}", to_string(error.error.code));
    case net::CallPhase::kSend:
      return fmt::format("send_{}", to_string(error.error.code));
    case net::CallPhase::kFirstByte:
      return fmt::format("first_byte_{}", to_string(error.error.code));
    case net::CallPhase::kBody:
      return fmt::format("body_{}", to_string(error.error.code));
  }
  return "unknown";
}

void read_gateway_headers(const net::Headers& headers, RequestOutcome& outcome) {
  const auto text = [&](std::string_view name) {
    return std::string(headers.find(name).value_or(std::string_view{}));
  };
  outcome.request_id = text("x-tailrace-request-id");
  outcome.backend = text("x-tailrace-backend");
  if (const auto queue = headers.find("x-tailrace-queue-ms")) {
    outcome.queue_ms = core::parse_double(core::trim(*queue));
  }
}

bool is_event_stream(const net::Headers& headers) {
  return headers.find("content-type").value_or("").starts_with("text/event-stream");
}

class Run final : public LoadRun {
 public:
  Run(net::EventLoop& loop, net::HttpClient& client, std::vector<LoadRequest> workload,
      std::vector<PlannedRequest> plan, LoadOptions options)
      : loop_(loop),
        client_(client),
        workload_(std::move(workload)),
        plan_(std::move(plan)),
        options_(std::move(options)),
        outcomes_(plan_.size()) {
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      TAILRACE_CHECK(plan_[i].request < workload_.size());
      outcomes_[i].id = workload_[plan_[i].request].id;
      outcomes_[i].intended_s = plan_[i].intended_s;
    }
  }

  void start(Task done) override {
    done_ = std::move(done);
    start_ = loop_.now();
    loop_.post([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) pump();
    });
  }

  void cancel() override {
    for (std::size_t i = next_; i < plan_.size(); ++i) {
      outcomes_[i].error = "cancelled";
      outcomes_[i].sent_s = outcomes_[i].intended_s;
      ++progress_failed_;
    }
    next_ = plan_.size();
    timer_.reset();
    std::vector<std::size_t> under_way;
    for (const auto& [index, flight] : flights_) under_way.push_back(index);
    std::sort(under_way.begin(), under_way.end());
    for (const std::size_t index : under_way) end(index, "cancelled");
    finish_if_over();
  }

  LoadProgress progress() const override {
    return {plan_.size(), next_, flights_.size(), progress_completed_, progress_failed_};
  }
  const std::vector<RequestOutcome>& outcomes() const override { return outcomes_; }
  const report::LatencySketch& token_gaps() const override { return gaps_; }
  const std::map<std::string, std::string>& first_errors() const override { return first_errors_; }

 private:
  struct Flight {
    std::unique_ptr<AnswerReader> reader;
    std::unique_ptr<net::Call> call;
    std::unique_ptr<net::Timer> timeout;
  };

  double now_s() const { return to_seconds(loop_.now() - start_) * options_.time_scale; }
  MonoTime real_time(double emulated_s) const {
    return start_ + from_seconds(emulated_s / options_.time_scale);
  }

  /// Sends whatever is due, then waits for the next intended time or for room.
  void pump() {
    timer_.reset();
    while (next_ < plan_.size() && flights_.size() < options_.in_flight_max &&
           real_time(plan_[next_].intended_s) <= loop_.now()) {
      send(next_++);
    }
    if (next_ < plan_.size() && flights_.size() < options_.in_flight_max) {
      timer_ = loop_.at(real_time(plan_[next_].intended_s), [this] { pump(); });
    }
    finish_if_over();
  }

  void send(std::size_t index) {
    const LoadRequest& request = workload_[plan_[index].request];
    outcomes_[index].sent_s = now_s();
    Flight& flight = flights_[index];
    if (options_.timeout_s > 0) {
      flight.timeout = loop_.after(from_seconds(options_.timeout_s / options_.time_scale),
                                   [this, index] { end(index, "timeout"); });
    }
    net::CallHandlers handlers;
    handlers.on_head = [this, index](net::ResponseHead head) { on_head(index, head); };
    handlers.on_body = [this, index](std::string_view bytes) {
      flights_.at(index).reader->feed(bytes, now_s());
    };
    handlers.on_end = [this, index] { on_end(index); };
    handlers.on_error = [this, index](net::CallError error) {
      const std::string kind = kind_of(error);
      note_error(kind, error.error.message);
      end(index, kind);
    };
    flight.call =
        client_.start(options_.target.endpoint, request_head(request, options_),
                      std::make_shared<const std::string>(request_body(request, options_)),
                      net::CallTimeouts{}, std::move(handlers));
  }

  void on_head(std::size_t index, const net::ResponseHead& head) {
    outcomes_[index].status = head.status;
    read_gateway_headers(head.headers, outcomes_[index]);
    flights_.at(index).reader = std::make_unique<AnswerReader>(
        is_event_stream(head.headers), [this](double gap_s) { gaps_.add(gap_s); });
  }

  void on_end(std::size_t index) {
    const int status = outcomes_[index].status;
    std::string error = flights_.at(index).reader->finish();
    if (status >= 300) error = fmt::format("http_{}", status);
    note_error(error, flights_.at(index).reader->error_message());
    end(index, std::move(error));
  }

  void note_error(const std::string& kind, const std::string& said) {
    if (!kind.empty() && !said.empty()) first_errors_.emplace(kind, said);
  }

  /// Every request ends here, exactly once.
  void end(std::size_t index, std::string error) {
    const auto found = flights_.find(index);
    if (found == flights_.end()) return;
    RequestOutcome& outcome = outcomes_[index];
    outcome.e2e_s = now_s() - outcome.intended_s;
    outcome.error = std::move(error);
    if (const AnswerReader* reader = found->second.reader.get()) read_counts(*reader, outcome);
    ++(outcome.ok() ? progress_completed_ : progress_failed_);
    // The call is running this very handler: it goes when the handler has returned.
    flights_.erase(found);
    pump();
  }

  static void read_counts(const AnswerReader& reader, RequestOutcome& outcome) {
    outcome.output_tokens = reader.tokens();
    outcome.tokens_from_usage = reader.from_usage();
    outcome.finish_reason = reader.finish_reason();
    if (!reader.first_token_s()) return;
    outcome.ttft_s = *reader.first_token_s() - outcome.intended_s;
    if (outcome.output_tokens < 2) return;
    outcome.itl_mean_s = (*reader.last_token_s() - *reader.first_token_s()) /
                         static_cast<double>(outcome.output_tokens - 1);
  }

  void finish_if_over() {
    if (next_ < plan_.size() || !flights_.empty() || !done_) return;
    loop_.post(std::move(done_));
    done_ = {};
  }

  net::EventLoop& loop_;
  net::HttpClient& client_;
  std::vector<LoadRequest> workload_;
  std::vector<PlannedRequest> plan_;
  LoadOptions options_;
  std::vector<RequestOutcome> outcomes_;
  report::LatencySketch gaps_;
  std::map<std::string, std::string> first_errors_;
  std::unordered_map<std::size_t, Flight> flights_;
  std::size_t next_ = 0;
  std::size_t progress_completed_ = 0;
  std::size_t progress_failed_ = 0;
  MonoTime start_;
  std::unique_ptr<net::Timer> timer_;
  Task done_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<LoadRun> LoadRun::make(net::EventLoop& loop, net::HttpClient& client,
                                       std::vector<LoadRequest> workload,
                                       std::vector<PlannedRequest> plan, LoadOptions options) {
  return std::make_unique<Run>(loop, client, std::move(workload), std::move(plan),
                               std::move(options));
}

}  // namespace tailrace::loadgen
