#include "tailrace/dataset/csv.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <unordered_set>

#include "tailrace/core/text.h"

namespace tailrace::dataset {
namespace {

constexpr std::size_t kMaxColumns = 100'000;

/// Splits a row, one line at a time, since a quoted cell may hold line ends.
class RowParser {
 public:
  RowParser(std::vector<std::string>& cells, std::size_t max_cells)
      : cells_(cells), max_cells_(max_cells) {
    cells_.clear();
    cells_.emplace_back();
  }

  /// Errors as text; a cell beyond `max_cells` ends the row (see `overflowed()`) before it can take
  /// memory. Afterwards `quote_open()` says whether the row goes on in the next line.
  std::optional<std::string> add_line(std::string_view line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (in_quotes_) {
        if (c != '"') {
          cells_.back() += c;
        } else if (i + 1 < line.size() && line[i + 1] == '"') {
          cells_.back() += '"';
          ++i;
        } else {
          in_quotes_ = false;
          closed_ = true;
        }
      } else if (c == ',') {
        if (cells_.size() == max_cells_) {
          overflowed_ = true;
          return std::nullopt;
        }
        cells_.emplace_back();
        closed_ = false;
      } else if (c == '"' && cells_.back().empty() && !closed_) {
        in_quotes_ = true;
      } else if (c == '"' || closed_) {
        return fmt::format(
            "a quote inside column {}; put the whole cell in quotes and double those within",
            cells_.size());
      } else {
        cells_.back() += c;
      }
    }
    if (in_quotes_) cells_.back() += '\n';
    return std::nullopt;
  }

  bool quote_open() const { return in_quotes_; }
  bool overflowed() const { return overflowed_; }

 private:
  std::vector<std::string>& cells_;
  const std::size_t max_cells_;
  bool overflowed_ = false;
  bool in_quotes_ = false;
  bool closed_ = false;  ///< the current cell had its closing quote
};

}  // namespace

Result<void> CsvReader::parse_row(std::string_view line, std::vector<std::string>& cells) {
  // The header itself is read while there are no names yet.
  const bool is_header = &cells == &header_;
  RowParser row(cells, is_header ? kMaxColumns : header_.size());
  const std::uint64_t first = lines_.line_number();
  std::size_t bytes = 0;
  for (;;) {
    bytes += line.size() + 1;  // with the line end, which a quoted cell keeps
    if (!simdjson::validate_utf8(line.data(), line.size())) {
      return fail(lines_.at_line(ErrorCode::kInvalidArgument, "not UTF-8 text; convert the file"));
    }
    if (auto wrong = row.add_line(line)) {
      return fail(lines_.at_line(ErrorCode::kInvalidArgument, *wrong));
    }
    if (row.overflowed()) {
      return fail(lines_.at_line(
          ErrorCode::kInvalidArgument,
          is_header ? fmt::format("more than {} columns; leave out those that are not needed, or "
                                  "give one answer a row",
                                  kMaxColumns)
                    : fmt::format("more than {0} cells, but the header names {0} columns; give "
                                  "one cell for each",
                                  header_.size())));
    }
    if (!row.quote_open()) return {};
    const auto next = lines_.next();
    if (!next) return fail(next.error());
    if (!*next || bytes > LineReader::kMaxLineBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: line {}: a quote that opens here is never closed; close it, or "
                              "double it where it is meant as a letter",
                              lines_.name(), first));
    }
    line = **next;
  }
}

Result<CsvReader> CsvReader::open(LineReader lines) {
  auto first = lines.next();
  if (!first) return fail(first.error());
  if (!*first) {
    return fail(ErrorCode::kInvalidArgument, lines.name() +
                                                 ": it is empty; the first line must "
                                                 "name the columns");
  }
  const std::string line(**first);
  return with_header(std::move(lines), line);
}

Result<CsvReader> CsvReader::with_header(LineReader lines, std::string_view first_line) {
  CsvReader reader(std::move(lines));
  const std::string line(first_line);
  if (auto parsed = reader.parse_row(line, reader.header_); !parsed) return fail(parsed.error());
  for (std::string& name : reader.header_) name = std::string(core::trim(name));
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < reader.header_.size(); ++i) {
    const std::string& name = reader.header_[i];
    if (name.empty()) {
      return fail(reader.lines_.at_line(ErrorCode::kInvalidArgument,
                                        fmt::format("column {} has no name; the first line must "
                                                    "name every column",
                                                    i + 1)));
    }
    if (!names.insert(name).second) {
      return fail(reader.lines_.at_line(
          ErrorCode::kInvalidArgument,
          fmt::format("two columns are called {}; rename one", core::quoted(name))));
    }
  }
  return reader;
}

std::optional<std::size_t> CsvReader::column(std::string_view name) const {
  const auto at = std::find(header_.begin(), header_.end(), name);
  if (at == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - header_.begin());
}

Result<bool> CsvReader::next(std::vector<std::string>& cells) {
  for (;;) {
    const auto line = lines_.next();
    if (!line) return fail(line.error());
    if (!*line) return false;
    if (core::trim(**line).empty()) continue;
    if (auto parsed = parse_row(**line, cells); !parsed) return fail(parsed.error());
    if (cells.size() != header_.size()) {
      return fail(lines_.at_line(
          ErrorCode::kInvalidArgument,
          fmt::format("{} cells, but the header names {} columns; give one cell for each",
                      cells.size(), header_.size())));
    }
    return true;
  }
}

}  // namespace tailrace::dataset
