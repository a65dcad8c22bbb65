#include "tailrace/predict/batcher.h"

#include <algorithm>

namespace tailrace::predict {

Batcher::Batcher(BatcherOptions options) : options_(options) {
  options_.batch_max = std::max<std::size_t>(options_.batch_max, 1);
  options_.pending_max = std::max<std::size_t>(options_.pending_max, 1);
}

bool Batcher::add(PredictRequest request, MonoTime now) {
  const bool full = pending_.size() >= options_.pending_max;
  if (full) pending_.pop_front();
  pending_.push_back({std::move(request), now});
  return !full;
}

void Batcher::remove(JobId id) {
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [id](const Entry& entry) { return entry.request.id == id; });
  if (found != pending_.end()) pending_.erase(found);
}

std::optional<MonoTime> Batcher::due() const {
  if (pending_.empty()) return std::nullopt;
  const MonoTime first_waited_enough = pending_.front().added + options_.wait_max;
  if (pending_.size() < options_.batch_max) return first_waited_enough;
  return std::min(first_waited_enough, pending_[options_.batch_max - 1].added);
}

std::vector<PredictRequest> Batcher::take(MonoTime now) {
  std::vector<PredictRequest> batch;
  const auto when = due();
  if (!when || now < *when) return batch;
  const std::size_t count = std::min(pending_.size(), options_.batch_max);
  batch.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    batch.push_back(std::move(pending_.front().request));
    pending_.pop_front();
  }
  return batch;
}

}  // namespace tailrace::predict
