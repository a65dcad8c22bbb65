#include "tailrace/dataset/servegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "dataset/trace_source.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"
#include "tailrace/dataset/json_lines.h"

namespace tailrace::dataset {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;
using Clients = std::map<std::uint64_t, ServeGenClient>;

constexpr double kRateMax = 1e6;
constexpr double kShapeMin = 1e-3, kShapeMax = 1e6;
constexpr double kTokensMax = static_cast<double>(kTraceTokensMax);
constexpr double kBinsPerOctave = 12;  ///< of a histogram: bin = round(12·log2(tokens))
constexpr std::size_t kRecordsMax = 200'000;

double log_tokens(double tokens) {
  return std::log(std::max(1.0, tokens));
}

/// A table whose rows belong to clients.
class ClientTable {
 public:
  static Result<ClientTable> open(const std::string& path) {
    auto lines = LineReader::open(path, kTraceLineBytesMax);
    if (!lines) return fail(lines.error());
    auto csv = CsvReader::open(std::move(*lines));
    if (!csv) return fail(csv.error());
    return ClientTable(std::move(*csv));
  }

  Result<std::size_t> column(std::string_view name) const {
    if (const auto at = csv_.column(name)) return *at;
    return fail(csv_.lines().at_line(
        ErrorCode::kInvalidArgument,
        fmt::format("there is no column {}, which ServeGen's table must have", name)));
  }

  Result<bool> next() { return csv_.next(cells_); }

  bool is_empty(std::size_t column) const { return core::trim(cells_[column]).empty(); }
  std::string_view cell(std::size_t column) const { return core::trim(cells_[column]); }

  Result<double> number(std::size_t column, double least, double most) const {
    const auto value = core::parse_double(cell(column));
    if (value && *value >= least && *value <= most) return *value;
    return bad(fmt::format("{} is {}; it must be a number, {} to {}", csv_.header()[column],
                           core::quoted(cells_[column]), least, most));
  }

  Result<std::uint64_t> client(std::size_t column) const {
    const auto value = core::parse_int(cell(column));
    if (value && *value >= 0) return static_cast<std::uint64_t>(*value);
    return bad(fmt::format("client is {}; it must be a whole number, 0 or more",
                           core::quoted(cells_[column])));
  }

  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(csv_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

 private:
  explicit ClientTable(CsvReader csv) : csv_(std::move(csv)) {}

  CsvReader csv_;
  std::vector<std::string> cells_;
};

/// Whole windows; they are cut to the time asked for when all are known.
Result<Clients> read_windows(const std::string& path, double from_s, double until_s) {
  auto table = ClientTable::open(path);
  if (!table) return fail(table.error());
  std::array<std::size_t, 5> at{};
  constexpr std::array<std::string_view, 5> kNames{"client", "t_s", "rate_rps", "family", "shape"};
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto column = table->column(kNames[i]);
    if (!column) return fail(column.error());
    at[i] = *column;
  }
  Clients clients;
  std::size_t windows = 0;
  for (;;) {
    const auto more = table->next();
    if (!more) return fail(more.error());
    if (!*more) return clients;
    const auto id = table->client(at[0]);
    if (!id) return fail(id.error());
    const auto begin_s = table->number(at[1], 0, kTraceSecondsMax);
    if (!begin_s) return fail(begin_s.error());
    const auto rate = table->number(at[2], 0, kRateMax);
    if (!rate) return fail(rate.error());
    const auto shape = table->number(at[4], kShapeMin, kShapeMax);
    if (!shape) return fail(shape.error());
    const std::string_view family = table->cell(at[3]);
    if (family != "G" && family != "W") {
      return table->bad(
          fmt::format("family is {}; it must be G (gamma) or W (Weibull)", core::quoted(family)));
    }
    RateWindow window{*begin_s, *begin_s + kServeGenWindow_s, *rate, family == "W", *shape};
    if (*rate == 0 || window.end_s <= from_s || window.begin_s >= until_s) continue;
    ServeGenClient& client = clients[*id];
    client.id = *id;
    if (!client.windows.empty()) {
      RateWindow& before = client.windows.back();
      if (*begin_s <= before.begin_s) {
        return table->bad(
            fmt::format("client {} has a window at {} s after one at {} s; sort the "
                        "table by client and time",
                        *id, *begin_s, before.begin_s));
      }
      before.end_s = std::min(before.end_s, *begin_s);
    }
    client.windows.push_back(window);
    if (++windows > kServeGenWindowsMax || clients.size() > kServeGenClientsMax) {
      return fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}: more than {} windows or {} clients; ask for a shorter time",
                              path, kServeGenWindowsMax, kServeGenClientsMax));
    }
  }
}

