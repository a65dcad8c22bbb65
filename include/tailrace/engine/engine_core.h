// How long does the next iteration of a continuous-batching engine take, and whose tokens come out
// of it?
//
// EngineCore is the seam between an engine and what drives it: the emulator (scaled real time,
// sockets), the simulator (virtual time) and tests call the same functions. It is a state machine
// without clock, thread or socket: the driver says when an iteration begins, and the core says when
// it ends. Two ways to drive it, which give the same schedule and may be mixed: begin_iteration()
// and end_iteration() in turn, with every token; or advance(), which runs iterations in one go and
// reports only what changes a request's life. add() and abort() are legal at any moment, also while
// an iteration is under way. BatchEngine (batch_engine.h) is the implementation. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"

namespace tailrace::engine {

struct SequenceIdTag {};
/// One answer under generation. A request for n answers is n sequences.
using SequenceId = Strong<SequenceIdTag, std::uint64_t>;

/// What a sequence's tokens are, for the prefix cache: equal ids at equal places mean equal tokens
/// from the first one on (an id stands for its stretch and all before it). They may reach beyond
/// the prompt into the answer; tokens beyond the last id are like no others.
struct PrefixIds {
  std::vector<std::uint64_t> ids;
  std::int64_t tokens_per_id = 512;  ///< a multiple of the engine's block; the last may be partial

  friend bool operator==(const PrefixIds&, const PrefixIds&) = default;
};

/// What an engine is asked to generate. The length is known to the emulation alone, never to a
/// scheduler.
struct SequenceSpec {
  SequenceId id;
  Tokens prompt_tokens{1};  ///< ≥ 1
  Tokens output_tokens{1};  ///< ≥ 1: it ends with this token
  int priority = 0;         ///< vLLM's: lower is more urgent; only PriorityScheduler looks at it
  PrefixIds prefix = {};
  /// What the engine's loop does for it before its next iteration can begin, such as a prediction
  /// made inside the scheduler: it delays everybody once.
  Duration blocking{0};
};

/// An iteration under way.
struct Iteration {
  MonoTime begins;
  MonoTime ends;
  Tokens batch_tokens{0};  ///< computed in it: one per decode, a chunk per prefill
  Tokens kv_tokens{0};     ///< context that its sequences hold, what gamma multiplies
};

/// One sampled token.
struct TokenEvent {
  SequenceId id;
  Tokens generated{0};  ///< of this sequence so far, this one included
  bool finished = false;
};

struct EngineState {
  std::size_t running = 0;
  std::size_t waiting = 0;
  Tokens kv_used{0};      ///< in blocks that sequences hold, times the block's tokens
  Tokens kv_capacity{0};  ///< in usable blocks
  /// As kv_used while the iteration under way, or the last one, ran: before its ended sequences
  /// gave theirs back.
  Tokens kv_during{0};
  /// kv_during integrated over the time of all iterations begun since the start, to their ends.
  double kv_token_seconds = 0;
  std::uint64_t preemptions = 0;  ///< since the start
  std::uint64_t iterations = 0;   ///< completed since the start
  Tokens computed{0};             ///< tokens computed since the start, recomputed ones included
  Tokens prefix_asked{0};         ///< of those admitted, looked up in the prefix cache so far
  Tokens prefix_hit{0};           ///< of them, found
};

/// What advance() reports, in the order in which it happens.
class LifeSink {
 public:
  virtual ~LifeSink() = default;
  /// Entered the batch, for the first time or after a preemption, in the iteration that begins at
  /// `at`; `cached` tokens came from the prefix cache.
  virtual void on_admitted(SequenceId id, MonoTime at, Tokens cached) = 0;
  virtual void on_first_token(SequenceId id, MonoTime at) = 0;
  virtual void on_finished(SequenceId id, MonoTime at) = 0;
  virtual void on_preempted(SequenceId id, MonoTime at, Tokens generated) = 0;
};

class EngineCore {
 public:
  virtual ~EngineCore() = default;

  /// Queues a sequence behind all that wait. Errors: kAlreadyExists; kInvalidArgument when a count
  /// is below one, when prompt and answer together exceed the KV capacity, the model's length or,
  /// without chunked prefill, an iteration's tokens, since it could never finish, or when the
  /// prefix cache is on and a prefix id's tokens are no multiple of a block.
  virtual Result<void> add(const SequenceSpec& spec, MonoTime now) = 0;

  /// Forgets a sequence in any state and frees its slot and KV at once. False if there is none.
  virtual bool abort(SequenceId id) = 0;

  /// Chooses the batch and says when it will be done; nothing if there is no work. Illegal while an
  /// iteration is under way.
  virtual std::optional<Iteration> begin_iteration(MonoTime now) = 0;

  /// Completes the iteration under way: the tokens sampled in it, in batch order. The reference is
  /// valid until the next call.
  virtual const std::vector<TokenEvent>& end_iteration() = 0;

  /// Runs iterations one after the other, the first beginning at `now`. Stops before one that would
  /// begin at `until` or later, and, with `stop_at_finish`, after one in which a sequence finished.
  /// Returns when the next iteration may begin; nothing if there is no work. Illegal while an
  /// iteration of begin_iteration() is under way.
  virtual std::optional<MonoTime> advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                          LifeSink& sink) = 0;

  virtual EngineState state() const = 0;
};

}  // namespace tailrace::engine
