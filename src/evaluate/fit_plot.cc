#include "tailrace/evaluate/fit_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::evaluate {
namespace {

constexpr int kCurvePoints = 240;
constexpr std::size_t kTitleBytes = 56;  ///< of an id: what the figure's width holds
constexpr double kLogarithmicFrom = 10;  ///< longest over shortest

/// Bins of equal width on the axis' own scale. Linear ones are whole tokens wide, with edges
/// between whole numbers, so that no length falls on one.
struct Bins {
  bool logarithmic = false;
  double low = 0;  ///< ln tokens where logarithmic
  double width = 1;
  int count = 1;

  double edge(double i) const {
    const double v = low + width * i;
    return logarithmic ? std::exp(v) : v;
  }
  int of(double length) const {
    const double v = ((logarithmic ? std::log(length) : length) - low) / width;
    return std::clamp(static_cast<int>(std::floor(v)), 0, count - 1);
  }
};

Bins make_bins(const std::vector<double>& sorted) {
  const double least = sorted.front();
  const double most = sorted.back();
  const int wanted = std::clamp(
      static_cast<int>(std::ceil(2 * std::cbrt(static_cast<double>(sorted.size())))) * 2, 8, 60);
  Bins bins;
  bins.logarithmic = most > kLogarithmicFrom * least;
  if (bins.logarithmic) {
    bins.low = std::log(least) - 0.02;
    bins.count = wanted;
    bins.width = (std::log(most) + 0.02 - bins.low) / wanted;
    return bins;
  }
  bins.width = std::max(1.0, std::ceil((most - least + 1) / wanted));
  bins.low = std::max(0.0, std::ceil(least) - 0.5 - 2 * bins.width);
  bins.count = static_cast<int>(std::ceil((most + 0.5 - bins.low) / bins.width)) + 2;
  return bins;
}

}  // namespace

report::Figure fit_figure(const PromptFit& prompt) {
  std::vector<double> sorted = prompt.sample.lengths;
  std::sort(sorted.begin(), sorted.end());
  const std::optional<double> cap = prompt.sample.cap;
  const double n = static_cast<double>(sorted.size());
  const Bins bins = make_bins(sorted);

  report::Figure figure;
  const std::string_view id = core::utf8_prefix(prompt.sample.id, kTitleBytes);
  figure.title =
      fmt::format("{}{} ({} answers)", id, id == prompt.sample.id ? "" : "…", sorted.size());
  figure.x = {"answer length, tokens", bins.logarithmic};
  figure.y = {"share of answers in a bin", false};
  figure.bars.label = "recorded";
  figure.bars.heights.assign(static_cast<std::size_t>(bins.count), 0);
  for (int i = 0; i <= bins.count; ++i) figure.bars.edges.push_back(bins.edge(i));
  for (const double length : sorted) {
    figure.bars.heights[static_cast<std::size_t>(bins.of(length))] += 1 / n;
  }

  const double end = cap ? std::min(*cap, bins.edge(bins.count)) : bins.edge(bins.count);
  const double above_cap = static_cast<double>(prompt.fit.shape.n_capped);
  if (above_cap > 0) figure.dots = "a law's share at the cap";
  std::string described;
  for (std::size_t i = 0; i < prompt.fit.fits.size(); ++i) {
    const length::FamilyFit& fit = prompt.fit.fits[i].fit;
    if (!fit.law) continue;
    report::FigureLine line;
    line.label = length::family_name(fit.family);
    line.style = i;
    for (int k = 0; k <= kCurvePoints; ++k) {
      const double at = static_cast<double>(bins.count) * k / kCurvePoints;
      const double x = bins.edge(at);
      if (x > end) break;
      line.x.push_back(x);
      line.y.push_back(fit.law->survival(bins.edge(at - 0.5)) -
                       fit.law->survival(bins.edge(at + 0.5)));
    }
    figure.lines.push_back(std::move(line));
    if (above_cap > 0) {
      figure.lines.push_back({"", {*cap}, {fit.law->survival(*cap)}, i});
    }
    described += (described.empty() ? "" : "; ") + fit.law->describe();
  }
  figure.description = fmt::format(
      "Histogram of {} recorded lengths from {:g} to {:g} tokens{}, with the fitted laws: {}",
      sorted.size(), sorted.front(), sorted.back(),
      above_cap > 0 ? fmt::format(", {:g} of them cut at {:g}", above_cap, *cap) : std::string(),
      described.empty() ? std::string("none") : described);
  return figure;
}

}  // namespace tailrace::evaluate
