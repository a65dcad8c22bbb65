// A sequence as the engine knows it, its true length included.
#pragma once

#include <cstdint>

#include "engine/kv_pool.h"
#include "tailrace/engine/engine_core.h"

namespace tailrace::engine {

struct Sequence {
  SequenceId id;
  MonoTime arrival;
  int priority = 0;
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t generated = 0;
  std::int64_t computed = 0;   // context tokens in KV, those of the iteration under way included
  std::int64_t scheduled = 0;  // of them, tokens of the iteration under way
  std::int64_t preemptions = 0;
  std::uint64_t stamp = 0;  // of its admission: the batch is in the order of stamps
  bool running = false;
  // While it decodes in a DecodeSet, `generated`, `computed` and `kv.blocks` are as old as its last
  // refresh.
  bool decoding = false;
  bool filling = false;     // its next full block may join the prefix cache
  std::int64_t offset = 0;  // computed less the set's steps
  KvChain kv;

  std::int64_t known() const { return prompt + generated; }
};

}  // namespace tailrace::engine
