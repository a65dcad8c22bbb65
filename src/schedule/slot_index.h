// In which slot does a job wait, given its id?
//
// A flat hash table: no allocation and one or two cache lines a call, where std::unordered_map
// spends a third of a pop on nodes. Ids are given out by the process itself, so no client can
// choose ones that collide. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/indexed_heap.h"
#include "tailrace/core/strong.h"

namespace tailrace::schedule {

class SlotIndex {
 public:
  std::optional<Slot> find(JobId id) const {
    if (size_ == 0) return std::nullopt;
    const Cell& cell = cells_[locate(id)];
    if (cell.slot == kEmpty) return std::nullopt;
    return cell.slot;
  }

  /// `id` is not in the table.
  void insert(JobId id, Slot slot) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    cells_[locate(id)] = {id, slot};
    ++size_;
  }

  /// `id` is in the table.
  void erase(JobId id) {
    std::size_t hole = locate(id);
    // Cells after the hole move back where their search would have passed it (no tombstones).
    for (std::size_t at = next(hole); cells_[at].slot != kEmpty; at = next(at)) {
      const std::size_t home = home_of(cells_[at].id);
      const bool passes_hole = ((at - home) & mask_) >= ((at - hole) & mask_);
      if (!passes_hole) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole] = {};
    --size_;
  }

 private:
  static constexpr Slot kEmpty = UINT32_MAX;
  struct Cell {
    JobId id;
    Slot slot = kEmpty;
  };

  /// Multiplying by the golden ratio spreads consecutive ids, the common case, evenly.
  std::size_t home_of(JobId id) const {
    return static_cast<std::size_t>((id.count() * 0x9E3779B97F4A7C15u) >> 32) & mask_;
  }
  std::size_t next(std::size_t at) const { return (at + 1) & mask_; }

  /// Where `id` is, or the empty cell where it would go.
  std::size_t locate(JobId id) const {
    std::size_t at = home_of(id);
    while (cells_[at].slot != kEmpty && cells_[at].id != id) at = next(at);
    return at;
  }

  void grow() {
    std::vector<Cell> old(cells_.empty() ? kSmallest : 2 * cells_.size());
    old.swap(cells_);
    mask_ = cells_.size() - 1;
    for (const Cell& cell : old) {
      if (cell.slot != kEmpty) cells_[locate(cell.id)] = cell;
    }
  }

  static constexpr std::size_t kSmallest = 64;
  std::vector<Cell> cells_;  // a power of two of them
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tailrace::schedule
