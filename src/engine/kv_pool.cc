#include "engine/kv_pool.h"

#include <algorithm>

#include "tailrace/core/check.h"

namespace tailrace::engine {

KvPool::Hit KvPool::look_up(const KvChain& chain, std::int64_t most) {
  found_.clear();
  Hit hit;
  if (!caching_ || chain.ids.empty()) return hit;
  settle();
  const auto places = static_cast<std::int64_t>(chain.ids.size());
  for (std::int64_t place = 0; place < places; ++place) {
    const std::int64_t wanted = std::min(chain.blocks_per_id, most - hit.blocks);
    if (wanted <= 0) break;
    const std::uint32_t at = find(chain, place);
    if (at == kNone) break;
    const Entry& entry = entries_[at];
    const std::int64_t blocks = std::min(entry.cached, wanted);
    found_.push_back(at);
    hit.blocks += blocks;
    hit.held += std::min(blocks, entry.held);
    if (blocks < chain.blocks_per_id) break;
  }
  return hit;
}

void KvPool::take(KvChain& chain, const Hit& hit) {
  TAILRACE_CHECK(chain.blocks == 0);
  chain.open = true;
  chain.entries.assign(found_.begin(), found_.end());
  chain.blocks = chain.shared = chain.settled = hit.blocks;
  free_ -= hit.blocks - hit.held;
  std::int64_t left = hit.blocks;
  for (const std::uint32_t at : chain.entries) {
    Entry& entry = entries_[at];
    const std::int64_t extent = std::min(left, chain.blocks_per_id);
    left -= extent;
    take_up(entry, extent);
    if (extent == entry.size) {
      ++entry.full;
    } else {
      join(chain, entry);
    }
  }
}

void KvPool::publish(KvChain& chain, std::int64_t full) {
  chain.settled = chain.shared;
  if (!caching_) return;
  const auto places = static_cast<std::int64_t>(chain.ids.size());
  while (chain.open && chain.shared < full) {
    settle();
    const std::int64_t place = chain.shared / chain.blocks_per_id;
    if (place >= places) return;
    const std::int64_t from = partial_extent(chain);
    std::uint32_t at = from > 0 ? chain.entries.back() : find(chain, place);
    if (at != kNone && entries_[at].cached > from) {
      chain.open = false;
      return;
    }
    if (from == 0) {
      at = create(chain, place);
      chain.entries.push_back(at);
    }
    Entry& entry = entries_[at];
    const std::int64_t count = std::min(full - chain.shared, entry.size - from);
    chain.shared += count;
    entry.cached = entry.held = from + count;
    if (entry.held == entry.size) {
      if (from > 0) leave(chain, entry, from);
      ++entry.full;
      entry.held = entry.size;
    } else if (from == 0) {
      join(chain, entry);
    }
  }
}

void KvPool::withdraw(KvChain& chain) {
  while (chain.shared > chain.settled) {
    const std::int64_t place = (chain.shared - 1) / chain.blocks_per_id;
    const std::int64_t first = place * chain.blocks_per_id;
    Entry& entry = entries_[chain.entries.back()];
    const std::int64_t extent = chain.shared - first;
    TAILRACE_CHECK(entry.cached == extent);
    const std::int64_t kept = std::max<std::int64_t>(0, chain.settled - first);
    leave(chain, entry, extent);
    chain.shared = first + kept;
    entry.cached = kept;
    TAILRACE_CHECK(entry.held <= kept);
    if (kept > 0) {
      join(chain, entry);
      entry.held = kept;
    } else {
      forget(chain.entries.back());
      chain.entries.pop_back();
    }
  }
}

void KvPool::release(KvChain& chain) {
  const std::int64_t own = chain.blocks - chain.shared;
  free_ += own;
  if (caching_) {
    settle();
    append_anonymous(own);
    while (!chain.entries.empty()) {
      const std::uint32_t at = chain.entries.back();
      Entry& entry = entries_[at];
      const auto before = static_cast<std::int64_t>(chain.entries.size() - 1) * chain.blocks_per_id;
      const std::int64_t extent = chain.shared - before;
      leave(chain, entry, extent);
      if (entry.held < extent) {
        const std::uint32_t run = new_run(at, entry.held, extent);
        runs_[run].above = entry.lowest;
        entry.lowest = run;
        free_ += extent - entry.held;
      }
      chain.shared = before;
      chain.entries.pop_back();
    }
  }
  chain.blocks = chain.shared = chain.settled = 0;
}

std::int64_t KvPool::exclusive(const KvChain& chain) const {
  std::int64_t blocks = chain.blocks - chain.shared;
  std::int64_t left = chain.shared;
  for (const std::uint32_t at : chain.entries) {
    const std::int64_t extent = std::min(left, chain.blocks_per_id);
    left -= extent;
    blocks += extent - std::min(extent, held_by_others(entries_[at], chain, extent));
  }
  return blocks;
}

bool KvPool::evicts(std::int64_t count) {
  if (!caching_ || count == 0) return false;
  settle();
  return runs_[oldest_].entry != kNone || runs_[oldest_].high < count;
}

bool KvPool::contested(const KvChain& chain, std::int64_t full) const {
  if (!caching_ || !chain.open) return false;
  const auto places = static_cast<std::int64_t>(chain.ids.size());
  for (std::int64_t at_block = chain.shared; at_block < full;) {
    const std::int64_t place = at_block / chain.blocks_per_id;
    if (place >= places) return false;
    const std::int64_t from = at_block % chain.blocks_per_id;
    const std::uint32_t at = from > 0 ? chain.entries.back() : find(chain, place);
    if (at != kNone && entries_[at].cached > from) return entries_[at].held <= from;
    at_block += chain.blocks_per_id - from;
  }
  return false;
}

std::uint64_t KvPool::hash_of(std::uint64_t id, std::int64_t place, std::int64_t size) const {
  const auto where = static_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15ULL;
  return SlotIndex::mix(SlotIndex::mix(id + where) + static_cast<std::uint64_t>(size));
}

std::uint32_t KvPool::find(const KvChain& chain, std::int64_t place) const {
  const std::uint64_t id = chain.ids[static_cast<std::size_t>(place)];
  const std::int64_t size = chain.blocks_per_id;
  return index_.find(hash_of(id, place, size), [&](std::uint32_t at) {
    const Entry& entry = entries_[at];
    return entry.id == id && entry.place == place && entry.size == size;
  });
}

std::uint32_t KvPool::create(const KvChain& chain, std::int64_t place) {
  std::uint32_t at = static_cast<std::uint32_t>(entries_.size());
  if (unused_entries_.empty()) {
    entries_.emplace_back();
  } else {
    at = unused_entries_.back();
    unused_entries_.pop_back();
  }
  Entry& entry = entries_[at] = Entry{};
  entry.id = chain.ids[static_cast<std::size_t>(place)];
  entry.place = place;
  entry.size = chain.blocks_per_id;
  index_.insert(hash_of(entry.id, place, entry.size), at);
  return at;
}

void KvPool::forget(std::uint32_t at) {
  const Entry& entry = entries_[at];
  index_.erase(hash_of(entry.id, entry.place, entry.size), at);
  unused_entries_.push_back(at);
}

// Takes what allocate() owes from the head of the list: the oldest run first, its last block first.
void KvPool::settle() {
  while (owed_ > 0) {
    Run& run = runs_[oldest_];
    const std::int64_t count = std::min(owed_, run.high - run.low);
    run.high -= count;
    owed_ -= count;
    const std::uint32_t at = run.entry;
    const bool empty = run.high == run.low;
    if (at != kNone) {
      Entry& entry = entries_[at];
      TAILRACE_CHECK(entry.cached == run.high + count);
      entry.cached = run.high;
    }
    if (empty) unlink(oldest_);
    if (at != kNone && entries_[at].cached == 0) forget(at);
  }
}

void KvPool::unlink(std::uint32_t at) {
  const Run& run = runs_[at];
  (run.older == kNone ? oldest_ : runs_[run.older].newer) = run.newer;
  (run.newer == kNone ? newest_ : runs_[run.newer].older) = run.older;
  unused_runs_.push_back(at);
}

std::uint32_t KvPool::new_run(std::uint32_t entry, std::int64_t low, std::int64_t high) {
  std::uint32_t at = static_cast<std::uint32_t>(runs_.size());
  if (unused_runs_.empty()) {
    runs_.emplace_back();
  } else {
    at = unused_runs_.back();
    unused_runs_.pop_back();
  }
  runs_[at] = Run{entry, low, high, newest_, kNone, kNone};
  (newest_ == kNone ? oldest_ : runs_[newest_].newer) = at;
  newest_ = at;
  return at;
}

void KvPool::append_anonymous(std::int64_t count) {
  if (count == 0) return;
  if (newest_ != kNone && runs_[newest_].entry == kNone) {
    runs_[newest_].high += count;
  } else {
    new_run(kNone, 0, count);
  }
}

// Takes the entry's blocks below `to` out of the list of free blocks.
void KvPool::take_up(Entry& entry, std::int64_t to) {
  while (entry.held < to) {
    const std::uint32_t at = entry.lowest;
    Run& run = runs_[at];
    TAILRACE_CHECK(run.low == entry.held);
    run.low = entry.held = std::min(to, run.high);
    if (run.low < run.high) continue;
    entry.lowest = run.above;
    unlink(at);
  }
}

void KvPool::join(KvChain& chain, Entry& entry) {
  chain.previous = nullptr;
  chain.next = entry.partial;
  if (entry.partial != nullptr) entry.partial->previous = &chain;
  entry.partial = &chain;
}

// The chain, which holds `extent` blocks of the entry, holds none any more.
void KvPool::leave(KvChain& chain, Entry& entry, std::int64_t extent) {
  const std::int64_t others = held_by_others(entry, chain, extent);
  if (extent == entry.size) {
    --entry.full;
  } else {
    (chain.previous == nullptr ? entry.partial : chain.previous->next) = chain.next;
    if (chain.next != nullptr) chain.next->previous = chain.previous;
  }
  entry.held = others;
}

std::int64_t KvPool::held_by_others(const Entry& entry, const KvChain& chain, std::int64_t extent) {
  if (entry.full > (extent == entry.size ? 1 : 0)) return entry.size;
  std::int64_t most = 0;
  for (const KvChain* other = entry.partial; other != nullptr; other = other->next) {
    if (other != &chain) most = std::max(most, partial_extent(*other));
  }
  return most;
}

}  // namespace tailrace::engine
