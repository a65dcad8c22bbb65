#include <boost/json.hpp>
#include <cmath>

#include "simulate/experiment_tables.h"
#include "simulate/order_place.h"
#include "tailrace/simulate/experiment_report.h"

namespace tailrace::simulate {
namespace {

namespace json = boost::json;

json::value number(std::optional<double> value) {
  return value && std::isfinite(*value) ? json::value(*value) : json::value(nullptr);
}

json::value interval(const std::optional<report::Interval>& found) {
  if (!found) return nullptr;
  return json::object{{"mean", number(found->estimate)},
                      {"low", number(found->low)},
                      {"high", number(found->high)}};
}

json::object facts_json(const WorkloadFacts& facts) {
  json::array histogram;
  for (const auto& [least, count] : facts.histogram) histogram.push_back(json::array{least, count});
  const auto known = [&](double value) {
    return facts.requests > 0 ? json::value(value) : json::value(nullptr);
  };
  return {{"requests", facts.requests},
          {"dropped_rows", facts.dropped},
          {"rate", number(facts.rate)},
          {"mean", known(facts.mean_length)},
          {"p10", known(facts.p10)},
          {"p50", known(facts.p50)},
          {"p90", known(facts.p90)},
          {"p99", known(facts.p99)},
          {"longest", facts.requests > 0 ? json::value(facts.longest) : json::value(nullptr)},
          {"p90_over_p10", facts.p10 > 0 ? json::value(facts.p90 / facts.p10) : nullptr},
          {"at_cap", known(facts.at_cap)},
          {"most_common", known(facts.most_common)},
          {"histogram", std::move(histogram)}};
}

json::object run_json(const RunResult& run, std::uint64_t seed) {
  json::object values;
  for (const Metric& metric : metrics()) values[metric.name] = number(metric.of(run));
  json::array classes;
  for (const ClassMeans& c : run.classes) classes.push_back(c.count);
  return {{"seed", seed},
          {"rate", number(run.rate)},
          {"load", number(run.load)},
          {"foretold", run.foretold},
          {"overloaded", run.overloaded},
          {"offered", run.totals.offered},
          {"completed", run.totals.completed},
          {"refused", run.totals.refused},
          {"unfinished", run.totals.unfinished},
          {"measured", run.measured},
          {"class_counts", std::move(classes)},
          {"metrics", std::move(values)}};
}

json::object settings_json(const std::vector<ShownSetting>& settings) {
  json::object out;
  for (const auto& [key, value] : settings) {
    out[key] = value.empty() ? json::value(nullptr) : json::value(value);
  }
  return out;
}

json::object cell_json(const Experiment& experiment, const ExperimentResult& result,
                       std::size_t i) {
  const Cell& cell = experiment.cells[i];
  const CellResult& found = result.cells[i];
  json::object settings;
  for (std::size_t d = 0; d < experiment.dimensions.size(); ++d) {
    const Dimension& dimension = experiment.dimensions[d];
    settings[dimension.name] = dimension.labels[cell.labels[d]];
  }
  json::object means;
  for (const Metric& metric : metrics()) means[metric.name] = interval(found.mean(metric));
  json::value against = nullptr;
  if (const auto baseline = experiment.baseline_of(i)) {
    json::object ratios;
    for (const Metric& metric : metrics()) {
      ratios[metric.name] = interval(ratio(found, result.cells[*baseline], metric));
    }
    against = json::object{{"cell", *baseline}, {"ratios", std::move(ratios)}};
  }
  json::array runs;
  for (std::size_t s = 0; s < found.runs.size(); ++s) {
    runs.push_back(run_json(found.runs[s], experiment.seeds[s]));
  }
  const OrderPlace order = order_place(cell.spec);
  return {{"settings", std::move(settings)},
          {"in_force", settings_json(cell.settings)},
          {"order", json::object{{"place", order.front ? "front" : "engines"},
                                 {"displaces_running", order.displaces}}},
          {"maximum_rate", number(found.maximum_rate)},
          {"lengths", facts_json(found.facts)},
          {"load_requested", number(cell.load)},
          {"warnings", json::value_from(notes(experiment, result, i))},
          {"overloaded", found.overloaded()},
          {"verdict", found.verdict()},
          {"metrics", std::move(means)},
          {"against_baseline", std::move(against)},
          {"runs", std::move(runs)}};
}

}  // namespace

std::string to_json(const Experiment& experiment, const ExperimentResult& result) {
  json::array dimensions;
  for (const Dimension& dimension : experiment.dimensions) {
    dimensions.push_back(
        json::object{{"name", dimension.name}, {"values", json::value_from(dimension.labels)}});
  }
  json::array capacities;
  for (const Capacity& capacity : result.capacities) {
    capacities.push_back(json::object{{"per_second", capacity.per_second},
                                      {"requests", capacity.requests},
                                      {"seconds", capacity.seconds}});
  }
  json::array cells;
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    cells.push_back(cell_json(experiment, result, i));
  }
  json::object document{
      {"name", experiment.name},
      {"seeds", json::value_from(experiment.seeds)},
      {"warm_up", experiment.warm_up},
      {"in_force", settings_json(experiment.settings)},
      {"dimensions", std::move(dimensions)},
      {"compare", experiment.compared
                      ? json::value(experiment.dimensions[*experiment.compared].name)
                      : json::value(nullptr)},
      {"baseline",
       experiment.compared
           ? json::value(experiment.dimensions[*experiment.compared].labels[experiment.baseline])
           : json::value(nullptr)},
      {"maximum_rates", std::move(capacities)},
      {"cells", std::move(cells)}};
  return json::serialize(document);
}

}  // namespace tailrace::simulate
