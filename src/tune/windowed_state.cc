#include "tune/windowed_state.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tune/json_numbers.h"
#include "tune/saved_state.h"

namespace tailrace::tune {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kVersion = 2;
constexpr std::size_t kDocumentBytesMax = 1024 * 1024;
constexpr std::int64_t kCountMost = std::int64_t{1} << 53;
constexpr std::size_t kPriorTermsMax = 8;
constexpr double kNumberMost = 1e300;
constexpr double kVarianceMost = 1e6;

// One row, pod or term of the prior is one list of numbers.
constexpr std::size_t kRowNumbers = 19, kRowCycle = 16, kPodNumbers = 4, kTermNumbers = 7;
using Numbers = std::vector<double>;

/// Thrown away at the first thing that is wrong; says what it was.
struct Reader {
  std::string wrong;

  bool fails() const { return !wrong.empty(); }
  void complain(std::string_view name, std::string_view what) {
    if (wrong.empty()) wrong = fmt::format("`{}` is {}", name, what);
  }
  double number(const dom::object& in, std::string_view name, double low, double high) {
    double value = 0;
    if (in[name].get(value) != simdjson::SUCCESS || !(value >= low && value <= high)) {
      complain(name, fmt::format("no number from {} to {}", low, high));
      return low;
    }
    return value;
  }
  std::int64_t count(const dom::object& in, std::string_view name) {
    std::int64_t value = 0;
    if (in[name].get(value) != simdjson::SUCCESS || value < 0 || value > kCountMost) {
      complain(name, "no count");
      return 0;
    }
    return value;
  }
  bool is_null(const dom::object& in, std::string_view name) {
    dom::element value;
    return in[name].get(value) == simdjson::SUCCESS && value.is_null();
  }
  Numbers numbers(const dom::array& array, std::string_view name, std::size_t size) {
    Numbers out;
    for (const dom::element item : array) {
      double value = 0;
      if (item.get(value) != simdjson::SUCCESS || !(std::abs(value) <= kNumberMost)) {
        complain(name, "no list of numbers");
        return Numbers(size);
      }
      if (out.size() < size + 1) out.push_back(value);
    }
    if (out.size() != size) {
      complain(name, fmt::format("no list of {} numbers", size));
      return Numbers(size);
    }
    return out;
  }
  Numbers numbers(const dom::object& in, std::string_view name, std::size_t size) {
    dom::array array;
    if (in[name].get(array) != simdjson::SUCCESS) {
      complain(name, "no list");
      return Numbers(size);
    }
    return numbers(array, name, size);
  }
  /// A list of at most `most` lists of `size` numbers.
  std::vector<Numbers> table(const dom::object& in, std::string_view name, std::size_t size,
                             std::size_t most) {
    std::vector<Numbers> out;
    dom::array array;
    if (in[name].get(array) != simdjson::SUCCESS) {
      complain(name, "no list");
      return out;
    }
    for (const dom::element item : array) {
      dom::array inner;
      if (item.get(inner) != simdjson::SUCCESS || out.size() >= most) {
        complain(name, fmt::format("no list of at most {} lists", most));
        return out;
      }
      out.push_back(numbers(inner, name, size));
      if (fails()) return out;
    }
    return out;
  }
  std::optional<double> maybe(const dom::object& in, std::string_view name) {
    if (is_null(in, name)) return std::nullopt;
    return number(in, name, -kNumberMost, kNumberMost);
  }
  bool boolean(const dom::object& in, std::string_view name) {
    bool value = false;
    if (in[name].get(value) != simdjson::SUCCESS) complain(name, "neither true nor false");
    return value;
  }
};

std::string maybe(const std::optional<double>& value) {
  return value ? fmt::format("{}", json_number(*value)) : "null";
}

Numbers numbers_of(const queueing::Workload& w) {
  return {w.rate_per_s,           w.input_mean,   w.input_second_moment, w.output_mean,
          w.output_second_moment, w.cross_moment, w.prefix_hit};
}

queueing::Workload workload_from(const Numbers& n) {
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
}

Numbers numbers_of(const Row& row) {
  Numbers out = numbers_of(row.workload);
  out.insert(out.end(), row.seen.begin(), row.seen.end());
  out.insert(out.end(), {row.known[kRunning] ? 1.0 : 0.0, row.known[kPerSequence] ? 1.0 : 0.0,
                         row.requests, row.reports, row.discount, static_cast<double>(row.cycle),
                         row.rate_variance, row.per_sequence_error});
  return out;
}

Row row_from(const Numbers& n) {
  Row row;
  row.workload = workload_from(n);
  row.seen = {n[7], n[8], n[9], n[10]};
  row.known[kRunning] = n[11] != 0;
  row.known[kPerSequence] = n[12] != 0;
  row.requests = n[13];
  row.reports = n[14];
  row.discount = n[15];
  row.cycle = static_cast<std::int64_t>(n[kRowCycle]);
  row.rate_variance = n[17];
  row.per_sequence_error = n[18];
  return row;
}

bool sane(const Row& row, std::int64_t cycle) {
  for (const double seen : row.seen) {
    if (std::abs(seen) > 100) return false;
  }
  return queueing::check(row.workload).has_value() && row.workload.rate_per_s > 0 &&
         row.workload.input_mean > 0 && row.requests >= 1 && row.requests <= 1e12 &&
         row.reports > 0 && row.reports <= 1e6 && row.discount >= 1 && row.discount <= 1e9 &&
         row.cycle >= 0 && row.cycle <= cycle && row.rate_variance >= 0 &&
         row.rate_variance <= kVarianceMost && row.per_sequence_error >= 0 &&
         row.per_sequence_error <= 1;
}

std::string rows_json(std::span<const Row> rows) {
  std::string out;
  for (const Row& row : rows) out += (out.empty() ? "" : ",") + json_list(numbers_of(row));
  return "[" + out + "]";
}

std::vector<Row> rows_from(Reader& read, const dom::object& root, std::string_view name,
                           std::size_t most, std::int64_t cycle) {
  std::vector<Row> out;
  for (const Numbers& numbers : read.table(root, name, kRowNumbers, most)) {
    const double age = numbers[kRowCycle];
    if (!(age >= 0 && age <= static_cast<double>(cycle))) {
      read.complain(name, "from a later cycle");
      return {};
    }
    const Row row = row_from(numbers);
    if (!sane(row, cycle)) {
      read.complain(name, "out of range");
      return {};
    }
    out.push_back(row);
  }
  return out;
}

std::string estimate_json(const ParameterEstimate& e) {
  std::string values = "null", covariance = "null";
  if (e.values) {
    values = json_list(std::array{e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms,
                                  e.values->knee_tokens});
  }
  if (e.covariance) covariance = json_list(*e.covariance);
  return fmt::format(
      R"({{"values":{},"covariance":{},"condition":{},"identified":{},"rate":{},"rate_low":{},)"
      R"("rate_high":{},"holdout_error":{}}})",
      values, covariance, maybe(e.condition), e.identified, maybe(e.rate_per_s),
      maybe(e.rate_low_per_s), maybe(e.rate_high_per_s), maybe(e.holdout_error));
}

ParameterEstimate estimate_from(Reader& read, const dom::object& root) {
  ParameterEstimate out;
  dom::object in;
  if (root["estimate"].get(in) != simdjson::SUCCESS) {
    read.complain("estimate", "no object");
    return out;
  }
  if (!read.is_null(in, "values")) {
    const Numbers n = read.numbers(in, "values", 4);
    out.values = queueing::IterationModel{
        .alpha_ms = n[0], .beta_ms = n[1], .gamma_ms = n[2], .knee_tokens = n[3]};
    for (const double value : n) {
      if (value < 0) read.complain("values", "below 0");
    }
  }
  if (!read.is_null(in, "covariance")) {
    const Numbers n = read.numbers(in, "covariance", 9);
    out.covariance.emplace();
    std::copy(n.begin(), n.end(), out.covariance->begin());
  }
  out.condition = read.maybe(in, "condition");
  out.identified = read.boolean(in, "identified");
  out.rate_per_s = read.maybe(in, "rate");
  out.rate_low_per_s = read.maybe(in, "rate_low");
  out.rate_high_per_s = read.maybe(in, "rate_high");
  out.holdout_error = read.maybe(in, "holdout_error");
  out.reason = "restored: no cycle since";
  return out;
}

std::string pods_json(const WindowedState& s) {
  std::string out;
  for (const auto& [pod, report] : s.pods) {
    // Hashes need all 64 bits, which a JSON number does not promise.
    out += fmt::format(R"({}["{:x}","{:x}",{},{},{},{}])", out.empty() ? "" : ",", pod,
                       report.fingerprint, report.cycle, json_number(report.time_s),
                       json_number(report.waiting), json_number(report.rate_per_s));
  }
  return "[" + out + "]";
}

std::uint64_t hash_from(Reader& read, const dom::element& item) {
  std::string_view text;
  std::uint64_t value = 0;
  const bool is_text = item.get(text) == simdjson::SUCCESS && !text.empty() && text.size() <= 16;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + (is_text ? text.size() : 0), value, 16);
  if (!is_text || error != std::errc{} || end != text.data() + text.size()) {
    read.complain("pods", "no list of hashes and numbers");
  }
  return value;
}

