#include "evaluate/length_tables.h"

#include <fmt/format.h>

#include <vector>

#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"

namespace tailrace::evaluate {
namespace {

constexpr std::string_view kTemperaturePrefix = "L_t";
constexpr std::int64_t kTemperatureTableCap = 512;

/// A column of lengths and what its header says about the requests.
struct LengthColumn {
  std::size_t index = 0;
  std::string model;
  std::optional<double> temperature;
};

struct Layout {
  std::size_t prompt_id = 0;
  std::optional<std::size_t> prompt_tokens;
  std::optional<std::int64_t> cap;
  std::vector<LengthColumn> lengths;
};

std::optional<Layout> by_temperature(const dataset::CsvReader& table) {
  const auto id = table.column("alpaca_id");
  if (!id) return std::nullopt;
  Layout layout;
  layout.prompt_id = *id;
  layout.cap = kTemperatureTableCap;
  for (std::size_t c = 0; c < table.header().size(); ++c) {
    const std::string_view title = table.header()[c];
    if (!title.starts_with(kTemperaturePrefix)) continue;
    const auto temperature = core::parse_double(title.substr(kTemperaturePrefix.size()));
    if (temperature) layout.lengths.push_back({c, {}, *temperature});
  }
  return layout;
}

std::optional<Layout> by_model(const dataset::CsvReader& table) {
  const auto id = table.column("id");
  const auto last_feature = table.column("f_short");
  if (!id || !last_feature) return std::nullopt;
  Layout layout;
  layout.prompt_id = *id;
  layout.prompt_tokens = table.column("prompt_tokens");
  for (std::size_t c = *last_feature + 1; c < table.header().size(); ++c) {
    layout.lengths.push_back({c, table.header()[c], std::nullopt});
  }
  return layout;
}

Result<void> add_cells(const dataset::CsvReader& table, const Layout& layout,
                       const std::vector<std::string>& cells, RowMaker& rows) {
  const auto number = [&](std::size_t column) -> Result<std::int64_t> {
    const auto value = core::parse_int(cells[column]);
    if (value && *value >= 0 && *value <= kTokensMax) return *value;
    return fail(table.lines().at_line(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is {}; give a whole number of tokens from 0 to {}", table.header()[column],
                    core::quoted(cells[column]), kTokensMax)));
  };
  Asked asked;
  asked.features.route = "chat";
  asked.prompt_hash = stable_hash(cells[layout.prompt_id]);
  if (layout.prompt_tokens) {
    const auto tokens = number(*layout.prompt_tokens);
    if (!tokens) return fail(tokens.error());
    asked.features.prompt_tokens = Tokens(*tokens);
  }
  for (const LengthColumn& column : layout.lengths) {
    if (cells[column.index].empty()) continue;
    const auto length = number(column.index);
    if (!length) return fail(length.error());
    asked.features.model = column.model;
    asked.features.temperature = column.temperature;
    if (auto added = rows.add(asked, layout.cap, *length); !added) return added;
  }
  return {};
}

}  // namespace

Result<void> read_length_table(const std::string& path, RowMaker& rows) {
  auto lines = dataset::LineReader::open(path, kLineBytesMax);
  if (!lines) return fail(lines.error());
  auto table = dataset::CsvReader::open(std::move(*lines));
  if (!table) return fail(table.error());
  auto layout = by_temperature(*table);
  if (!layout) layout = by_model(*table);
  if (!layout || layout->lengths.empty()) {
    return fail(table->lines().at_line(
        ErrorCode::kInvalidArgument,
        "the header is of no known table; give JSON lines, see tailrace evaluate --help (tables "
        "of lengths such as id,length are for tailrace fit)"));
  }
  std::vector<std::string> cells;
  while (true) {
    const auto more = table->next(cells);
    if (!more) return fail(more.error());
    if (!*more) return {};
    if (auto added = add_cells(*table, *layout, cells, rows); !added) return added;
  }
}

}  // namespace tailrace::evaluate
