#include "autoscaler/recovery.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "tailrace/autoscaler/cycle_report.h"

namespace tailrace::autoscaler {
namespace {

const capacity::Variant* variant_of(const Snapshot& snapshot, const capacity::Decision& d) {
  for (const auto& model : snapshot.models) {
    if (model.key != d.key) continue;
    for (const auto& variant : model.variants) {
      if (variant.name == d.variant) return &variant;
    }
  }
  return nullptr;
}

/// What the replicas that are there now say of an order without an end.
Outcome found_out(const Snapshot& snapshot, const OpenOrder& open, const capacity::Writer& holder) {
  const auto& d = open.order.decision;
  const auto* variant = variant_of(snapshot, d);
  if (variant == nullptr) {
    return {open.order.id, false, "after a restart: its variant is not there any more: void"};
  }
  const auto now = capacity::reconcile(d, holder, variant->current, variant->pending);
  if (now.observed() == d.desired) {
    return {open.order.id, true,
            fmt::format("after a restart: {} replicas are there, as ordered", d.desired)};
  }
  return {open.order.id, false,
          fmt::format("after a restart: {} replicas are there, not {}: {}", now.observed(),
                      d.desired, now.reason)};
}

}  // namespace

std::vector<std::string> Recovery::reconcile(const Snapshot& snapshot, const CycleRecord& record,
                                             const capacity::Writer& holder) {
  // Blind, nobody knows which replicas are there.
  if (reconciled_ || journal_ == nullptr || record.blind) return {};
  std::vector<std::string> out;
  const auto open = journal_->open_orders();
  if (!open) return {open.error().message};
  std::vector<ClosedOrder> closed;
  for (const OpenOrder& order : *open) {
    const Outcome outcome = found_out(snapshot, order, holder);
    closed.push_back({order.order.id, with_outcome(order.line, outcome.done, outcome.message)});
    out.push_back(fmt::format("order {} was open: {}", order.order.id, outcome.message));
  }
  if (const auto done = journal_->close(closed); !done) {
    out.push_back(done.error().message);
    return out;
  }
  reconciled_ = true;
  if (const auto done = flush(); !done) out.push_back(done.error().message);
  return out;
}

/// Moves ends from the journal into the log.
Result<void> Recovery::flush() {
  if (journal_ == nullptr) return {};
  const auto unlogged = journal_->unlogged();
  if (!unlogged) return fail(unlogged.error());
  std::vector<std::string> lines;
  for (const ClosedOrder& order : *unlogged) {
    if (may_be_logged_ && log_ != nullptr && log_->has(order.id)) continue;
    lines.push_back(order.line);
  }
  if (log_ != nullptr) {
    if (auto written = log_->append(lines); !written) return written;
  }
  // From here on the log has them; where the mark fails they are looked for again.
  auto marked = journal_->logged(*unlogged);
  may_be_logged_ = !marked.has_value();
  return marked;
}

std::vector<std::string> Recovery::close(std::span<const Order> orders,
                                         std::span<const OpenOrder> open,
                                         std::span<const std::string> lines) {
  std::vector<std::string> out;
  std::set<std::string_view> journaled;
  for (const OpenOrder& order : open) journaled.insert(order.order.id);
  std::vector<ClosedOrder> closed;
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < orders.size() && i < lines.size(); ++i) {
    if (journaled.contains(orders[i].id)) {
      closed.push_back({orders[i].id, lines[i]});
    } else {
      plain.push_back(lines[i]);
    }
  }
  if (log_ != nullptr) {
    if (const auto written = log_->append(plain); !written) out.push_back(written.error().message);
  }
  if (journal_ == nullptr) return out;
  for (ClosedOrder& order : closed) unwritten_.push_back(std::move(order));
  if (const auto done = journal_->close(unwritten_); !done) {
    out.push_back(done.error().message);  // kept, to be closed in a later cycle
    return out;
  }
  unwritten_.clear();
  if (const auto done = flush(); !done) out.push_back(done.error().message);
  return out;
}

}  // namespace tailrace::autoscaler
