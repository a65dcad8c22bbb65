// What is known of the requests in the system?
//
// A request lives in a slot from its arrival to its end; slots are used again, so memory follows
// the requests in the system. The id that engines, schedulers and dispatchers see carries both the
// request's number and its slot: ids grow in order of arrival, so they break ties as the gateway's
// do, and no table is searched to find a request. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tailrace/core/check.h"
#include "tailrace/length/length_law.h"
#include "tailrace/schedule/job.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {

struct Live {
  Request request;
  RequestRecord record;
  std::uint64_t key = 0;  ///< the id that the others see; 0: the slot is free
  std::optional<length::LengthLaw> law;
  bool law_known = false;  ///< the law has arrived
  bool in_batch = false;
  MonoTime since;                ///< of its stay in a batch or in a line
  std::int64_t refinements = 0;  ///< predictions made while it was written
  std::uint64_t prefix = 0;      ///< Job::prefix
  std::int64_t work = 0;         ///< tokens that it counts for in its engine's expected work
};

/// What a scheduler or a dispatcher may know of it now.
schedule::Job job_of(const Live& live);

class LiveTable {
 public:
  static constexpr std::uint32_t kSlotBits = 24;

  bool full() const { return free_.empty() && slots_.size() == std::size_t{1} << kSlotBits; }

  /// Not full(). The request's `id` grows from call to call; its record begins `now`.
  Live& add(Request&& request, MonoTime now) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    Live& live = slots_[slot];
    live = Live{};
    live.key = ((request.id + 1) << kSlotBits) | slot;
    live.request = std::move(request);
    RequestRecord& record = live.record;
    record.id = live.request.id;
    record.arrival = live.since = now;
    record.prompt = live.request.prompt;
    record.output = live.request.output;
    record.cap = live.request.cap;
    ++size_;
    return live;
  }
  Live& at(std::uint64_t key) {
    Live& live = slots_[key & kSlotMask];
    TAILRACE_CHECK(live.key == key);
    return live;
  }
  /// Null once it has ended.
  Live* find(std::uint64_t key) {
    Live& live = slots_[key & kSlotMask];
    return live.key == key ? &live : nullptr;
  }
  void erase(Live& live) {
    free_.push_back(static_cast<std::uint32_t>(live.key & kSlotMask));
    live.key = 0;
    --size_;
  }
  std::size_t size() const { return size_; }
  /// Keys of all that live, in order of arrival.
  std::vector<std::uint64_t> keys() const;

 private:
  static constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kSlotBits) - 1;
  std::vector<Live> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
};

}  // namespace tailrace::simulate
