// Measured engines: the iteration time is fitted on part of each curve and tested on the rest.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "capacity/measured_curves.h"
#include "capacity/measured_cycles.h"
#include "capacity/sections.h"

namespace tailrace::accuracy {
namespace {

struct TimeLine {
  double alpha = 0, beta = 0, gamma = 0, knee = 0;

  double ms(const CurvePoint& p) const {
    return alpha + beta * std::max(0.0, p.tokens - knee) + gamma * p.kv;
  }
};

double squared_error(const TimeLine& line, const std::vector<CurvePoint>& points) {
  double sum = 0;
  for (const CurvePoint& p : points) sum += std::pow(line.ms(p) / p.ms - 1, 2);
  return sum;
}

/// Least squares of relative errors over non-negative alpha, beta, gamma: the best of the subsets
/// of parameters whose free solution is non-negative.
TimeLine fit_at_knee(const std::vector<CurvePoint>& points, double knee) {
  TimeLine best;
  double best_error = HUGE_VAL;
  for (unsigned subset = 1; subset < 8; ++subset) {
    std::vector<int> used;
    for (int j = 0; j < 3; ++j) {
      if ((subset >> j & 1U) != 0) used.push_back(j);
    }
    if (used.size() > points.size()) continue;
    Eigen::MatrixXd rows(static_cast<Eigen::Index>(points.size()),
                         static_cast<Eigen::Index>(used.size()));
    for (std::size_t r = 0; r < points.size(); ++r) {
      const CurvePoint& p = points[r];
      const std::array<double, 3> features{1, std::max(0.0, p.tokens - knee), p.kv};
      for (std::size_t c = 0; c < used.size(); ++c) {
        rows(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) =
            features[static_cast<std::size_t>(used[c])] / p.ms;
      }
    }
    const Eigen::VectorXd solved =
        rows.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(rows.rows()));
    std::array<double, 3> values{};
    bool possible = true;
    for (std::size_t c = 0; c < used.size(); ++c) {
      const double value = solved(static_cast<Eigen::Index>(c));
      possible = possible && std::isfinite(value) && value >= 0;
      values[static_cast<std::size_t>(used[c])] = value;
    }
    if (!possible) continue;
    const TimeLine line{values[0], values[1], values[2], knee};
    const double error = squared_error(line, points);
    if (error < best_error * (1 - 1e-9)) {
      best = line;
      best_error = error;
    }
  }
  return best;
}

TimeLine fit_linear(const std::vector<CurvePoint>& points) {
  return fit_at_knee(points, 0);
}

/// The knee is one more parameter: it must earn its place with fewer than half the squared error.
TimeLine fit_with_knee(const std::vector<CurvePoint>& points) {
  TimeLine best = fit_linear(points);
  double bar = 0.5 * squared_error(best, points);
  if (points.size() < 5) return best;
  for (double knee = 8; knee <= 1024; knee *= std::sqrt(2.0)) {
    const TimeLine line = fit_at_knee(points, knee);
    const double error = squared_error(line, points);
    if (error < bar) {
      best = line;
      bar = error;
    }
  }
  return best;
}

struct Split {
  std::vector<CurvePoint> fitted, tested;
};

/// Every other point by growing batch, the ends among the fitted.
std::optional<Split> between(const Curve& curve) {
  Split split;
  for (std::size_t k = 0; k < curve.points.size(); ++k) {
    const bool test = k % 2 == 1 && k + 1 < curve.points.size();
    (test ? split.tested : split.fitted).push_back(curve.points[k]);
  }
  if (split.fitted.size() < 3 || split.tested.empty()) return std::nullopt;
  return split;
}

/// Fitted up to half of the largest batch, tested above.
std::optional<Split> beyond(const Curve& curve) {
  if (curve.points.empty()) return std::nullopt;
  Split split;
  for (const CurvePoint& p : curve.points) {
    const bool low = p.sequences <= 0.5 * curve.points.back().sequences * (1 + 1e-9);
    (low ? split.fitted : split.tested).push_back(p);
  }
  const bool one_batch =
      !split.fitted.empty() && split.fitted.front().sequences == split.fitted.back().sequences;
  if (split.fitted.size() < 3 || one_batch || split.tested.empty()) return std::nullopt;
  return split;
}

struct Errors {
  struct Item {
    double error;  ///< fitted / measured − 1
    double sequences;
    const Curve* curve;
  };
  std::vector<Item> items;

