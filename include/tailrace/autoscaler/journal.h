// Which orders are under way, and how did those end that were when we died?
//
// An order is written down before anybody carries it out and closed once it is known how it ended,
// each on the disk before the call returns. So a process that dies at any moment leaves behind
// what its successor needs: orders without an end, and ends that the decision log has not got yet.
// Loop thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tailrace/autoscaler/database.h"
#include "tailrace/autoscaler/world.h"

namespace tailrace::autoscaler {

struct OpenOrder {
  Order order;
  std::uint64_t cycle = 0;
  double time_s = 0;
  std::string line;  ///< for the decision log, without outcome
};

/// How an order ended, as the decision log has it.
struct ClosedOrder {
  std::string id;
  std::string line;
};

class Journal {
 public:
  explicit Journal(Database& database) : database_(database) {}

  /// The largest number of a cycle that anything here is of.
  Result<std::uint64_t> last_cycle() const;
  /// Errors: those of Database::in_place.
  Result<void> in_place() const { return database_.in_place(); }
  Result<void> begin(std::span<const OpenOrder> orders);
  Result<void> close(std::span<const ClosedOrder> orders);
  /// In the order of time.
  Result<std::vector<OpenOrder>> open_orders() const;
  /// Closed, and not known to be in the decision log.
  Result<std::vector<ClosedOrder>> unlogged() const;
  /// They are in the decision log. Old ones are forgotten.
  Result<void> logged(std::span<const ClosedOrder> orders);

 private:
  Database& database_;
};

}  // namespace tailrace::autoscaler
