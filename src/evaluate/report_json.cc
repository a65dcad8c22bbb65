#include <fmt/format.h>

#include <boost/json.hpp>

#include "tailrace/core/text.h"
#include "tailrace/evaluate/set_report.h"

namespace tailrace::evaluate {
namespace {

namespace json = boost::json;

template <class Numbers>
json::array numbers(const Numbers& values) {
  json::array out;
  for (const double value : values) out.push_back(value);
  return out;
}

/// {"50": …}: by level in percent.
json::object by_level(std::span<const double> at, std::span<const double> values) {
  json::object out;
  for (std::size_t i = 0; i < at.size(); ++i) out[fmt::format("{:.0f}", 100 * at[i])] = values[i];
  return out;
}

json::object scores_object(const Scores& s, bool order_only) {
  json::object out{{"rows", s.rows},         {"complete", s.complete},
                   {"tau", s.tau},           {"pair_accuracy", s.pair_accuracy},
                   {"tau_mean", s.tau_mean}, {"pair_accuracy_mean", s.pair_accuracy_mean}};
  if (order_only) return out;
  out["log_score"] = s.log_score;
  out["log_score_error"] = s.log_score_error;
  out["pinball"] = by_level(kPinballLevels, s.pinball);
  out["coverage"] = by_level(kCoverages, s.coverage);
  out["calibrated"] = s.calibrated;
  out["pit"] = numbers(s.pit);
  out["reliability"] = numbers(s.reliability);
  return out;
}

json::object evaluation_object(const Evaluation& e) {
  json::object out{{"predictor", e.predictor},
                   {"order_only", e.order_only},
                   {"scores", scores_object(e.scores, e.order_only)}};
  json::array curve;
  for (const CurvePoint& p : e.curve) {
    json::object point = scores_object(p.scores, e.order_only);
    point["from"] = p.from;
    point["to"] = p.to;
    curve.push_back(std::move(point));
  }
  out["curve"] = std::move(curve);
  out["repeats"] = nullptr;
  if (e.repeats && !e.order_only) {
    out["repeats"] = json::object{{"groups", e.repeats->groups},
                                  {"spread_groups", e.repeats->spread_groups},
                                  {"r2_mu", e.repeats->r2_mu},
                                  {"r2_spread", e.repeats->r2_spread},
                                  {"correlation_spread", e.repeats->correlation_spread}};
  }
  out["cost"] = nullptr;
  if (e.cost) {
    out["cost"] = json::object{{"predict_us", e.cost->predict_us},
                               {"observe_us", e.cost->observe_us},
                               {"heap_bytes", e.cost->heap_bytes}};
  }
  out["image_bytes"] = e.image_bytes;
  return out;
}

json::value interval_value(const std::optional<report::Interval>& i) {
  if (!i) return nullptr;
  return json::object{{"low", i->low}, {"estimate", i->estimate}, {"high", i->high}};
}

json::object left_out_object(const LeaveOneOut& l) {
  json::array models;
  for (const LeftOut& m : l.models) {
    models.push_back(json::object{{"model", core::valid_utf8(m.model)},
                                  {"rows", m.rows},
                                  {"tau_early", m.tau_early},
                                  {"tau_final", m.tau_final},
                                  {"tau_last", m.tau_last}});
  }
  return {{"predictor", l.predictor},
          {"after", l.after},
          {"window", l.window},
          {"models", std::move(models)},
          {"share_of_final", interval_value(l.share_of_final)},
          {"share_of_last", interval_value(l.share_of_last)}};
}

}  // namespace

std::string to_json(std::span<const SetReport> reports) {
  json::array sets;
  for (const SetReport& r : reports) {
    json::array evaluations;
    for (const Evaluation& e : r.evaluations) evaluations.push_back(evaluation_object(e));
    json::array left_out;
    for (const LeaveOneOut& l : r.left_out) left_out.push_back(left_out_object(l));
    json::array poisons;
    for (const PoisonResult& p : r.poisons) {
      poisons.push_back(json::object{{"poison", p.poison},
                                     {"predictor", p.predictor},
                                     {"share", p.share},
                                     {"without", scores_object(p.without, false)},
                                     {"with", scores_object(p.with, false)}});
    }
    sets.push_back(json::object{{"set", core::valid_utf8(r.set)},
                                {"rows", r.rows},
                                {"models", r.models},
                                {"prompts", r.prompts},
                                {"cut", r.cut},
                                {"evaluations", std::move(evaluations)},
                                {"left_out", std::move(left_out)},
                                {"poisons", std::move(poisons)}});
  }
  return json::serialize(json::object{{"sets", std::move(sets)}});
}

}  // namespace tailrace::evaluate