void read_pods(Reader& read, const dom::object& root, WindowedState& s) {
  dom::array pods;
  if (root["pods"].get(pods) != simdjson::SUCCESS) return read.complain("pods", "no list");
  for (const dom::element item : pods) {
    dom::array fields;
    dom::element pod, fingerprint;
    if (s.pods.size() >= kPodsMax || item.get(fields) != simdjson::SUCCESS ||
        fields.at(0).get(pod) != simdjson::SUCCESS ||
        fields.at(1).get(fingerprint) != simdjson::SUCCESS) {
      return read.complain("pods", fmt::format("no list of at most {} lists", kPodsMax));
    }
    std::array<double, kPodNumbers> n{};
    for (std::size_t i = 0; i < kPodNumbers; ++i) {
      if (fields.at(i + 2).get(n[i]) != simdjson::SUCCESS || !(std::abs(n[i]) <= kNumberMost)) {
        return read.complain("pods", "no list of hashes and numbers");
      }
    }
    if (!(n[0] >= 0 && n[0] <= static_cast<double>(s.cycle))) {
      return read.complain("pods", "from a later cycle");
    }
    s.pods[hash_from(read, pod)] = {hash_from(read, fingerprint), static_cast<std::int64_t>(n[0]),
                                    n[1], n[2], n[3]};
    if (read.fails()) return;
  }
}

