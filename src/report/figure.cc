#include "tailrace/report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tailrace/report/html.h"

namespace tailrace::report {
namespace {

constexpr double kWidth = 720, kPlotHeight = 308;
constexpr double kLeft = 64, kRight = 16, kTitle = 34, kBottom = 52;
constexpr double kSwatch = 26, kLegendRow = 17, kLegendGap = 18;
/// Wide for a sans-serif face of 12 pixels, so that entries do not touch in another one.
constexpr double kCharWidth = 7;
/// Curves higher than this many times the highest bar are cut: a spike would flatten the bars.
constexpr double kHeadroom = 1.6;

struct Style {
  std::string_view colour;
  std::string_view dashes;
};
// Okabe and Ito's colours, dark enough on white.
constexpr std::array<Style, 8> kStyles{{{"#0072B2", ""},
                                        {"#D55E00", "8 3"},
                                        {"#009E73", "2 3"},
                                        {"#CC79A7", "8 3 2 3"},
                                        {"#000000", "4 4"},
                                        {"#E69F00", "12 4"},
                                        {"#56B4E9", "1 4"},
                                        {"#7A5C00", "6 2 1 2 1 2"}}};
constexpr std::string_view kBarColour = "#C8CDD2";
constexpr std::string_view kTextColour = "#222222";

/// From values to positions on one side of the chart.
class Scale {
 public:
  Scale(double low, double high, double from, double to, bool logarithmic)
      : low_(logarithmic ? std::log10(low) : low),
        high_(logarithmic ? std::log10(high) : high),
        from_(from),
        to_(to),
        logarithmic_(logarithmic) {
    if (!(high_ > low_)) high_ = low_ + 1;
  }

  double at(double value) const {
    const double v = logarithmic_ ? std::log10(value) : value;
    return from_ + (to_ - from_) * (v - low_) / (high_ - low_);
  }

  /// Round values within the range, some five of them and never fewer than two.
  std::vector<double> ticks() const {
    if (!logarithmic_) return linear_ticks(low_, high_);
    constexpr std::size_t kEnough = 3;
    // Powers of ten, else 1, 2 and 5 times those; within a decade there may be none of either.
    for (const bool powers_alone : {true, false}) {
      if (powers_alone && high_ - low_ < 2.5) continue;
      std::vector<double> out = log_ticks(powers_alone);
      if (out.size() >= kEnough) return out;
    }
    return linear_ticks(std::pow(10, low_), std::pow(10, high_));
  }

 private:
  static std::vector<double> linear_ticks(double low, double high) {
    const double rough = (high - low) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough <= power       ? 1
                                 : rough <= 2 * power ? 2
                                 : rough <= 5 * power ? 5
                                                      : 10);
    std::vector<double> out;
    const double first = std::ceil(low / step - 1e-9);
    for (int i = 0; i <= 6; ++i) {                   // five steps are no shorter than the range
      const double tick = (first + i) * step + 0.0;  // no minus before a zero
      if (tick > high + 1e-9 * step) break;
      out.push_back(tick);
    }
    return out;
  }

  std::vector<double> log_ticks(bool powers_alone) const {
    std::vector<double> out;
    for (double e = std::floor(low_); e <= high_; ++e) {
      for (const double m : {1.0, 2.0, 5.0}) {
        const double v = std::pow(10, e) * m;
        const double l = std::log10(v);
        if (l >= low_ - 1e-9 && l <= high_ + 1e-9 && (m == 1 || !powers_alone)) out.push_back(v);
      }
    }
    return out;
  }

