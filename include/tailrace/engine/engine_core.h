// How long does the next iteration of a continuous-batching engine take, and whose tokens come out
// of it?
//
// EngineCore is the seam between an engine and what drives it: the emulator (scaled real time,
// sockets), the simulator (virtual time) and tests call the same functions. It is a state machine
// without clock, thread or socket: the driver says when an iteration begins, and the core says when
// it ends. A driver alternates begin_iteration() and end_iteration(); add() and abort() are legal
// at any moment, also between the two. BatchEngine (batch_engine.h) is the implementation; a more
// faithful one (KV blocks, prefix cache, priorities) replaces it behind this interface. One thread.
#pragma once

#include <optional>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"

namespace tailrace::engine {

struct SequenceIdTag {};
/// One answer under generation. A request for n answers is n sequences.
using SequenceId = Strong<SequenceIdTag, std::uint64_t>;

/// What an engine is asked to generate. The length is known to the emulation alone, never to a
/// scheduler.
struct SequenceSpec {
  SequenceId id;
  Tokens prompt_tokens{1};  ///< ≥ 1
  Tokens output_tokens{1};  ///< ≥ 1: it ends with this token
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
  Tokens kv_used{0};
  Tokens kv_capacity{0};
  std::uint64_t preemptions = 0;  ///< since the start
  std::uint64_t iterations = 0;   ///< completed since the start
};

class EngineCore {
 public:
  virtual ~EngineCore() = default;

  /// Queues a sequence behind all that wait. Errors: kAlreadyExists; kInvalidArgument when a count
  /// is below one or when prompt and answer together exceed the KV capacity, since it could never
  /// finish.
  virtual Result<void> add(const SequenceSpec& spec) = 0;

  /// Forgets a sequence in any state and frees its slot and KV at once. False if there is none.
  virtual bool abort(SequenceId id) = 0;

  /// Chooses the batch and says when it will be done; nothing if there is no work. Illegal while an
  /// iteration is under way.
  virtual std::optional<Iteration> begin_iteration(MonoTime now) = 0;

  /// Completes the iteration under way: the tokens sampled in it, in batch order. The reference is
  /// valid until the next call.
  virtual const std::vector<TokenEvent>& end_iteration() = 0;

  virtual EngineState state() const = 0;
};

}  // namespace tailrace::engine
