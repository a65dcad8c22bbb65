#include "tailrace/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tailrace/report/html.h"

namespace tailrace::report {
namespace {

constexpr double kWidth = 480, kLeft = 64, kRight = 16, kTop = 34, kPlotHeight = 240;
constexpr double kBottom = 84, kSwatch = 16;
constexpr std::string_view kTextColour = "#222222";
// One blue, from light to dark: lightness alone tells them apart.
constexpr std::array<std::string_view, 8> kColours = {"#DCE9F6", "#BDD7EE", "#94C2E2", "#66A8D4",
                                                      "#3F8CC3", "#2070B0", "#0D529A", "#08306B"};

class HeatDrawing {
 public:
  explicit HeatDrawing(const HeatMap& map) : map_(map), darkest_(map.darkest) {
    if (darkest_ == 0) {
      for (const std::uint64_t count : map.counts) darkest_ = std::max(darkest_, count);
    }
  }

  std::string text() {
    const double height = kTop + kPlotHeight + kBottom;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(role="img" font-family="sans-serif" font-size="12">)"
        "\n",
        kWidth, height);
    add("<title>{}</title>\n<desc>{}</desc>\n", escape_html(map_.title),
        escape_html(map_.description));
    add("<rect width=\"{}\" height=\"{}\" fill=\"#FFFFFF\"/>\n", kWidth, height);
    label(kLeft, 22, "start", map_.title, R"( font-size="15" font-weight="bold")");
    cells();
    axes();
    legend();
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

  double x_of(double column) const {
    return kLeft + (kWidth - kLeft - kRight) * column /
                       static_cast<double>(std::max<std::size_t>(1, map_.columns));
  }
  double y_of(double row) const {
    return kTop + kPlotHeight -
           kPlotHeight * row / static_cast<double>(std::max<std::size_t>(1, map_.rows));
  }

  std::string_view colour_of(std::uint64_t count) const {
    const double share = darkest_ > 1 ? std::log(static_cast<double>(count)) /
                                            std::log(static_cast<double>(darkest_))
                                      : 1;
    const auto last = static_cast<double>(kColours.size() - 1);
    return kColours[static_cast<std::size_t>(std::clamp(std::round(share * last), 0.0, last))];
  }

  void cells() {
    for (std::size_t row = 0; row < map_.rows; ++row) {
      for (std::size_t column = 0; column < map_.columns; ++column) {
        const std::size_t i = row * map_.columns + column;
        if (i >= map_.counts.size() || map_.counts[i] == 0) continue;
        const double left = x_of(static_cast<double>(column));
        const double top = y_of(static_cast<double>(row + 1));
        add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)"
            "\n",
            left, top, x_of(static_cast<double>(column + 1)) - left,
            y_of(static_cast<double>(row)) - top, colour_of(map_.counts[i]));
      }
    }
  }

  void axes() {
    const double bottom = kTop + kPlotHeight;
    for (const auto& [at, text] : map_.x_ticks) {
      add(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="{3}"/>)"
          "\n",
          x_of(at), bottom, bottom + 4, kTextColour);
      label(x_of(at), bottom + 18, "middle", text);
    }
    for (const auto& [at, text] : map_.y_ticks) label(kLeft - 6, y_of(at) + 4, "end", text);
    add(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="{4}"/>)"
        "\n",
        kLeft, kTop, bottom, kWidth - kRight, kTextColour);
    label((kLeft + kWidth - kRight) / 2, bottom + 36, "middle", map_.x_title);
    label(0, 0, "middle", map_.y_title,
          fmt::format(R"x( transform="translate(16 {}) rotate(-90)")x", kTop + kPlotHeight / 2));
  }

  void legend() {
    const double y = kTop + kPlotHeight + 52;
    double x = kLeft;
    label(x, y + 12, "start", "1");
    x += 14;
    for (const std::string_view colour : kColours) {
      add(R"(<rect x="{:.1f}" y="{:.1f}" width="{}" height="14" fill="{}"/>)"
          "\n",
          x, y, kSwatch, colour);
      x += kSwatch;
    }
    label(x + 6, y + 12, "start",
          fmt::format("{} in a cell", std::max<std::uint64_t>(1, darkest_)));
  }

  const HeatMap& map_;
  std::uint64_t darkest_;
  std::string out_;
};

}  // namespace

std::string svg(const HeatMap& map) {
  return HeatDrawing(map).text();
}

}  // namespace tailrace::report
