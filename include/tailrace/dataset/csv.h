// What does the next row of a CSV file say, by the names in its header?
//
// RFC 4180: commas, double quotes around what holds a comma, a quote (doubled) or a line end; LF or
// CR LF. The first row names the columns. Memory is one row. Text must be UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/dataset/line_reader.h"

namespace tailrace::dataset {

class CsvReader {
 public:
  /// Reads the header. Errors: those of LineReader; kInvalidArgument for no header, a column
  /// without a name or with another's, more than 100,000 columns.
  static Result<CsvReader> open(LineReader lines);
  /// The same where the caller has read the first line already.
  static Result<CsvReader> with_header(LineReader lines, std::string_view first_line);

  const std::vector<std::string>& header() const { return header_; }
  std::optional<std::size_t> column(std::string_view name) const;

  /// The next row's cells, one for each column, in `cells`; false at the end. Blank lines are
  /// passed over. Errors: those of LineReader; kInvalidArgument for a row of another width, a quote
  /// that never closes or stands inside a plain cell, bytes that are no UTF-8.
  Result<bool> next(std::vector<std::string>& cells);

  const LineReader& lines() const { return lines_; }

 private:
  explicit CsvReader(LineReader lines) : lines_(std::move(lines)) {}
  /// Cells of the row that begins with `line`, reading on while a quote is open.
  Result<void> parse_row(std::string_view line, std::vector<std::string>& cells);

  LineReader lines_;
  std::vector<std::string> header_;
};

}  // namespace tailrace::dataset