/// "in" or "out": nothing where the cells are empty.
class QuantileColumns {
 public:
  Result<void> find(const ClientTable& table, std::string_view side) {
    for (std::size_t i = 0; i < kShares.size(); ++i) {
      const auto column = table.column(fmt::format("{}_{}", side, kNames[i]));
      if (!column) return fail(column.error());
      columns_[i] = *column;
    }
    return {};
  }

  Result<std::optional<TokenCurve>> read(const ClientTable& table) const {
    if (table.is_empty(columns_[0])) return std::nullopt;
    std::vector<TokenCurve::Point> points;
    points.push_back({0, 0});
    for (std::size_t i = 0; i < kShares.size(); ++i) {
      const auto tokens = table.number(columns_[i], 0, kTokensMax);
      if (!tokens) return fail(tokens.error());
      points.push_back({kShares[i], log_tokens(*tokens)});
      if (points[i].log_tokens > points[i + 1].log_tokens) {
        return table.bad(
            fmt::format("{} of the lengths is less than a lower one; percentiles must "
                        "ascend",
                        kNames[i]));
      }
    }
    // Nothing is published below the tenth percentile: the curve goes on as it does above it.
    const double slope = (points[2].log_tokens - points[1].log_tokens) / (kShares[1] - kShares[0]);
    points[0].log_tokens = std::max(0.0, points[1].log_tokens - slope * kShares[0]);
    return TokenCurve(std::move(points));
  }

 private:
  static constexpr std::array<double, 8> kShares{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};
  static constexpr std::array<std::string_view, 8> kNames{"p10", "p25", "p50", "p75",
                                                          "p90", "p95", "p99", "max"};
  std::array<std::size_t, 8> columns_{};
};

/// Lengths of clients that send nothing may stand in for those of one that has none.
class Records {
 public:
  explicit Records(std::string path) : path_(std::move(path)) {}

  /// A curve that is missing is passed over.
  Result<void> add(std::uint64_t client, double at_s, bool is_histogram,
                   std::optional<TokenCurve> prompt, std::optional<TokenCurve> output) {
    if (++count_ > kRecordsMax) {
      return fail(
          ErrorCode::kResourceExhausted,
          fmt::format("{}: more than {} records of lengths; leave some out", path_, kRecordsMax));
    }
    Lengths& of = by_client_[client];
    if (prompt) of.prompts->push_back({at_s, is_histogram, std::move(*prompt)});
    if (output) of.outputs->push_back({at_s, is_histogram, std::move(*output)});
    return {};
  }

  Result<void> finish() {
    std::erase_if(by_client_, [](const auto& entry) { return entry.second.outputs->empty(); });
    if (by_client_.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: it holds no output lengths; give at least one", path_));
    }
    const auto sort = [](CurvesOverTime& curves) {
      std::sort(curves.begin(), curves.end(), [](const auto& a, const auto& b) {
        return std::pair(a.at_s, a.is_histogram) < std::pair(b.at_s, b.is_histogram);
      });
    };
    for (auto& [id, lengths] : by_client_) {
      sort(*lengths.prompts);
      sort(*lengths.outputs);
    }
    return {};
  }

  /// Some clients' lengths were not published: those of the next one by id stand in.
  void give(ServeGenClient& client) const {
    auto own = by_client_.lower_bound(client.id);
    if (own == by_client_.end()) own = by_client_.begin();
    client.prompts = own->second.prompts;
    client.outputs = own->second.outputs;
  }

 private:
  struct Lengths {
    std::shared_ptr<CurvesOverTime> prompts = std::make_shared<CurvesOverTime>();
    std::shared_ptr<CurvesOverTime> outputs = std::make_shared<CurvesOverTime>();
  };

  std::string path_;
  std::map<std::uint64_t, Lengths> by_client_;
  std::size_t count_ = 0;
};

Result<void> read_quantiles(const std::string& path, Records& into) {
  auto table = ClientTable::open(path);
  if (!table) return fail(table.error());
  const auto client_at = table->column("client");
  if (!client_at) return fail(client_at.error());
  const auto time_at = table->column("t_s");
  if (!time_at) return fail(time_at.error());
  QuantileColumns prompt, output;
  if (auto found = prompt.find(*table, "in"); !found) return found;
  if (auto found = output.find(*table, "out"); !found) return found;
  for (;;) {
    const auto more = table->next();
    if (!more) return fail(more.error());
    if (!*more) return {};
    const auto client = table->client(*client_at);
    if (!client) return fail(client.error());
    const auto at_s = table->number(*time_at, 0, kTraceSecondsMax);
    if (!at_s) return fail(at_s.error());
    auto prompt_curve = prompt.read(*table);
    if (!prompt_curve) return fail(prompt_curve.error());
    auto output_curve = output.read(*table);
    if (!output_curve) return fail(output_curve.error());
    auto added =
        into.add(*client, *at_s, false, std::move(*prompt_curve), std::move(*output_curve));
    if (!added) return added;
  }
}

