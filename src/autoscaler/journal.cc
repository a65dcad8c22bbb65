#include "tailrace/autoscaler/journal.h"

#include <algorithm>

#include "autoscaler/sqlite.h"

namespace tailrace::autoscaler {
namespace {

/// Closed and logged ones stay for those who look into the file.
constexpr std::int64_t kClosedKept = 10'000;

/// Runs `statement` for each entry, all or nothing.
template <class Entries, class Bind>
Result<void> for_each(sqlite3* handle, const char* sql, const Entries& entries, Bind bind) {
  Transaction transaction(handle);
  if (!transaction.begun()) return transaction.begun();
  Statement statement(handle, sql);
  for (const auto& entry : entries) {
    bind(statement, entry);
    if (auto done = statement.run(); !done) return done;
    statement.reset();
  }
  return transaction.commit();
}

}  // namespace

Result<std::uint64_t> Journal::last_cycle() const {
  Statement statement(database_.handle(),
                      "SELECT max((SELECT coalesce(max(cycle), 0) FROM orders), "
                      "(SELECT coalesce(max(cycle), 0) FROM cycles))");
  const auto row = statement.step();
  if (!row) return fail(row.error());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, statement.whole(0)));
}

Result<void> Journal::begin(std::span<const OpenOrder> orders) {
  if (orders.empty()) return {};
  constexpr const char* kInsert =
      "INSERT INTO orders (id, cycle, time_s, ns, model, variant, accelerator, desired, current, "
      "pending, reason, writer, generation, line) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
  return for_each(database_.handle(), kInsert, orders, [](Statement& s, const OpenOrder& open) {
    const capacity::Decision& d = open.order.decision;
    s.bind(open.order.id).bind(open.cycle).bind(open.time_s).bind(d.key.ns).bind(d.key.model);
    s.bind(d.variant).bind(d.accelerator).bind(d.desired).bind(d.current).bind(d.pending);
    s.bind(d.reason).bind(d.writer.id).bind(d.writer.generation).bind(open.line);
  });
}

Result<void> Journal::close(std::span<const ClosedOrder> orders) {
  if (orders.empty()) return {};
  return for_each(
      database_.handle(), "UPDATE orders SET closed = 1, line = ? WHERE id = ?", orders,
      [](Statement& s, const ClosedOrder& order) { s.bind(order.line).bind(order.id); });
}

Result<std::vector<OpenOrder>> Journal::open_orders() const {
  Statement statement(database_.handle(),
                      "SELECT id, cycle, time_s, ns, model, variant, accelerator, desired, "
                      "current, pending, reason, writer, generation, line FROM orders "
                      "WHERE closed = 0 ORDER BY time_s, rowid");
  std::vector<OpenOrder> out;
  while (true) {
    const auto row = statement.step();
    if (!row) return fail(row.error());
    if (!*row) return out;
    OpenOrder open;
    capacity::Decision& d = open.order.decision;
    open.order.id = statement.text(0);
    open.cycle = static_cast<std::uint64_t>(statement.whole(1));
    open.time_s = statement.number(2);
    d.key = {statement.text(3), statement.text(4)};
    d.variant = statement.text(5);
    d.accelerator = statement.text(6);
    d.current = statement.whole(8);
    d.pending = statement.whole(9);
    d.desired = d.observed();
    d.apply("journal", statement.text(10), statement.whole(7));
    d.writer = {statement.text(11), static_cast<std::uint64_t>(statement.whole(12))};
    open.line = statement.text(13);
    out.push_back(std::move(open));
  }
}

Result<std::vector<ClosedOrder>> Journal::unlogged() const {
  Statement statement(database_.handle(),
                      "SELECT id, line FROM orders WHERE closed = 1 AND logged = 0 "
                      "ORDER BY time_s, rowid");
  std::vector<ClosedOrder> out;
  while (true) {
    const auto row = statement.step();
    if (!row) return fail(row.error());
    if (!*row) return out;
    out.push_back({statement.text(0), statement.text(1)});
  }
}

Result<void> Journal::logged(std::span<const ClosedOrder> orders) {
  if (orders.empty()) return {};
  auto marked = for_each(database_.handle(), "UPDATE orders SET logged = 1 WHERE id = ?", orders,
                         [](Statement& s, const ClosedOrder& order) { s.bind(order.id); });
  if (!marked) return marked;
  Statement forget(database_.handle(),
                   "DELETE FROM orders WHERE closed = 1 AND logged = 1 AND rowid <= "
                   "(SELECT max(rowid) FROM orders) - ?");
  return forget.bind(kClosedKept).run();
}

}  // namespace tailrace::autoscaler
