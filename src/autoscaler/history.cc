#include "tailrace/autoscaler/history.h"

#include <limits>

#include "autoscaler/sqlite.h"

namespace tailrace::autoscaler {
namespace {

Result<std::optional<PastCycle>> one(Statement& statement) {
  const auto row = statement.step();
  if (!row) return fail(row.error());
  if (!*row) return std::optional<PastCycle>();
  PastCycle out;
  out.cycle = static_cast<std::uint64_t>(statement.whole(0));
  out.time_s = statement.number(1);
  out.document = statement.text(2);
  return std::optional(std::move(out));
}

}  // namespace

Result<void> History::add(const PastCycle& cycle, double forget_before_s) {
  Transaction transaction(database_.handle());
  if (!transaction.begun()) return transaction.begun();
  Statement insert(database_.handle(),
                   "INSERT INTO cycles (cycle, time_s, document) VALUES (?, ?, ?)");
  if (auto done = insert.bind(cycle.cycle).bind(cycle.time_s).bind(cycle.document).run(); !done) {
    return done;
  }
  Statement forget(database_.handle(), "DELETE FROM cycles WHERE time_s < ?");
  if (auto done = forget.bind(forget_before_s).run(); !done) return done;
  return transaction.commit();
}

Result<std::optional<PastCycle>> History::latest(std::optional<double> time_s) const {
  Statement statement(database_.handle(),
                      "SELECT cycle, time_s, document FROM cycles WHERE time_s <= ? "
                      "ORDER BY time_s DESC, number DESC LIMIT 1");
  statement.bind(time_s.value_or(std::numeric_limits<double>::max()));
  return one(statement);
}

Result<std::optional<PastCycle>> History::of_cycle(std::uint64_t cycle) const {
  Statement statement(database_.handle(),
                      "SELECT cycle, time_s, document FROM cycles WHERE cycle = ? "
                      "ORDER BY number DESC LIMIT 1");
  statement.bind(cycle);
  return one(statement);
}

}  // namespace tailrace::autoscaler