class HistogramLines {
 public:
  explicit HistogramLines(LineReader lines) : json_(std::move(lines)) {}

  /// False at the end.
  Result<bool> next(Records& into) {
    auto line = json_.next();
    if (!line) return fail(line.error());
    if (!*line) return false;
    const object fields = **line;
    std::int64_t client = 0;
    if (fields.at_key("client").get(client) != simdjson::SUCCESS || client < 0) {
      return bad("client is missing, or no whole number of 0 or more");
    }
    double at_s = 0;
    if (fields.at_key("t_s").get(at_s) != simdjson::SUCCESS || !is_trace_time(at_s)) {
      return bad(fmt::format("t_s is missing or wrong; {}", kTimeRemedy));
    }
    std::optional<TokenCurve> prompt, output;
    if (auto ok = read("input_tokens", fields, prompt); !ok) return fail(ok.error());
    if (auto ok = read("output_tokens", fields, output); !ok) return fail(ok.error());
    auto added = into.add(static_cast<std::uint64_t>(client), at_s, true, std::move(prompt),
                          std::move(output));
    if (!added) return fail(added.error());
    return true;
  }

 private:
  Result<void> read(std::string_view key, const object& fields, std::optional<TokenCurve>& into) {
    object bins;
    element value;
    if (fields.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return {};
    if (value.get(bins) != simdjson::SUCCESS) {
      return bad(fmt::format("{} is no object from bins to shares; give one", key));
    }
    std::map<std::int64_t, double> shares;
    double sum = 0;
    for (const auto& [name, number] : bins) {
      const auto bin = core::parse_int(name);
      double share = 0;
      if (!bin || *bin < 0 || *bin > 480 || number.get(share) != simdjson::SUCCESS ||
          !(share >= 0 && share <= 1)) {
        return bad(
            fmt::format("{}[{}] is {}; bins are whole numbers from 0 to 480, shares from 0 "
                        "to 1",
                        key, core::quoted(name), core::quoted(simdjson::minify(number))));
      }
      shares[*bin] += share;
      sum += share;
    }
    if (!(sum > 0)) return bad(fmt::format("{} holds no share above 0; give at least one", key));
    std::vector<TokenCurve::Point> points;
    const double width = std::log(2.0) / kBinsPerOctave;
    double below = 0;
    for (const auto& [bin, share] : shares) {
      if (share == 0) continue;
      points.push_back({below / sum, std::max(0.0, (static_cast<double>(bin) - 0.5) * width)});
      below += share;
      points.push_back({below / sum, (static_cast<double>(bin) + 0.5) * width});
    }
    points.back().share = 1;
    into.emplace(std::move(points));
    return {};
  }

  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(json_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

  JsonLines json_;
};

Result<void> read_histograms(const std::string& path, Records& into) {
  auto lines = LineReader::open(path, kTraceLineBytesMax);
  if (!lines) return fail(lines.error());
  HistogramLines histograms(std::move(*lines));
  for (;;) {
    const auto more = histograms.next(into);
    if (!more) return fail(more.error());
    if (!*more) return {};
  }
}

}  // namespace

double TokenCurve::at(double u) const {
  const auto above = std::upper_bound(points_.begin() + 1, points_.end() - 1, u,
                                      [](double share, const Point& p) { return share < p.share; });
  const Point& high = *above;
  const Point& low = *(above - 1);
  const double width = high.share - low.share;
  const double part = width > 0 ? std::clamp((u - low.share) / width, 0.0, 1.0) : 1;
  return std::exp(low.log_tokens + part * (high.log_tokens - low.log_tokens));
}

Result<std::vector<ServeGenClient>> read_servegen(const ServeGenFiles& files, double from_s,
                                                  double until_s) {
  auto clients = read_windows(files.arrivals, from_s, until_s);
  if (!clients) return fail(clients.error());
  if (clients->empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no client sends between {} and {} s; ask for another time",
                            files.arrivals, from_s, until_s));
  }
  Records records(files.lengths);
  if (auto ok = read_quantiles(files.lengths, records); !ok) return fail(ok.error());
  if (!files.histograms.empty()) {
    if (auto ok = read_histograms(files.histograms, records); !ok) return fail(ok.error());
  }
  if (auto ok = records.finish(); !ok) return fail(ok.error());
  std::vector<ServeGenClient> all;
  for (auto& [id, client] : *clients) {
    client.windows.front().begin_s = std::max(client.windows.front().begin_s, from_s);
    client.windows.back().end_s = std::min(client.windows.back().end_s, until_s);
    records.give(client);
    all.push_back(std::move(client));
  }
  return all;
}

}  // namespace tailrace::dataset
