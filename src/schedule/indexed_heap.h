// How is the first of many found fast, when any of them may change or leave?
//
// A 4-ary heap of small entries, each of which names a slot; the heap remembers where each slot
// stands, so that removing or moving any entry costs O(log n). `Before` must be a total order. One
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tailrace/core/check.h"

namespace tailrace::schedule {

using Slot = std::uint32_t;

/// `Entry` has a member `Slot slot`; `Before(a, b)` says that a goes before b.
template <class Entry, class Before>
class IndexedHeap {
 public:
  explicit IndexedHeap(Before before) : before_(std::move(before)) {}

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const Entry& top() const { return entries_.front(); }
  const Entry& at(Slot slot) const { return entries_[position_[slot]]; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< in heap order

  void push(const Entry& entry) {
    if (entry.slot >= position_.size()) position_.resize(entry.slot + std::size_t{1}, kAbsent);
    entries_.push_back(entry);
    sift_up(entries_.size() - 1, entry);
  }

  void erase(Slot slot) {
    const std::size_t hole = position_[slot];
    TAILRACE_CHECK(hole < entries_.size());
    position_[slot] = kAbsent;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole < entries_.size()) settle(hole, last);
  }

  /// Gives the entry of `entry.slot` a new value and its place by it.
  void replace(const Entry& entry) {
    const std::size_t at = position_[entry.slot];
    TAILRACE_CHECK(at < entries_.size());
    settle(at, entry);
  }

  /// Rewrites every entry (not its slot) and restores the order: O(n).
  template <class Rewrite>
  void rewrite_all(Rewrite rewrite) {
    for (Entry& entry : entries_) rewrite(entry);
    if (entries_.size() < 2) return;
    for (std::size_t i = parent(entries_.size() - 1) + 1; i-- > 0;) {
      const Entry entry = entries_[i];
      sift_down(i, entry);
    }
  }

  /// Visits entries in order until `visit` returns true; O(k log k) for k visits.
  template <class Visit>
  void walk(Visit visit) const {
    if (entries_.empty() || visit(entries_.front())) return;
    // A best-first search: the next entry in order is always a child of one visited before.
    std::vector<std::size_t> open;
    const auto later = [this](std::size_t a, std::size_t b) {
      return before_(entries_[b], entries_[a]);
    };
    std::size_t visited = 0;
    while (true) {
      const std::size_t first_child = visited * kArity + 1;
      const std::size_t end = std::min(first_child + kArity, entries_.size());
      for (std::size_t child = first_child; child < end; ++child) {
        open.push_back(child);
        std::push_heap(open.begin(), open.end(), later);
      }
      if (open.empty()) return;
      std::pop_heap(open.begin(), open.end(), later);
      visited = open.back();
      open.pop_back();
      if (visit(entries_[visited])) return;
    }
  }

 private:
  static constexpr std::size_t kArity = 4;
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  static std::size_t parent(std::size_t i) { return (i - 1) / kArity; }

  void place(std::size_t at, const Entry& entry) {
    entries_[at] = entry;
    position_[entry.slot] = static_cast<std::uint32_t>(at);
  }

  void settle(std::size_t at, const Entry& entry) {
    if (at > 0 && before_(entry, entries_[parent(at)])) {
      sift_up(at, entry);
    } else {
      sift_down(at, entry);
    }
  }

  void sift_up(std::size_t at, const Entry& entry) {
    const Entry moving = entry;
    while (at > 0 && before_(moving, entries_[parent(at)])) {
      place(at, entries_[parent(at)]);
      at = parent(at);
    }
    place(at, moving);
  }

  void sift_down(std::size_t at, const Entry& entry) {
    const Entry moving = entry;
    while (true) {
      const std::size_t first_child = at * kArity + 1;
      if (first_child >= entries_.size()) break;
      const std::size_t end = std::min(first_child + kArity, entries_.size());
      std::size_t best = first_child;
      for (std::size_t child = first_child + 1; child < end; ++child) {
        if (before_(entries_[child], entries_[best])) best = child;
      }
      if (!before_(entries_[best], moving)) break;
      place(at, entries_[best]);
      at = best;
    }
    place(at, moving);
  }

  Before before_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> position_;  // by slot
};

}  // namespace tailrace::schedule
