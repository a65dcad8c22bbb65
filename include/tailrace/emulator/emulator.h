// What would a real engine have answered, and when?
//
// An Emulator is an engine core (engine/engine_core.h) behind an OpenAI-compatible server with
// vLLM's routes, wire format and metric names, so that a gateway cannot tell it from an engine:
// answers of a reproducible length, one event per token, a client that leaves frees its slot at
// once. It runs in real time or `time_scale` times faster; when the loop is late, iterations are
// made up for in one turn with the time stamps they should have had, and the lateness is a metric.
// Everything belongs to the loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/net/http_server.h"

namespace tailrace::emulator {

/// What goes wrong on purpose. A request asks for one by the body field "emulator_fault".
enum class Fault {
  kNone,
  kDieBeforeFirstByte,  ///< "die_before_first_byte": the connection is reset when the answer is due
  kDieMidStream,        ///< "die_mid_stream": reset after half of the tokens (of two or more)
  kNeverAnswer,         ///< "never_answer": the request is accepted and nothing follows
  kErrorInStream,  ///< "error_in_stream": after about half, an error event (500 without streaming)
  kStatus,         ///< "status_429" and so on, 400 to 599: refused with that status
};
struct FaultPlan {
  Fault kind = Fault::kNone;
  int status = 0;  ///< for kStatus
};
/// The names above. Errors: kInvalidArgument with the list of names.
Result<FaultPlan> parse_fault(std::string_view name);

/// How long answers are that do not say so themselves: ln X = mu + sigma·T(nu) with mu ~ N(mu,
/// mu_sd) per prompt, all drawn from a hash of the prompt, so that the same prompt always gets the
/// same length.
struct LengthDraw {
  double mu = 4.6;
  double mu_sd = 0.9;
  double sigma = 0.75;
  double nu = 3.5;
  std::uint64_t seed = 1;
};

struct EmulatorConfig {
  net::Endpoint listen{"127.0.0.1", 8000, false};
  std::string model = "emulated";
  engine::EngineConfig engine;
  /// Who waits behind whom: vLLM's --scheduling-policy. Under kPriority the body's "priority"
  /// counts, lower first; under kFcfs a request that gives one other than 0 is refused.
  enum class Scheduling { kFcfs, kPriority };
  Scheduling scheduling = Scheduling::kFcfs;
  double time_scale = 1;  ///< emulated seconds per real second
  /// Running and waiting sequences together (n > 1 counts n); beyond it 503, as vLLM's
  /// --max-num-queued-reqs. Never unbounded.
  std::size_t queued_max = 100'000;
  std::size_t body_bytes_max = 64 * 1024 * 1024;
  LengthDraw lengths;
  FaultPlan fault;                ///< for every request that names none itself
  std::int64_t unix_start_s = 0;  ///< "created" of an answer is this plus the loop's time
  std::optional<net::ServerLimits> server_limits;  ///< defaults of net where absent

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;
};

class Emulator {
 public:
  /// Errors: those of check() and of listening. `loop` and `network` must outlive it.
  static Result<std::unique_ptr<Emulator>> start(net::EventLoop& loop, net::Network& network,
                                                 const EmulatorConfig& config);
  virtual ~Emulator() = default;

  virtual net::Endpoint local() const = 0;
  virtual engine::EngineState state() const = 0;
  /// The text of /metrics.
  virtual std::string metrics() const = 0;

  /// Finishes what runs, refuses what is new, then calls `done` once; after `deadline` of real time
  /// the rest is cut off.
  virtual void drain(Duration deadline, Task done) = 0;
};

}  // namespace tailrace::emulator
