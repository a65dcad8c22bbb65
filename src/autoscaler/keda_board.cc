#include <fmt/format.h>

#include <algorithm>

#include "tailrace/autoscaler/keda.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {

void KedaBoard::record(const CycleRecord& record, bool leads) {
  const std::lock_guard lock(mutex_);
  passive_ = !leads;
  if (!leads) {
    entries_.clear();
    unavailable_ = "this instance of the autoscaler does not lead; another one answers";
  } else if (!record.blind) {
    decltype(entries_) latest;
    for (const auto& decision : record.result.decisions) {
      std::pair key{decision.key.ns, decision.variant};
      const auto before = entries_.find(key);
      const bool decided =
          decision.informed || (before != entries_.end() && before->second.decided);
      latest[std::move(key)] = {decision.desired, decided};
    }
    entries_ = std::move(latest);
    unavailable_.clear();
  }
  ++version_;
  changed_.notify_all();
}

Result<std::int64_t> KedaBoard::desired(std::string_view ns, std::string_view variant) const {
  const std::lock_guard lock(mutex_);
  if (!unavailable_.empty()) return fail(ErrorCode::kUnavailable, unavailable_);
  const auto found = entries_.find(std::pair{std::string(ns), std::string(variant)});
  if (found == entries_.end()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("no variant {} in namespace {} is known; name it as variantName in the "
                            "trigger's metadata",
                            core::quoted(variant), core::quoted(ns)));
  }
  if (!found->second.decided) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("nothing was decided of {} in namespace {} yet", core::quoted(variant),
                            core::quoted(ns)));
  }
  return found->second.desired;
}

std::uint64_t KedaBoard::wait(std::uint64_t version, Duration limit) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return closed_ || version_ != version; });
  return version_;
}

void KedaBoard::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool KedaBoard::passive() const {
  const std::lock_guard lock(mutex_);
  return passive_;
}

bool KedaBoard::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace tailrace::autoscaler