  double quantile_of_size(double p) const {
    std::vector<double> sizes;
    for (const Item& item : items) sizes.push_back(std::abs(item.error));
    std::sort(sizes.begin(), sizes.end());
    return sizes[static_cast<std::size_t>(p * static_cast<double>(sizes.size() - 1) + 0.5)];
  }
  double median() const {
    std::vector<double> values;
    for (const Item& item : items) values.push_back(item.error);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  double share_above(double size) const {
    const auto above = std::count_if(items.begin(), items.end(),
                                     [&](const Item& item) { return std::abs(item.error) > size; });
    return static_cast<double>(above) / static_cast<double>(items.size());
  }
  void add(const Curve& curve, const Split& split, const TimeLine& line) {
    for (const CurvePoint& p : split.tested) {
      items.push_back({line.ms(p) / p.ms - 1, p.sequences, &curve});
    }
  }
};

struct SourceErrors {
  int curves = 0, curves_beyond = 0;
  Errors between_linear, between_knee, beyond_linear, beyond_knee;
};

SourceErrors errors_of(const Source& source) {
  SourceErrors out;
  for (const Curve& curve : source.curves) {
    if (const auto split = between(curve)) {
      ++out.curves;
      out.between_linear.add(curve, *split, fit_linear(split->fitted));
      out.between_knee.add(curve, *split, fit_with_knee(split->fitted));
    }
    if (const auto split = beyond(curve)) {
      ++out.curves_beyond;
      out.beyond_linear.add(curve, *split, fit_linear(split->fitted));
      out.beyond_knee.add(curve, *split, fit_with_knee(split->fitted));
    }
  }
  return out;
}

std::string two(const Errors& errors) {
  if (errors.items.empty()) return "–";
  return fmt::format("{:.1f} / {:.1f}", 100 * errors.quantile_of_size(0.5),
                     100 * errors.quantile_of_size(0.9));
}

void print_table(std::FILE* out, const std::vector<Source>& sources,
                 const std::vector<SourceErrors>& errors) {
  fmt::print(out,
             "| source | curves | tested points | between: linear | between: with a knee | "
             "over 10 % | beyond: linear | beyond: with a knee | bias beyond |\n"
             "|---|---|---|---|---|---|---|---|---|\n");
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const SourceErrors& e = errors[s];
    fmt::print(out, "| {} | {} | {} + {} | {} | {} | {} | {} | {} | {} |\n", sources[s].name,
               e.curves, e.between_linear.items.size(), e.beyond_linear.items.size(),
               two(e.between_linear), two(e.between_knee),
               e.between_linear.items.empty()
                   ? "–"
                   : fmt::format("{:.0f} %", 100 * e.between_linear.share_above(0.1)),
               two(e.beyond_linear), two(e.beyond_knee),
               e.beyond_linear.items.empty()
                   ? "–"
                   : fmt::format("{:+.1f}", 100 * e.beyond_linear.median()));
  }
}

void print_by_batch(std::FILE* out, const std::vector<SourceErrors>& errors) {
  constexpr std::array<double, 7> kEdges{0, 4, 16, 64, 256, 1024, 1e9};
  fmt::print(out,
             "| sequences in the batch | points between | median error, % | points beyond | "
             "median error, % |\n|---|---|---|---|---|\n");
  for (std::size_t b = 0; b + 1 < kEdges.size(); ++b) {
    const auto cell = [&](const auto& pick) -> std::string {
      Errors inside;
      for (const SourceErrors& e : errors) {
        for (const auto& item : pick(e).items) {
          if (item.sequences > kEdges[b] && item.sequences <= kEdges[b + 1]) {
            inside.items.push_back(item);
          }
        }
      }
      if (inside.items.empty()) return "0 | –";
      return fmt::format("{} | {:+.1f}", inside.items.size(), 100 * inside.median());
    };
    const auto range = b + 2 == kEdges.size()
                           ? fmt::format("above {:.0f}", kEdges[b])
                           : fmt::format("{:.0f} to {:.0f}", kEdges[b] + 1, kEdges[b + 1]);
    fmt::print(out, "| {} | {} | {} |\n", range,
               cell([](const SourceErrors& e) -> const Errors& { return e.between_linear; }),
               cell([](const SourceErrors& e) -> const Errors& { return e.beyond_linear; }));
  }
}

void print_worst(std::FILE* out, const std::vector<Source>& sources,
                 const std::vector<SourceErrors>& errors) {
  fmt::print(out,
             "| source | worst tested point between | error, % | worst beyond | error, % |\n"
             "|---|---|---|---|---|\n");
  const auto worst = [](const Errors& e) -> std::string {
    if (e.items.empty()) return "– | –";
    const auto at = std::max_element(e.items.begin(), e.items.end(), [](auto& a, auto& b) {
      return std::abs(a.error) < std::abs(b.error);
    });
    return fmt::format("{}, {:.0f} in the batch | {:+.0f}", at->curve->name, at->sequences,
                       100 * at->error);
  };
  for (std::size_t s = 0; s < sources.size(); ++s) {
    fmt::print(out, "| {} | {} | {} |\n", sources[s].name, worst(errors[s].between_linear),
               worst(errors[s].beyond_linear));
  }
}

}  // namespace

