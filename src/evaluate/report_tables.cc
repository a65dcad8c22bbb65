#include "evaluate/report_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace tailrace::evaluate {
namespace {

using report::Table;

constexpr auto kLeft = Table::Align::kLeft;

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string percent(double share) {
  return fixed(100 * share, 1);
}

/// Tables are for terminals that may know ASCII alone; names come from files.
std::string ascii(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

/// "1 row", "2 rows".
std::string count(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

bool has_negative_r2(const SetReport& report) {
  return std::any_of(report.evaluations.begin(), report.evaluations.end(), [](const Evaluation& e) {
    return !e.order_only && e.repeats && (e.repeats->r2_mu < 0 || e.repeats->r2_spread < 0);
  });
}

std::string interval(const std::optional<report::Interval>& i) {
  if (!i) return fmt::format("unknown (fewer than two models with a tau of {})", kOrderedTau);
  return fmt::format("{} % (95 % interval {} to {})", percent(i->estimate), percent(i->low),
                     percent(i->high));
}

}  // namespace

std::string headline(const SetReport& r) {
  return fmt::format("{}: {}, {}, {} of prompt and model, {} cut", ascii(r.set),
                     count(r.rows, "row"), count(r.models, "model"), count(r.prompts, "pair"),
                     count(r.cut, "answer"));
}

Table score_table(const SetReport& report) {
  Table table({{"predictor", kLeft},
               {"log score"},
               {"+-"},
               {"tau"},
               {"pairs"},
               {"tau mean"},
               {"loss 50"},
               {"loss 90"},
               {"loss 99"},
               {"in 50 %"},
               {"in 80 %"},
               {"in 90 %"},
               {"in 99 %"},
               {"R2 mu"},
               {"R2 spread"}});
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
  return table;
}

Table curve_table(const SetReport& report) {
  Table table({{"predictor", kLeft},
               {"rows", kLeft},
               {"log score"},
               {"tau"},
               {"loss 50"},
               {"in 90 %"},
               {"vouched %"}});
  for (const Evaluation& e : report.evaluations) {
    if (e.order_only) continue;
    for (const CurvePoint& p : e.curve) {
      table.add_row({e.predictor, fmt::format("{}-{}", p.from + 1, p.to),
                     fixed(p.scores.log_score, 4), fixed(p.scores.tau, 3),
                     fixed(p.scores.pinball[0], 1), percent(p.scores.coverage[2]),
                     percent(p.scores.calibrated)});
    }
  }
  return table;
}

bool has_cost(const SetReport& report) {
  return std::any_of(report.evaluations.begin(), report.evaluations.end(),
                     [](const Evaluation& e) { return e.cost.has_value(); });
}

Table cost_table(const SetReport& report) {
  Table table({{"predictor", kLeft}, {"predict us"}, {"learn us"}, {"heap MB"}, {"saved kB"}});
  for (const Evaluation& e : report.evaluations) {
    if (!e.cost) continue;
    table.add_row({e.predictor, fixed(e.cost->predict_us, 1), fixed(e.cost->observe_us, 1),
                   fixed(e.cost->heap_bytes / 1e6, 1),
                   fixed(static_cast<double>(e.image_bytes) / 1e3, 0)});
  }
  return table;
}

Table left_out_table(const LeaveOneOut& left_out) {
  Table table({{"model left out", kLeft},
               {"rows"},
               {fmt::format("tau after {}", left_out.after)},
               {"tau final"},
               {"share"},
               {"tau of last rows"}});
  for (const LeftOut& m : left_out.models) {
    table.add_row({ascii(m.model), std::to_string(m.rows), fixed(m.tau_early, 3),
                   fixed(m.tau_final, 3),
                   m.tau_final >= kOrderedTau ? percent(m.tau_early / m.tau_final) : "",
                   fixed(m.tau_last, 3)});
  }
  return table;
}

std::string left_out_summary(const LeaveOneOut& l) {
  return fmt::format(
      "{}, leaving one model out ({} models): after {} answers of an unseen model, tau over the "
      "next {} is {} of what it is on the same rows with all the model's other answers learned; {} "
      "of tau over its last {} rows.",
      l.predictor, l.models.size(), l.after, l.window, interval(l.share_of_final),
      interval(l.share_of_last), l.window);
}

Table poison_table(const SetReport& report) {
  Table table({{"attack", kLeft},
               {"predictor", kLeft},
               {"share %"},
               {"in 50 %"},
               {"attacked"},
               {"in 90 %"},
               {"attacked"},
               {"in 99 %"},
               {"attacked"},
               {"log score"},
               {"attacked"},
               {"tau"},
               {"attacked"}});
  for (const PoisonResult& p : report.poisons) {
    const Scores& a = p.without;
    const Scores& b = p.with;
    table.add_row({p.poison, p.predictor, percent(p.share), percent(a.coverage[0]),
                   percent(b.coverage[0]), percent(a.coverage[2]), percent(b.coverage[2]),
                   percent(a.coverage[3]), percent(b.coverage[3]), fixed(a.log_score, 4),
                   fixed(b.log_score, 4), fixed(a.tau, 3), fixed(b.tau, 3)});
  }
  return table;
}

std::string to_text(const SetReport& report, bool curve) {
  std::string out = headline(report) + "\n" + score_table(report).text();
  if (has_negative_r2(report)) {
    out += "R2 below 0: worse than one and the same value for every prompt\n";
  }
  if (curve) {
    out += "\n" + curve_table(report).text() +
           "vouched: share of predictions that their predictor itself called calibrated\n";
  }
  if (has_cost(report)) out += "\n" + cost_table(report).text();
  for (const LeaveOneOut& l : report.left_out) {
    out += "\n" + left_out_table(l).text() + left_out_summary(l) + "\n";
  }
  if (!report.poisons.empty()) {
    out += "\nhonest tenants, without an attacker and attacked:\n" + poison_table(report).text();
  }
  return out;
}

}  // namespace tailrace::evaluate
