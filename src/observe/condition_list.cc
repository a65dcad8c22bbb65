#include "observe/condition_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tailrace/core/text.h"

namespace tailrace::observe {

void ConditionList::add(ConditionKind kind, std::string subject, std::string message) {
  if (all_.size() < most_) {
    all_.push_back({kind, std::move(subject), std::move(message)});
  } else {
    ++left_out_;
  }
}

std::vector<Condition> ConditionList::take() {
  if (left_out_ > 0) {
    all_.push_back({ConditionKind::kLimit, "conditions",
                    fmt::format("{} more are not listed; resolve these first", left_out_)});
    left_out_ = 0;
  }
  return std::exchange(all_, {});
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    out += (i == 0 ? "" : ", ") + core::quoted(names[i]);
  }
  if (names.size() > most) out += fmt::format(" and {} more", names.size() - most);
  return out;
}

}  // namespace tailrace::observe
