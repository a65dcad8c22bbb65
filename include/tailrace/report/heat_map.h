// Where do many counts gather, over two axes?
//
// A HeatMap is a grid of counts written as SVG, like a Figure: no script, nothing from elsewhere,
// all text escaped. One hue from light to dark, by the logarithm of the count, so that colour-blind
// readers and grey printers see the same; empty cells stay white. Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tailrace::report {

struct HeatMap {
  std::string title;
  std::string description;
  std::string x_title;
  std::string y_title;
  std::size_t columns = 0;
  std::size_t rows = 0;               ///< the first stands at the bottom
  std::vector<std::uint64_t> counts;  ///< row by row; what is missing counts as 0
  /// Labels at cell borders: 0 is the left or lower end, `columns` or `rows` the other.
  std::vector<std::pair<double, std::string>> x_ticks;
  std::vector<std::pair<double, std::string>> y_ticks;
  std::uint64_t darkest = 0;  ///< the count of the darkest colour; 0: the greatest of this map
};

/// A whole SVG document.
std::string svg(const HeatMap& map);

}  // namespace tailrace::report
