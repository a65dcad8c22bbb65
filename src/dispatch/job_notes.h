// What happened to a job so far?
//
// Each live job carries a few notes, and the most recent of the ended ones are remembered with
// theirs. Notes are facts (time, event, a name); they become text only when somebody asks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/dispatch/dispatcher.h"

namespace tailrace::dispatch {

enum class Event : std::uint8_t {
  kSubmitted,    // the backend's name is empty
  kLawArrived,   // empty
  kSent,         // to this backend
  kSentOverdue,  // to this backend, because of the waiting bound
  kReturned,     // from this backend to the queue
  kCompleted,    // on this backend
  kFailed,       // on this backend
  kCancelled,    // on this backend, or in the queue
};

struct Note {
  MonoTime at;
  Event event;
  std::string backend;
};

/// The first note and the last few: a job that returns again and again must not grow.
class Notes {
 public:
  void add(MonoTime at, Event event, std::string_view backend = {});
  /// Oldest first, times counted from the first note.
  std::vector<std::string> to_text() const;

 private:
  std::vector<Note> notes_;
  std::size_t dropped_ = 0;
};

struct EndedJob {
  JobId id;
  std::string model;
  std::string backend;  ///< empty if it ended while waiting
  Notes notes;
};

/// The last `capacity` jobs that ended. An id that is used again is forgotten here.
class EndedJobs {
 public:
  explicit EndedJobs(std::size_t capacity) : capacity_(capacity) {}
  void add(EndedJob job);
  void forget(JobId id);
  const EndedJob* find(JobId id) const;

 private:
  std::size_t capacity_;
  std::deque<EndedJob> jobs_;
  std::uint64_t first_ = 0;  // number of jobs_.front() among all that were added
  std::unordered_map<JobId, std::uint64_t> numbers_;
};

}  // namespace tailrace::dispatch
