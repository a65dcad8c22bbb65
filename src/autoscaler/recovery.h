// How does every order reach the decision log exactly once, whenever we die?
//
// Orders are open in the journal before they are carried out. In the first cycle of a process those
// that its predecessor left open are held against the replicas that are there now: done, or void.
// Ends are first written to the journal, then to the log, then marked as logged; at the start, what
// is not marked is looked for in the log.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tailrace/autoscaler/brain.h"
#include "tailrace/autoscaler/decision_log.h"
#include "tailrace/autoscaler/journal.h"

namespace tailrace::autoscaler {

class Recovery {
 public:
  /// Null: there is none.
  Recovery(Journal* journal, DecisionLog* log) : journal_(journal), log_(log) {}

  /// Before the first orders of a process are written down; later calls do nothing. Gives a
  /// sentence for each order that was found open, and for what went wrong.
  std::vector<std::string> reconcile(const Snapshot& snapshot, const CycleRecord& record,
                                     const capacity::Writer& holder);
  /// Closes the cycle's open orders, and logs the lines of all its orders. Gives what went wrong.
  std::vector<std::string> close(std::span<const Order> orders, std::span<const OpenOrder> open,
                                 std::span<const std::string> lines);

 private:
  Result<void> flush();

  Journal* journal_;
  DecisionLog* log_;
  bool reconciled_ = false;
  bool may_be_logged_ = true;  ///< unmarked lines may be in the log: of a process that died
  std::vector<ClosedOrder> unwritten_;
};

}  // namespace tailrace::autoscaler
