// Where do the waiting jobs themselves lie?
//
// In blocks that never move, so growing copies no job and pointers stay valid while a job waits.
// Slots of jobs that left are used again: memory follows the longest queue so far. One thread.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "schedule/indexed_heap.h"
#include "tailrace/schedule/job.h"

namespace tailrace::schedule {

class JobStore {
 public:
  Job& operator[](Slot slot) { return (*blocks_[slot / kBlock])[slot % kBlock]; }
  const Job& operator[](Slot slot) const { return (*blocks_[slot / kBlock])[slot % kBlock]; }

  Slot put(Job job) {
    const Slot slot = free_.empty() ? fresh_slot() : free_.back();
    if (!free_.empty()) free_.pop_back();
    (*this)[slot] = std::move(job);
    return slot;
  }

  Job take(Slot slot) {
    free_.push_back(slot);
    return std::move((*this)[slot]);
  }

 private:
  static constexpr Slot kBlock = 256;

  Slot fresh_slot() {
    if (used_ % kBlock == 0) blocks_.push_back(std::make_unique<std::array<Job, kBlock>>());
    return used_++;
  }

  std::vector<std::unique_ptr<std::array<Job, kBlock>>> blocks_;
  std::vector<Slot> free_;
  Slot used_ = 0;
};

}  // namespace tailrace::schedule
