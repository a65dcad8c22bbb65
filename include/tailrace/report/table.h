// How do rows of figures line up on a terminal that may know ASCII alone?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::report {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns);
  /// Missing cells are empty; surplus ones are a failed check. Cells are ASCII.
  void add_row(std::vector<std::string> cells);
  /// A title line, a rule, and one line per row, each ending with a line feed.
  std::string text() const;

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A text from outside as a cell: printable, and "?" for what is not ASCII.
std::string ascii_cell(std::string_view text);

/// About `digits` significant digits without an exponent where that stays readable: "0.0123",
/// "12.3", "1230"; "-" for nothing.
std::string figure(double value, int digits = 3);

}  // namespace tailrace::report
