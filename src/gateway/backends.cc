#include "gateway/backends.h"

#include <algorithm>

namespace tailrace::gateway {

bool Backends::remove(std::string_view name) {
  const auto it = table_.find(name);
  if (it == table_.end()) return false;
  table_.erase(it);
  return true;
}

std::shared_ptr<Backend> Backends::find(std::string_view name) const {
  const auto it = table_.find(name);
  return it == table_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<Backend>> Backends::all() const {
  std::vector<std::shared_ptr<Backend>> result;
  result.reserve(table_.size());
  for (const auto& [name, backend] : table_) result.push_back(backend);
  return result;
}

std::shared_ptr<BackendPace> Backends::pace_of(const std::string& name,
                                               const net::Endpoint& endpoint) {
  std::erase_if(paces_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = paces_[{name, endpoint}];
  auto pace = known.lock();
  if (!pace) known = pace = std::make_shared<BackendPace>();
  return pace;
}

bool Backends::any_ready() const {
  return std::any_of(table_.begin(), table_.end(), [](const auto& entry) {
    return entry.second->healthy && entry.second->confirmed;
  });
}

}  // namespace tailrace::gateway