  double low_, high_, from_, to_;
  bool logarithmic_;
};

struct Range {
  double low = 0, high = 1;
};

Range x_range(const Figure& figure) {
  Range range{INFINITY, -INFINITY};
  const auto add = [&](double v) {
    if (!std::isfinite(v) || (figure.x.logarithmic && v <= 0)) return;
    range.low = std::min(range.low, v);
    range.high = std::max(range.high, v);
  };
  for (const double edge : figure.bars.edges) add(edge);
  for (const FigureLine& line : figure.lines) {
    for (const double x : line.x) add(x);
  }
  if (!(range.low <= range.high)) return {1, 10};
  if (range.low == range.high) return {range.low / 2, range.high * 2};
  return range;
}

/// Of what can be drawn on a logarithmic axis, with some room.
Range log_y_range(const Figure& figure) {
  Range range{INFINITY, -INFINITY};
  for (const FigureLine& line : figure.lines) {
    for (const double y : line.y) {
      if (!std::isfinite(y) || y <= 0) continue;
      range.low = std::min(range.low, y / 1.1);
      range.high = std::max(range.high, y * 1.1);
    }
  }
  return range.low <= range.high ? range : Range{1, 10};
}

Range y_range(const Figure& figure) {
  if (figure.y.logarithmic) return log_y_range(figure);
  double bars = 0;
  double lines = 0;
  Range range{0, 0};
  for (const double h : figure.bars.heights) bars = std::max(bars, h);
  for (const FigureLine& line : figure.lines) {
    for (const double y : line.y) {
      if (!std::isfinite(y)) continue;
      lines = std::max(lines, y);
      range.low = std::min(range.low, 1.05 * y);
    }
  }
  range.high = 1.05 * (bars > 0 ? std::clamp(lines, bars, bars * kHeadroom) : lines);
  if (range.low == range.high) range.high = 1;
  return range;
}

/// One for each tick, in as many digits as it takes to tell neighbours apart.
std::vector<std::string> tick_labels(const std::vector<double>& ticks) {
  constexpr int kDigits = 6, kAllDigits = 17;
  std::vector<std::string> labels;
  for (int digits = kDigits; digits <= kAllDigits; ++digits) {
    labels.clear();
    for (const double tick : ticks) labels.push_back(fmt::format("{:.{}g}", tick, digits));
    if (std::adjacent_find(labels.begin(), labels.end()) == labels.end()) break;
  }
  return labels;
}

double text_width(std::string_view text) {
  const auto starts_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  };
  return kCharWidth *
         static_cast<double>(std::count_if(text.begin(), text.end(), starts_character));
}

/// One entry of the legend and where it stands.
struct LegendEntry {
  enum class Kind { kBars, kLine, kDots } kind = Kind::kBars;
  std::string_view label;
  std::size_t style = 0;
  double x = 0;
  std::size_t row = 0;
};

/// From left to right, in as many rows as that takes.
std::vector<LegendEntry> legend_of(const Figure& figure) {
  using enum LegendEntry::Kind;
  std::vector<LegendEntry> entries;
  if (!figure.bars.label.empty()) entries.push_back({kBars, figure.bars.label});
  for (const FigureLine& line : figure.lines) {
    if (!line.label.empty()) entries.push_back({kLine, line.label, line.style});
  }
  if (!figure.dots.empty()) entries.push_back({kDots, figure.dots});
  double x = kLeft;
  std::size_t row = 0;
  for (LegendEntry& entry : entries) {
    const double width = kSwatch + 6 + text_width(entry.label);
    if (x > kLeft && x + width > kWidth - kRight) {
      x = kLeft;
      ++row;
    }
    entry.x = x;
    entry.row = row;
    x += width + kLegendGap;
  }
  return entries;
}

class Drawing {
 public:
  explicit Drawing(const Figure& figure)
      : figure_(figure),
        legend_(legend_of(figure)),
        rows_(legend_.empty() ? 0 : legend_.back().row + 1),
        top_(kTitle + kLegendRow * static_cast<double>(rows_) + 6),
        bottom_(top_ + kPlotHeight),
        x_(x_range(figure).low, x_range(figure).high, kLeft, kWidth - kRight, figure.x.logarithmic),
        y_(y_range(figure).low, y_range(figure).high, bottom_, top_, figure.y.logarithmic) {}