int print_measured(std::FILE* out, const Options&) {
  const auto sources = read_sources(recorded_data_folder());
  if (!sources) {
    fmt::print(stderr, "capacity_accuracy: {}\n", sources.error().message);
    return 1;
  }
  fmt::print(out, "## Measured engines\n\n");
  if (sources->empty()) {
    fmt::print(stderr,
               "capacity_accuracy: no recorded engines in {}: set TAILRACE_SHARED to the folder "
               "that holds data/\n",
               recorded_data_folder());
    fmt::print(out, "The recorded curves were absent when this page was printed.\n");
    return 0;
  }
  std::vector<SourceErrors> errors;
  for (const Source& source : *sources) errors.push_back(errors_of(source));
  fmt::print(out,
             "Is an iteration's time alpha + beta · tokens + gamma · context on real engines? Each "
             "curve (one model, GPU and setting; at least three\nfitted points) is fitted on part "
             "of its points and tested on the rest, twice. *Between*: every other batch size is "
             "tested, the ends are fitted.\n*Beyond*: fitted up to half of the largest batch, "
             "tested above. Errors are |fitted / measured − 1| in %, median / 90th percentile; "
             "bias is\nthe median of the signed error. The knee is kept where it halves the "
             "squared error of the fitted points.\n\n");
  print_table(out, *sources, errors);
  fmt::print(out, "\n");
  for (const Source& source : *sources) {
    fmt::print(out, "- **{}**: {}.\n", source.name, source.what);
  }
  fmt::print(out, "\nWhere the line fails, over all sources but prefill, by the batch:\n\n");
  std::vector<SourceErrors> decode;
  for (std::size_t s = 0; s < errors.size(); ++s) {
    if ((*sources)[s].name != "Splitwise, prefill") decode.push_back(errors[s]);
  }
  print_by_batch(out, decode);
  fmt::print(out, "\nThe worst point of each source (for prefill, the tokens in the batch):\n\n");
  print_worst(out, *sources, errors);
  fmt::print(out, "\n");
  if (const auto printed = print_cycles(out, recorded_data_folder()); !printed) {
    fmt::print(stderr, "capacity_accuracy: {}\n", printed.error().message);
    return 1;
  }
  return 0;
}

}  // namespace tailrace::accuracy
