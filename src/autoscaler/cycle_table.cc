// The table of a cycle, for a person who has to act on it.
#include <fmt/format.h>

#include "tailrace/autoscaler/cycle_report.h"
#include "tailrace/core/printable.h"
#include "tailrace/report/table.h"

namespace tailrace::autoscaler {
namespace {

std::string headline(const CycleReport& report) {
  std::string out = fmt::format("cycle {}", report.record.cycle);
  if (report.dry_run) out += ", dry run: nothing is changed";
  if (!report.leads) {
    out += report.leader.empty() ? ", another instance leads, so this one changes nothing"
                                 : fmt::format(", {} leads, so this one changes nothing",
                                               core::printable(report.leader));
  }
  return out + "\n";
}

}  // namespace

std::string report_table(const CycleReport& report) {
  using Align = report::Table::Align;
  const CycleRecord& record = report.record;
  std::string out = headline(report);
  if (record.blind) {
    out += fmt::format("No decision: {}\n", core::printable(*record.blind));
  } else if (record.orders.empty()) {
    out += "No variants: nothing to decide.\n";
  } else {
    report::Table table({{"variant", Align::kLeft},
                         {"model", Align::kLeft},
                         {"current"},
                         {"pending"},
                         {"desired"},
                         {"why", Align::kLeft},
                         {"waits for", Align::kLeft}});
    for (const Order& order : record.orders) {
      const auto& d = order.decision;
      table.add_row({report::ascii_cell(d.variant), report::ascii_cell(d.key.text()),
                     fmt::format("{}", d.current), fmt::format("{}", d.pending),
                     fmt::format("{}", d.desired), report::ascii_cell(d.reason),
                     d.waits_for.empty() ? "-" : report::ascii_cell(d.waits_for)});
    }
    out += table.text();
  }
  for (const auto& condition : record.conditions) {
    out += fmt::format("{} {}: {}\n", to_string(condition.kind), core::printable(condition.subject),
                       core::printable(condition.message));
  }
  for (const Trouble& trouble : report.troubles) {
    out +=
        fmt::format("{}: {}\n", core::printable(trouble.subject), core::printable(trouble.message));
  }
  for (const auto& [id, result] : report.results) {
    if (!result.done) {
      out +=
          fmt::format("not done, {}: {}\n", core::printable(id), core::printable(result.message()));
    }
  }
  return out;
}

}  // namespace tailrace::autoscaler
