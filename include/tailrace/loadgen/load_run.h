// How long do requests take when they arrive by themselves, whether or not the server keeps up?
//
// A LoadRun sends each request at its intended time (open loop) and measures every latency from
// that time, so a slow server or a late generator cannot hide waiting (no coordinated omission).
// All times, given and reported, are seconds of the emulated time line: `time_scale` of them pass
// in one real second. Loop thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/loadgen/workload.h"
#include "tailrace/net/http_client.h"
#include "tailrace/report/latency_sketch.h"

namespace tailrace::loadgen {

struct LoadOptions {
  net::Url target;  ///< "http://127.0.0.1:8080" or with a prefix before /v1
  std::string model;
  bool stream = true;
  double time_scale = 1;
  std::size_t in_flight_max = 10'000;  ///< further requests wait; their latency counts all the same
  bool send_laws = false;     ///< header x-tailrace-length-law of requests that carry a law
  bool send_lengths = false;  ///< body field emulator_output_tokens
  std::vector<net::Header> headers;
  double timeout_s = 0;  ///< from sending; 0: none
};

struct PlannedRequest {
  double intended_s = 0;
  std::size_t request = 0;  ///< index in the workload
};

struct RequestOutcome {
  std::string id;
  double intended_s = 0;
  double sent_s = 0;
  std::optional<double> ttft_s;      ///< streamed answers only
  std::optional<double> itl_mean_s;  ///< streamed answers of two tokens or more
  double e2e_s = 0;
  std::int64_t output_tokens = 0;
  bool tokens_from_usage = false;  ///< else counted events
  int status = 0;                  ///< 0: no answer
  std::string finish_reason;
  std::string error;  ///< empty: completed; else a kind such as "http_429", "timeout", "stream_cut"
  std::string request_id;  ///< the gateway's headers, empty where absent
  std::string backend;
  std::optional<double> queue_ms;  ///< of the gateway's clock: real time

  bool ok() const { return error.empty(); }
  double per_token_s() const {
    return e2e_s / static_cast<double>(output_tokens > 0 ? output_tokens : 1);
  }
};

struct LoadProgress {
  std::size_t planned = 0;
  std::size_t sent = 0;
  std::size_t in_flight = 0;
  std::size_t completed = 0;
  std::size_t failed = 0;
};

class LoadRun {
 public:
  /// `plan` is ascending in time; `loop` and `client` must outlive the run.
  static std::unique_ptr<LoadRun> make(net::EventLoop& loop, net::HttpClient& client,
                                       std::vector<LoadRequest> workload,
                                       std::vector<PlannedRequest> plan, LoadOptions options);
  virtual ~LoadRun() = default;

  /// Sends everything, then calls `done` once, when every request has an outcome.
  virtual void start(Task done) = 0;
  /// Sends nothing more and gives up what is under way (error "cancelled"); `done` follows.
  virtual void cancel() = 0;

  virtual LoadProgress progress() const = 0;
  virtual const std::vector<RequestOutcome>& outcomes() const = 0;  ///< in the order of the plan
  virtual const report::LatencySketch& token_gaps() const = 0;      ///< of all streams together
  /// What the first failure of each kind said, for people; kinds that said nothing are absent.
  virtual const std::map<std::string, std::string>& first_errors() const = 0;
};

}  // namespace tailrace::loadgen
