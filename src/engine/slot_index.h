// Where is the slot of this key?
//
// An open-addressing table from a hash to a slot's number. The slots and their keys belong to the
// caller; nothing is allocated but when the table grows. Its order never decides anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tailrace::engine {

class SlotIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  SlotIndex() : cells_(64) {}

  /// SplitMix64's finish: every bit of the key moves every bit of the hash.
  static std::uint64_t mix(std::uint64_t key) {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
    return key ^ (key >> 31);
  }

  /// The slot with this hash for which `is_it(slot)` holds, or kNone.
  template <class IsIt>
  std::uint32_t find(std::uint64_t hash, IsIt is_it) const {
    for (std::size_t at = home(hash); cells_[at].slot != kNone; at = next(at)) {
      if (cells_[at].hash == hash && is_it(cells_[at].slot)) return cells_[at].slot;
    }
    return kNone;
  }

  /// The slot must not be in the table.
  void insert(std::uint64_t hash, std::uint32_t slot) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    place({hash, slot});
    ++size_;
  }

  /// The slot must be in the table, under this hash.
  void erase(std::uint64_t hash, std::uint32_t slot) {
    std::size_t hole = home(hash);
    while (cells_[hole].slot != slot) hole = next(hole);
    // Move back what was pushed beyond the hole, so that no search ends at it too early.
    for (std::size_t at = next(hole); cells_[at].slot != kNone; at = next(at)) {
      const std::size_t wants = home(cells_[at].hash);
      if (((at - wants) & mask()) < ((at - hole) & mask())) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].slot = kNone;
    --size_;
  }

 private:
  struct Cell {
    std::uint64_t hash = 0;
    std::uint32_t slot = kNone;
  };
  std::size_t mask() const { return cells_.size() - 1; }
  std::size_t home(std::uint64_t hash) const { return static_cast<std::size_t>(hash) & mask(); }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  void place(Cell cell) {
    std::size_t at = home(cell.hash);
    while (cells_[at].slot != kNone) at = next(at);
    cells_[at] = cell;
  }
  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    for (const Cell& cell : old) {
      if (cell.slot != kNone) place(cell);
    }
  }

  std::vector<Cell> cells_;
  std::size_t size_ = 0;
};

}  // namespace tailrace::engine
