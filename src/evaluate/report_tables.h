// Which tables does an evaluation fill? The same for a terminal and for a page.
#pragma once

#include <string>

#include "tailrace/evaluate/set_report.h"
#include "tailrace/report/table.h"

namespace tailrace::evaluate {

std::string headline(const SetReport& report);
report::Table score_table(const SetReport& report);
report::Table curve_table(const SetReport& report);
report::Table cost_table(const SetReport& report);
report::Table left_out_table(const LeaveOneOut& left_out);
std::string left_out_summary(const LeaveOneOut& left_out);
report::Table poison_table(const SetReport& report);
bool has_cost(const SetReport& report);

}  // namespace tailrace::evaluate
