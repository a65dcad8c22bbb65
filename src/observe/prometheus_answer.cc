#include "tailrace/observe/prometheus_answer.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <limits>
#include <optional>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMessageBytesMax = 400;
constexpr std::size_t kWarningsMax = 20;

tl::unexpected<Error> damaged(std::string message) {
  return fail(ErrorCode::kDataLoss, std::move(message));
}

std::string_view text_or(const simdjson::simdjson_result<element>& value,
                         std::string_view otherwise) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? text : otherwise;
}

/// A server's own words, for one line of ours.
std::string said(std::string_view text) {
  return core::printable(core::utf8_prefix(text, kMessageBytesMax));
}

/// Values come as text: "0.5", "NaN", "+Inf".
std::optional<double> read_value(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf" || text == "Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  const auto value = core::parse_double(text.starts_with('+') ? text.substr(1) : text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

/// [seconds, "value"].
std::optional<Point> read_point(element pair) {
  array both;
  if (pair.get(both) != simdjson::SUCCESS || both.size() != 2) return std::nullopt;
  Point point;
  std::string_view text;
  if (both.at(0).get(point.time_s) != simdjson::SUCCESS || !std::isfinite(point.time_s)) {
    return std::nullopt;
  }
  if (both.at(1).get(text) != simdjson::SUCCESS) return std::nullopt;
  const auto value = read_value(text);
  if (!value) return std::nullopt;
  point.value = *value;
  return point;
}

class Reader {
 public:
  explicit Reader(const PrometheusAnswerLimits& limits) : limits_(limits) {}

  Result<PrometheusAnswer> read(element document) {
    object root;
    if (document.get(root) != simdjson::SUCCESS) {
      return damaged("the answer is JSON, but no object: is this the address of a Prometheus?");
    }
    const std::string_view status = text_or(root["status"], "");
    if (status == "error") return refused(root);
    if (status != "success") {
      return damaged(fmt::format("the answer's status is {} instead of \"success\" or \"error\"",
                                 core::quoted(status)));
    }
    read_warnings(root);
    object data;
    if (root["data"].get(data) != simdjson::SUCCESS) return damaged("the answer has no data");
    if (const auto ok = read_data(data); !ok) return fail(ok.error());
    if (problems_left_out_ > 0) {
      answer_.problems.push_back(fmt::format("and {} more", problems_left_out_));
    }
    return std::move(answer_);
  }

 private:
  static tl::unexpected<Error> refused(object root) {
    const std::string_view type = text_or(root["errorType"], "unknown");
    const bool wrong = type == "bad_data" || type == "execution" || type == "not_found";
    return fail(wrong ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
                fmt::format("the server says {}: {}", said(type),
                            said(text_or(root["error"], "(nothing more)"))));
  }

  void problem(std::string message) {
    if (answer_.problems.size() < limits_.problems_max) {
      answer_.problems.push_back(std::move(message));
    } else {
      ++problems_left_out_;
    }
  }

  void read_warnings(object root) {
    bool partial = false;
    if (root["isPartial"].get(partial) == simdjson::SUCCESS && partial) {
      answer_.warnings.emplace_back("the answer is partial: some of the storage did not answer");
    }
    array warnings;
    if (root["warnings"].get(warnings) != simdjson::SUCCESS) return;
    for (const element warning : warnings) {
      if (answer_.warnings.size() == kWarningsMax) return;
      std::string_view text;
      if (warning.get(text) == simdjson::SUCCESS) answer_.warnings.push_back(said(text));
    }
  }

  Result<void> read_data(object data) {
    const std::string_view type = text_or(data["resultType"], "");
    const auto result = data["result"];
    if (type == "scalar" || type == "string") return read_single(type, result);
    if (type != "vector" && type != "matrix") {
      return damaged(fmt::format("the answer's resultType is {}", core::quoted(type)));
    }
    answer_.kind =
        type == "vector" ? PrometheusAnswer::Kind::kVector : PrometheusAnswer::Kind::kMatrix;
    array entries;
    if (result.get(entries) != simdjson::SUCCESS) return damaged("the answer's result is no list");
    for (const element entry : entries) {
      if (answer_.series.size() == limits_.series_max) {
        problem(
            fmt::format("there are more than {} series; the rest is not used", limits_.series_max));
        break;
      }
      read_series(entry);
    }
    return {};
  }

  Result<void> read_single(std::string_view type,
                           const simdjson::simdjson_result<element>& result) {
    element pair;
    if (result.get(pair) != simdjson::SUCCESS) return damaged("the answer has no result");
    if (type == "string") {
      answer_.kind = PrometheusAnswer::Kind::kString;
      array both;
      if (pair.get(both) != simdjson::SUCCESS || both.size() != 2) {
        return damaged("the answer's string is no pair of time and text");
      }
      answer_.text = text_or(both.at(1), "");
      return {};
    }
    answer_.kind = PrometheusAnswer::Kind::kScalar;
    const auto point = read_point(pair);
    if (!point) return damaged("the answer's scalar is no pair of time and number");
    answer_.series.push_back({{}, {*point}});
    return {};
  }

  void read_series(element entry) {
    object fields;
    Series series;
    if (entry.get(fields) != simdjson::SUCCESS || !read_metric(fields["metric"], series.key)) {
      return problem("a series has no labels that can be read");
    }
    const bool vector = answer_.kind == PrometheusAnswer::Kind::kVector;
    element value;
    if (fields[vector ? "value" : "values"].get(value) != simdjson::SUCCESS) {
      const bool native = fields[vector ? "histogram" : "histograms"].error() == simdjson::SUCCESS;
      return problem(fmt::format("the series {} {}", core::quoted(series.key.name),
                                 native ? "is a native histogram, which is not read; let the "
                                          "exporter or the scrape keep classic buckets"
                                        : "has no value"));
    }
    if (vector) {
      add_point(value, series);
    } else if (!read_values(value, series)) {
      return;
    }
    if (!series.points.empty()) answer_.series.push_back(std::move(series));
  }

  static bool read_metric(const simdjson::simdjson_result<element>& metric, SeriesKey& key) {
    object labels;
    if (metric.get(labels) != simdjson::SUCCESS) return false;
    for (const auto& [name, value] : labels) {
      std::string_view text;
      if (value.get(text) != simdjson::SUCCESS) return false;
      if (name == "__name__") {
        key.name = text;
      } else if (!text.empty()) {
        key.labels.insert_or_assign(std::string(name), std::string(text));
      }
    }
    return true;
  }

  bool read_values(element values, Series& series) {
    array pairs;
    if (values.get(pairs) != simdjson::SUCCESS) {
      problem(
          fmt::format("the values of the series {} are no list", core::quoted(series.key.name)));
      return false;
    }
    for (const element pair : pairs) {
      if (!add_point(pair, series)) break;
    }
    return true;
  }

  /// False: the series takes no more.
  bool add_point(element pair, Series& series) {
    const auto point = read_point(pair);
    if (!point) {
      problem(fmt::format("a value of the series {} is no pair of time and number: {}",
                          core::quoted(series.key.name), core::quoted(simdjson::minify(pair))));
      return true;
    }
    if (!series.points.empty() && point->time_s <= series.points.back().time_s) {
      problem(fmt::format("the times of the series {} do not rise", core::quoted(series.key.name)));
      return true;
    }
    if (++points_ > limits_.points_max) {
      if (!std::exchange(full_, true)) {
        problem(
            fmt::format("there are more than {} values; the rest is not used", limits_.points_max));
      }
      return false;
    }
    series.points.push_back(*point);
    return true;
  }

  const PrometheusAnswerLimits& limits_;
  PrometheusAnswer answer_;
  std::size_t problems_left_out_ = 0;
  std::size_t points_ = 0;
  bool full_ = false;
};

}  // namespace

Result<PrometheusAnswer> parse_prometheus_answer(std::string_view body,
                                                 const PrometheusAnswerLimits& limits) {
  const std::string_view begin = core::trim(body.substr(0, 1024));
  if (begin.starts_with('<')) {
    return damaged(
        "the answer is HTML instead of JSON: a login page or a proxy stands before the server, or "
        "the URL is not that of a Prometheus API");
  }
  simdjson::dom::parser parser;
  element document;
  if (const auto error = parser.parse(body.data(), body.size()).get(document)) {
    return damaged(
        fmt::format("the answer is no JSON, or it is cut: {}", simdjson::error_message(error)));
  }
  return Reader(limits).read(document);
}

}  // namespace tailrace::observe
