// Which waiting job arrived first?
//
// Jobs come in order of arrival, but for those that ran and came back. The former are a linked
// list, where joining and leaving cost O(1) and touch neighbours only; the latter a heap. The order
// is that of (arrival, id). One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/indexed_heap.h"
#include "schedule/standing.h"

namespace tailrace::schedule {

class ArrivalOrder {
 public:
  static constexpr Slot kNone = UINT32_MAX;

  /// `standings`, by slot, outlive this; a slot's birth does not change between push and erase.
  explicit ArrivalOrder(const std::vector<Standing>* standings)
      : standings_(standings), late_(ByBirth{standings}) {}

  void push(Slot slot) {
    if (slot >= links_.size()) links_.resize(slot + std::size_t{1});
    if (tail_ != kNone && birth(slot) < birth(tail_)) {
      links_[slot] = {kInHeap, kInHeap};
      late_.push({slot});
      return;
    }
    links_[slot] = {tail_, kNone};
    (tail_ == kNone ? head_ : links_[tail_].next) = slot;
    tail_ = slot;
  }

  void erase(Slot slot) {
    const Link link = links_[slot];
    if (link.previous == kInHeap) return late_.erase(slot);
    (link.previous == kNone ? head_ : links_[link.previous].next) = link.next;
    (link.next == kNone ? tail_ : links_[link.next].previous) = link.previous;
  }

  /// kNone if nobody waits.
  Slot oldest() const {
    if (late_.empty()) return head_;
    const Slot late = late_.top().slot;
    return head_ != kNone && birth(head_) < birth(late) ? head_ : late;
  }

  /// Visits slots, oldest first, until `visit(slot)` returns true.
  template <class Visit>
  void walk(Visit visit) const {
    Slot at = head_;
    bool stopped = false;
    late_.walk([&](const Late& late) {
      for (; at != kNone && birth(at) < birth(late.slot); at = links_[at].next) {
        if (visit(at)) return stopped = true;
      }
      return stopped = visit(late.slot);
    });
    for (; !stopped && at != kNone; at = links_[at].next) stopped = visit(at);
  }

 private:
  static constexpr Slot kInHeap = UINT32_MAX - 1;
  struct Link {
    Slot previous = kNone;
    Slot next = kNone;
  };
  struct Late {
    Slot slot = 0;
  };
  struct ByBirth {
    const std::vector<Standing>* standings;
    bool operator()(const Late& a, const Late& b) const {
      return (*standings)[a.slot].birth < (*standings)[b.slot].birth;
    }
  };

  const Birth& birth(Slot slot) const { return (*standings_)[slot].birth; }

  const std::vector<Standing>* standings_;
  std::vector<Link> links_;  // by slot
  Slot head_ = kNone;
  Slot tail_ = kNone;
  IndexedHeap<Late, ByBirth> late_;
};

}  // namespace tailrace::schedule