std::vector<PriorTerm> prior_from(Reader& read, const dom::object& root) {
  std::vector<PriorTerm> out;
  for (const Numbers& n : read.table(root, "prior", kTermNumbers, kPriorTermsMax)) {
    // Narrower or wider than any that the estimator makes, weights would leave the numbers.
    const bool spread = n[4] >= 1e-6 && n[5] >= n[4] && n[5] <= 1e6 && n[6] >= 0 && n[6] <= 1e6;
    const bool place =
        std::all_of(n.begin(), n.begin() + 4, [](double x) { return std::abs(x) <= 1e3; });
    if (!spread || !place) read.complain("prior", "out of range");
    out.push_back({{n[0], n[1], n[2]}, n[3], n[4], n[5], n[6]});
  }
  return out;
}

std::string prior_json(const std::vector<PriorTerm>& prior) {
  std::string out;
  for (const PriorTerm& t : prior) {
    out += (out.empty() ? "" : ",") +
           json_list(std::array{t.direction[0], t.direction[1], t.direction[2], t.mean, t.sigma,
                                t.sigma_reported, t.freedom});
  }
  return "[" + out + "]";
}

}  // namespace

std::string to_json(const WindowedState& s) {
  std::string parameters = "null", latest = "null";
  if (s.parameters) parameters = json_list({s.parameters->data(), 3});
  if (s.latest) latest = json_list(numbers_of(*s.latest));
  return fmt::format(
      R"({{"estimator":"windowed","version":{},"cycle":{},"parameters":{},"covariance":{},)"
      R"("scales":{},"rows":{},"rejected":{},"rejections":{},"direction":{},"prior":{},)"
      R"("learnt":{},"holdout":[{},{}],"residence":{},"latest":{},"pods":{},"estimate":{}}})",
      kVersion, s.cycle, parameters, json_list({s.covariance.data(), 9}), json_list(s.scales),
      rows_json(s.rows), rows_json(s.rejected), s.rejections, s.direction, prior_json(s.prior),
      s.learnt, json_number(s.holdout_sum), json_number(s.holdout_weight),
      json_number(s.residence_share), latest, pods_json(s), estimate_json(s.estimate));
}

Result<WindowedState> windowed_state_from_json(std::string_view document) {
  dom::parser parser;
  const auto opened = open_state(parser, document, "windowed", kVersion, kDocumentBytesMax);
  if (!opened) return fail(opened.error());
  const dom::object& root = *opened;

  Reader read;
  WindowedState s;
  s.cycle = read.count(root, "cycle");
  if (!read.is_null(root, "parameters")) {
    const Numbers n = read.numbers(root, "parameters", 3);
    s.parameters = bounded({n[0], n[1], n[2]});
  }
  const Numbers covariance = read.numbers(root, "covariance", 9);
  std::copy(covariance.begin(), covariance.end(), s.covariance.data());
  const Numbers scales = read.numbers(root, "scales", s.scales.size());
  for (std::size_t m = 0; m < s.scales.size(); ++m) {
    if (!(scales[m] > 1e-6 && scales[m] < 1e6)) read.complain("scales", "out of range");
    s.scales[m] = scales[m];
  }
  s.rows = rows_from(read, root, "rows", kRowsMax + kRowsInCycle, s.cycle);
  s.rejected = rows_from(read, root, "rejected", kRowsInCycle, s.cycle);
  s.rejections = read.count(root, "rejections");
  s.direction = static_cast<int>(read.number(root, "direction", -1, 1));
  s.prior = prior_from(read, root);
  s.learnt = read.count(root, "learnt");
  const Numbers holdout = read.numbers(root, "holdout", 2);
  s.holdout_sum = holdout[0];
  s.holdout_weight = holdout[1];
  if (!(s.holdout_sum >= 0 && s.holdout_weight >= 0 && s.holdout_weight <= 1)) {
    read.complain("holdout", "out of range");
  }
  s.residence_share = read.number(root, "residence", 0, kNumberMost);
  if (!read.is_null(root, "latest")) {
    s.latest = workload_from(read.numbers(root, "latest", 7));
    if (!queueing::check(*s.latest)) read.complain("latest", "out of range");
  }
  read_pods(read, root, s);
  s.estimate = estimate_from(read, root);
  if (s.parameters && (s.prior.empty() || !s.latest || s.rows.empty())) {
    read.complain("parameters", "there without rows, prior and lengths");
  }
  if (read.fails()) return damaged_state("windowed", read.wrong);
  return s;
}

}  // namespace tailrace::tune
