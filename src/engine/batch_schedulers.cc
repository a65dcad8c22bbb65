// vLLM's own two schedulers.
#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <unordered_map>

#include "tailrace/engine/batch_scheduler.h"

namespace tailrace::engine {
namespace {

class FcfsScheduler final : public BatchScheduler {
 public:
  void push(const SequenceView& sequence, MonoTime) override {
    if (sequence.preemptions > 0) {
      line_.push_front(sequence.id);
    } else {
      line_.push_back(sequence.id);
    }
  }
  std::optional<SequenceId> head(MonoTime) override {
    if (line_.empty()) return std::nullopt;
    return line_.front();
  }
  void pop_head() override { line_.pop_front(); }
  bool remove(SequenceId id) override {
    const auto found = std::find(line_.begin(), line_.end(), id);
    if (found == line_.end()) return false;
    line_.erase(found);
    return true;
  }
  std::size_t size() const override { return line_.size(); }

 private:
  std::deque<SequenceId> line_;
};

class PriorityScheduler final : public BatchScheduler {
 public:
  void push(const SequenceView& sequence, MonoTime) override {
    const Place place = place_of(sequence);
    line_.insert(place);
    places_.emplace(sequence.id, place);
  }
  std::optional<SequenceId> head(MonoTime) override {
    if (line_.empty()) return std::nullopt;
    return std::get<2>(*line_.begin());
  }
  void pop_head() override {
    places_.erase(std::get<2>(*line_.begin()));
    line_.erase(line_.begin());
  }
  bool remove(SequenceId id) override {
    const auto found = places_.find(id);
    if (found == places_.end()) return false;
    line_.erase(found->second);
    places_.erase(found);
    return true;
  }
  std::size_t size() const override { return line_.size(); }

  std::size_t victim(std::span<const SequenceView> running, MonoTime) override {
    const auto worst = std::max_element(
        running.begin(), running.end(),
        [](const SequenceView& a, const SequenceView& b) { return place_of(a) < place_of(b); });
    return static_cast<std::size_t>(worst - running.begin());
  }

 private:
  using Place = std::tuple<int, MonoTime, SequenceId>;
  static Place place_of(const SequenceView& sequence) {
    return {sequence.priority, sequence.arrival, sequence.id};
  }

  std::set<Place> line_;
  std::unordered_map<SequenceId, Place> places_;
};

}  // namespace

std::unique_ptr<BatchScheduler> make_fcfs_scheduler() {
  return std::make_unique<FcfsScheduler>();
}
std::unique_ptr<BatchScheduler> make_priority_scheduler() {
  return std::make_unique<PriorityScheduler>();
}

}  // namespace tailrace::engine
