#include "tailrace/evaluate/text_report.h"

#include <fmt/format.h>

#include "tailrace/report/table.h"

namespace tailrace::evaluate {
namespace {

using report::Table;

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string percent(double share) {
  return fixed(100 * share, 1);
}

std::string score_table(const SetReport& report) {
  Table table({{"predictor", Table::Align::kLeft},
               {"log score"},
               {"+-"},
               {"tau"},
               {"pairs"},
               {"tau E"},
               {"loss50"},
               {"loss90"},
               {"loss99"},
               {"in50"},
               {"in80"},
               {"in90"},
               {"in99"},
               {"R2 mu"},
               {"R2 sd"}});
  for (const Evaluation& e : report.evaluations) {
    const Scores& s = e.scores;
    const std::string tau_mean = fixed(s.tau_mean, 3);
    if (e.order_only) {
      table.add_row({e.predictor, "", "", fixed(s.tau, 3), fixed(s.pair_accuracy, 3), tau_mean});
      continue;
    }
    table.add_row({e.predictor, fixed(s.log_score, 4), fixed(s.log_score_error, 4), fixed(s.tau, 3),
                   fixed(s.pair_accuracy, 3), tau_mean, fixed(s.pinball[0], 1),
                   fixed(s.pinball[1], 1), fixed(s.pinball[2], 1), percent(s.coverage[0]),
                   percent(s.coverage[1]), percent(s.coverage[2]), percent(s.coverage[3]),
                   e.repeats ? fixed(e.repeats->r2_mu, 3) : "",
                   e.repeats ? fixed(e.repeats->r2_spread, 3) : ""});
  }
  return table.text();
}

}  // namespace

std::string to_text(const SetReport& report, bool curve) {
  std::string out = fmt::format("{}: {} rows, {} prompts asked of a model, {} answers cut\n",
                                report.set, report.rows, report.prompts, report.cut);
  out += score_table(report);
  (void)curve;
  return out;
}

}  // namespace tailrace::evaluate
