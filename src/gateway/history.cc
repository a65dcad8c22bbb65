#include "gateway/history.h"

namespace tailrace::gateway {

void History::add(std::shared_ptr<RequestRecord> record) {
  const std::string id = record->request_id;
  by_id_[id] = std::move(record);
}

void History::ended(const std::shared_ptr<RequestRecord>& record) {
  ended_.push_back(record);
  while (ended_.size() > ended_max_) {
    if (const auto oldest = ended_.front().lock()) {
      // A newer request may have taken the id over.
      const auto it = by_id_.find(oldest->request_id);
      if (it != by_id_.end() && it->second == oldest) by_id_.erase(it);
    }
    ended_.pop_front();
  }
}

std::shared_ptr<const RequestRecord> History::find(std::string_view request_id) const {
  const auto it = by_id_.find(request_id);
  return it == by_id_.end() ? nullptr : it->second;
}

}  // namespace tailrace::gateway
