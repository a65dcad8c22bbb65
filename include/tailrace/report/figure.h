// How does a small chart look in a browser or a document, drawn by this program alone?
//
// A Figure is bars with lines over them, written as SVG: fixed width, no script, no font or image
// from elsewhere. The legend stands between title and axes, never on the data. Lines differ by
// colour (told apart by colour-blind readers too) and by dashes; title and description are there
// for screen readers. Any text is escaped. Deterministic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::report {

struct FigureAxis {
  std::string title;
  bool logarithmic = false;  ///< then values must be above 0
};

/// Bar i stands between edges[i] and edges[i + 1].
struct FigureBars {
  std::string label;
  std::vector<double> edges;
  std::vector<double> heights;
  std::vector<std::string> categories = {};  ///< one under each bar, in place of the axis' numbers
};

/// Points joined by a line; a single one is a dot. What is not finite breaks the line.
struct FigureLine {
  std::string label;  ///< empty: not in the legend
  std::vector<double> x;
  std::vector<double> y;
  std::size_t style = 0;  ///< colour and dashes; those of one style look alike
};

struct Figure {
  std::string title;
  std::string description;
  FigureAxis x;
  FigureAxis y;  ///< linear: begins at 0, or below where a line does; logarithmic: no bars
  FigureBars bars;
  std::vector<FigureLine> lines;
  std::string dots;  ///< what lines of a single point are, in the legend; empty: not in it
};

/// A whole SVG document. Empty bars and lines give empty axes.
std::string svg(const Figure& figure);

}  // namespace tailrace::report
