#include "autoscaler/condition_log.h"

#include <set>
#include <utility>

namespace tailrace::autoscaler {
namespace {

std::string key_of(const observe::Condition& condition) {
  std::string key(to_string(condition.kind));
  key += '\n';
  key += condition.subject;
  key += '\n';
  for (const char c : condition.message) {
    if ((c < '0' || c > '9') && c != '.') key += c;
  }
  return key;
}

}  // namespace

std::vector<ConditionChange> ConditionLog::changes(std::span<const observe::Condition> now) {
  std::vector<ConditionChange> out;
  std::set<std::string> present;
  for (const auto& condition : now) {
    std::string key = key_of(condition);
    if (!present.insert(key).second || said_.contains(key) || out.size() >= most_) continue;
    out.push_back(
        {false, std::string(to_string(condition.kind)), condition.subject, condition.message});
    said_.emplace(std::move(key), out.back());
  }
  for (auto at = said_.begin(); at != said_.end() && out.size() < most_;) {
    if (present.contains(at->first)) {
      ++at;
      continue;
    }
    out.push_back(std::move(at->second));
    out.back().gone = true;
    at = said_.erase(at);
  }
  return out;
}

}  // namespace tailrace::autoscaler
