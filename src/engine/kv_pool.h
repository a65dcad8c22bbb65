// Which KV blocks are free, and how much of a prompt need not be computed because its blocks are
// still there?
//
// A KvPool owns an engine's usable blocks. A block is held by sequences (then it counts once,
// however many share it), or free; a free block may still hold known content that a later sequence
// can take up again. Free blocks are used in the order in which they became free, and a sequence
// frees its last block first, so a prefix outlives its continuation.
//
// Content is named by prefix ids. Of one id's stretch the cache always holds the blocks [0, c), and
// of these the sequences together hold [0, h): who holds a block holds all before it, and tails are
// freed and evicted first. So neither needs a record per block: an id has c, h and the free runs
// between them, and the list of free blocks is a list of runs. Cost: O(ids of the sequence), or
// O(runs) where blocks are evicted. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/slot_index.h"

namespace tailrace::engine {

/// What one sequence holds: first blocks that are in the cache, then blocks of its own.
struct KvChain {
  std::vector<std::uint64_t> ids;  ///< one for each `blocks_per_id` blocks, from the first on
  std::int64_t blocks_per_id = 1;
  std::int64_t blocks = 0;   ///< held
  std::int64_t shared = 0;   ///< of them in the cache, always the first ones
  std::int64_t settled = 0;  ///< `shared` before the last publish()
  /// Whether its next full block may join the cache. Once one of its blocks duplicates what another
  /// sequence has cached, that block and all after it are its own.
  bool open = true;

  // The pool's: where the ids of the shared blocks are kept, and the neighbours among those that
  // hold a part of the last one's stretch.
  std::vector<std::uint32_t> entries;
  KvChain* next = nullptr;
  KvChain* previous = nullptr;
};

class KvPool {
 public:
  KvPool(std::int64_t usable_blocks, bool prefix_caching)
      : caching_(prefix_caching), usable_(usable_blocks), free_(usable_blocks) {
    if (caching_) append_anonymous(usable_);
  }

  std::int64_t usable() const { return usable_; }
  std::int64_t free() const { return free_; }

  struct Hit {
    std::int64_t blocks = 0;
    std::int64_t held = 0;  ///< of them by other sequences: they cost no free block
  };
  /// How many of the first `most` blocks are in the cache.
  Hit look_up(const KvChain& chain, std::int64_t most);
  /// Gives a chain without blocks what the last look_up(), which was for it, has found.
  void take(KvChain& chain, const Hit& hit);

  /// `count` ≤ free() blocks without content.
  void allocate(KvChain& chain, std::int64_t count) {
    free_ -= count;
    owed_ += count;
    chain.blocks += count;
  }
  /// The same for chains whose `blocks` the caller keeps.
  void allocate(std::int64_t count) {
    free_ -= count;
    owed_ += count;
  }
  /// The first `full` blocks are now complete: those that have an id join the cache.
  void publish(KvChain& chain, std::int64_t full);
  /// The blocks of the last publish() were not computed after all: they leave the cache. Nobody
  /// else may hold them.
  void withdraw(KvChain& chain);
  /// Frees all it holds.
  void release(KvChain& chain);

  /// Blocks that only this sequence holds.
  std::int64_t exclusive(const KvChain& chain) const;

  /// Whether publish(chain, full) could end otherwise if blocks were evicted first: it would meet
  /// a cached block that nobody holds.
  bool contested(const KvChain& chain, std::int64_t full) const;
  /// Whether allocating `count` blocks would evict known content.
  bool evicts(std::int64_t count);
  /// Whether a full block of it could still join the cache.
  bool may_publish(const KvChain& chain) const {
    return caching_ && chain.open &&
           chain.shared / chain.blocks_per_id < static_cast<std::int64_t>(chain.ids.size());
  }

 private:
  static constexpr std::uint32_t kNone = SlotIndex::kNone;

  /// One id at one place.
  struct Entry {
    std::uint64_t id = 0;
    std::int64_t place = 0;
    std::int64_t size = 0;       // blocks of its stretch
    std::int64_t cached = 0;     // [0, cached) are in the cache
    std::int64_t held = 0;       // [0, held) are held
    std::int64_t full = 0;       // sequences that hold all `size`
    KvChain* partial = nullptr;  // those that hold fewer, but some
    // The lowest of its free runs, each of which lies below those freed earlier. Nothing while
    // held = cached.
    std::uint32_t lowest = kNone;
  };
  /// Neighbouring free blocks: of an entry, or without content.
  struct Run {
    std::uint32_t entry = kNone;
    std::int64_t low = 0, high = 0;
    std::uint32_t older = kNone, newer = kNone;  // in the list of free blocks
    std::uint32_t above =
        kNone;  // the entry's next higher run; nothing where this ends at `cached`
  };

  std::uint64_t hash_of(std::uint64_t id, std::int64_t place, std::int64_t size) const;
  std::uint32_t find(const KvChain& chain, std::int64_t place) const;
  std::uint32_t create(const KvChain& chain, std::int64_t place);
  void forget(std::uint32_t entry);
  void settle();
  void unlink(std::uint32_t run);
  std::uint32_t new_run(std::uint32_t entry, std::int64_t low, std::int64_t high);
  void append_anonymous(std::int64_t count);
  void take_up(Entry& entry, std::int64_t to);
  void join(KvChain& chain, Entry& entry);
  void leave(KvChain& chain, Entry& entry, std::int64_t extent);
  static std::int64_t held_by_others(const Entry& entry, const KvChain& chain, std::int64_t extent);
  static std::int64_t partial_extent(const KvChain& chain) {
    return chain.shared % chain.blocks_per_id;
  }

  bool caching_;
  std::int64_t usable_;
  std::int64_t free_;
  std::int64_t owed_ = 0;  // allocated, but not yet taken from the list
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_entries_;
  SlotIndex index_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> unused_runs_;
  std::uint32_t oldest_ = kNone, newest_ = kNone;
  std::vector<std::uint32_t> found_;  // entries of the last look_up()
};

}  // namespace tailrace::engine
