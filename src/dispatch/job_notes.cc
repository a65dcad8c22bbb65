#include "dispatch/job_notes.h"

#include <fmt/format.h>

#include <utility>

namespace tailrace::dispatch {
namespace {

constexpr std::size_t kNotesMax = 12;

std::string describe(const Note& note) {
  const bool on_backend = !note.backend.empty();
  switch (note.event) {
    case Event::kSubmitted:
      return "submitted";
    case Event::kLawArrived:
      return "its length was predicted";
    case Event::kSent:
      return fmt::format("sent to {}", note.backend);
    case Event::kSentOverdue:
      return fmt::format("sent to {} because of the waiting bound", note.backend);
    case Event::kReturned:
      return fmt::format("returned from {} to its place in the queue", note.backend);
    case Event::kCompleted:
      return fmt::format("completed on {}", note.backend);
    case Event::kFailed:
      return fmt::format("failed on {}", note.backend);
    case Event::kCancelled:
      return on_backend ? fmt::format("cancelled on {}", note.backend) : "cancelled while waiting";
  }
  return {};
}

}  // namespace

void Notes::add(MonoTime at, Event event, std::string_view backend) {
  if (notes_.size() == kNotesMax) {
    notes_.erase(notes_.begin() + 1);
    ++dropped_;
  }
  notes_.push_back({at, event, std::string(backend)});
}

std::vector<std::string> Notes::to_text() const {
  std::vector<std::string> text;
  for (const Note& note : notes_) {
    text.push_back(
        fmt::format("+{:.3f} s {}", to_seconds(note.at - notes_.front().at), describe(note)));
    if (text.size() == 1 && dropped_ > 0) {
      text.push_back(fmt::format("({} earlier notes were dropped)", dropped_));
    }
  }
  return text;
}

void EndedJobs::add(EndedJob job) {
  if (capacity_ == 0) return;
  forget(job.id);
  if (jobs_.size() == capacity_) {
    const auto oldest = numbers_.find(jobs_.front().id);
    if (oldest != numbers_.end() && oldest->second == first_) numbers_.erase(oldest);
    jobs_.pop_front();
    ++first_;
  }
  numbers_.emplace(job.id, first_ + jobs_.size());
  jobs_.push_back(std::move(job));
}

void EndedJobs::forget(JobId id) {
  numbers_.erase(id);
}

const EndedJob* EndedJobs::find(JobId id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? nullptr : &jobs_[found->second - first_];
}

}  // namespace tailrace::dispatch
