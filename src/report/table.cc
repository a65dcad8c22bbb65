#include "tailrace/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"
#include "tailrace/core/printable.h"

namespace tailrace::report {
namespace {

constexpr std::string_view kGap = "  ";

std::string padded(const std::string& cell, std::size_t width, Table::Align align) {
  return align == Table::Align::kLeft ? fmt::format("{:<{}}", cell, width)
                                      : fmt::format("{:>{}}", cell, width);
}

std::string trimmed_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  TAILRACE_CHECK(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = columns_[c].title.size();
    for (const auto& row : rows_) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  const auto line = [&](auto cell_of) {
    std::string out;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) out += kGap;
      out += padded(cell_of(c), widths[c], columns_[c].align);
    }
    return trimmed_line(std::move(out));
  };
  std::string out = line([&](std::size_t c) { return columns_[c].title; });
  out += line([&](std::size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) out += line([&](std::size_t c) { return row[c]; });
  return out;
}

std::string ascii_cell(std::string_view text) {
  std::string out = core::printable(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) > 126) c = '?';
  }
  return out;
}

std::string figure(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const double size = std::fabs(value);
  if (size != 0 && (size < 1e-6 || size >= 1e9)) return fmt::format("{:.{}g}", value, digits);
  const int magnitude = size == 0 ? 0 : static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - magnitude));
}

}  // namespace tailrace::report