  std::string text() {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(role="img" aria-labelledby="title desc" font-family="sans-serif" font-size="12">)"
        "\n",
        kWidth, bottom_ + kBottom);
    add("<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n", escape_html(figure_.title),
        escape_html(figure_.description));
    add("<rect width=\"{}\" height=\"{}\" fill=\"#FFFFFF\"/>\n", kWidth, bottom_ + kBottom);
    // A page may hold many figures: the same name must mean the same rectangle in all of them.
    add("<clipPath id=\"plot{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n",
        rows_, kLeft, top_, kWidth - kLeft - kRight, kPlotHeight);
    label(kLeft, 22, "start", figure_.title, R"( font-size="15" font-weight="bold")");
    legend();
    axes();
    add("<g clip-path=\"url(#plot{})\">\n", rows_);
    bars();
    for (const FigureLine& line : figure_.lines) curve(line);
    add("</g>\n");
    add("</svg>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void label(double x, double y, std::string_view anchor, std::string_view text,
             std::string_view more = "") {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y,
        anchor, kTextColour, more, escape_html(text));
  }

  void axes() {
    const std::vector<double> y_ticks = y_.ticks();
    const std::vector<std::string> y_labels = tick_labels(y_ticks);
    for (std::size_t i = 0; i < y_ticks.size(); ++i) {
      const double tick = y_ticks[i];
      add(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#E3E6E9"/>)"
          "\n",
          kLeft, kWidth - kRight, y_.at(tick), y_.at(tick));
      label(kLeft - 6, y_.at(tick) + 4, "end", y_labels[i]);
    }
    const FigureBars& bars = figure_.bars;
    for (std::size_t i = 0; i < bars.categories.size() && i + 1 < bars.edges.size(); ++i) {
      label((x_.at(bars.edges[i]) + x_.at(bars.edges[i + 1])) / 2, bottom_ + 18, "middle",
            bars.categories[i]);
    }
    if (bars.categories.empty()) {
      const std::vector<double> x_ticks = x_.ticks();
      const std::vector<std::string> x_labels = tick_labels(x_ticks);
      for (std::size_t i = 0; i < x_ticks.size(); ++i) {
        const double tick = x_ticks[i];
        add(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="{3}"/>)"
            "\n",
            x_.at(tick), bottom_, bottom_ + 4, kTextColour);
        label(x_.at(tick), bottom_ + 18, "middle", x_labels[i]);
      }
    }
    if (y_range(figure_).low < 0) {
      add(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#8A939C"/>)"
          "\n",
          kLeft, kWidth - kRight, y_.at(0), y_.at(0));
    }
    add(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="{4}"/>)"
        "\n",
        kLeft, top_, bottom_, kWidth - kRight, kTextColour);
    label((kLeft + kWidth - kRight) / 2, bottom_ + 40, "middle", figure_.x.title);
    label(0, 0, "middle", figure_.y.title,
          fmt::format(R"x( transform="translate(16 {}) rotate(-90)")x", (top_ + bottom_) / 2));
  }

  void bars() {
    const FigureBars& bars = figure_.bars;
    for (std::size_t i = 0; i < bars.heights.size() && i + 1 < bars.edges.size(); ++i) {
      if (!(bars.heights[i] > 0)) continue;
      const double left = x_.at(bars.edges[i]);
      const double top = y_.at(bars.heights[i]);
      add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}" stroke="#FFFFFF" stroke-width="0.5"/>)"
          "\n",
          left, top, x_.at(bars.edges[i + 1]) - left, y_.at(0) - top, kBarColour);
    }
  }

  void curve(const FigureLine& line) {
    const Style& style = kStyles[line.style % kStyles.size()];
    const std::size_t n = std::min(line.x.size(), line.y.size());
    if (n == 1) {
      add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="none" stroke="{}" stroke-width="2"/>)"
          "\n",
          x_.at(line.x[0]), y_.at(line.y[0]), style.colour);
      return;
    }
    std::string path;
    bool pen_up = true;
    for (std::size_t i = 0; i < n; ++i) {
      const bool drawable = std::isfinite(line.x[i]) && std::isfinite(line.y[i]) &&
                            !(figure_.y.logarithmic && line.y[i] <= 0);
      if (!drawable) {
        pen_up = true;
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_up ? 'M' : 'L',
                     x_.at(line.x[i]), y_.at(line.y[i]));
      pen_up = false;
    }
    add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>)"
        "\n",
        path, style.colour, style.dashes);
  }

  void legend() {
    for (const LegendEntry& entry : legend_) {
      const double y = kTitle + kLegendRow * (static_cast<double>(entry.row) + 0.5);
      const Style& style = kStyles[entry.style % kStyles.size()];
      switch (entry.kind) {
        case LegendEntry::Kind::kBars:
          add(R"(<rect x="{:.1f}" y="{}" width="{}" height="10" fill="{}"/>)"
              "\n",
              entry.x, y - 5, kSwatch, kBarColour);
          break;
        case LegendEntry::Kind::kLine:
          add(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>)"
              "\n",
              entry.x, entry.x + kSwatch, y, y, style.colour, style.dashes);
          break;
        case LegendEntry::Kind::kDots:
          add(R"(<circle cx="{:.1f}" cy="{}" r="4" fill="none" stroke="{}" stroke-width="2"/>)"
              "\n",
              entry.x + kSwatch / 2, y, kTextColour);
          break;
      }
      label(entry.x + kSwatch + 6, y + 4, "start", entry.label);
    }
  }

  const Figure& figure_;
  const std::vector<LegendEntry> legend_;
  const std::size_t rows_;  ///< of the legend
  const double top_;        ///< of the plot
  const double bottom_;
  Scale x_;
  Scale y_;
  std::string out_;
};

}  // namespace

std::string svg(const Figure& figure) {
  return Drawing(figure).text();
}

}  // namespace tailrace::report
