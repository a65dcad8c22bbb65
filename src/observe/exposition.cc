#include "tailrace/observe/exposition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

using core::quoted;

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9');
}

std::string_view next_word(std::string_view& rest) {
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  std::size_t end = 0;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

/// "NaN", "+Inf", "-1.5e3": what exporters write. A number outside the range of doubles is none.
std::optional<double> read_number(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  if (word.empty()) return std::nullopt;
  if (core::iequals(word, "nan")) return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  if (core::iequals(word, "inf") || core::iequals(word, "infinity")) {
    value = std::numeric_limits<double>::infinity();
  } else {
    const bool plain = (word.front() >= '0' && word.front() <= '9') || word.front() == '.';
    const auto parsed = plain ? core::parse_double(word) : std::nullopt;
    if (!parsed) return std::nullopt;
    value = *parsed;
  }
  return negative ? -value : value;
}

struct TypeName {
  std::string_view word;
  MetricType type;
};
constexpr TypeName kTypes[] = {
    {"counter", MetricType::kCounter},
    {"gauge", MetricType::kGauge},
    {"histogram", MetricType::kHistogram},
    {"summary", MetricType::kSummary},
    {"untyped", MetricType::kUnknown},
    {"unknown", MetricType::kUnknown},
    {"gaugehistogram", MetricType::kGaugeHistogram},
    {"info", MetricType::kInfo},
    {"stateset", MetricType::kStateSet},
};

/// Is `name` a series of this family: the family's name, or that and a suffix?
bool belongs_to(std::string_view name, std::string_view family) {
  if (!name.starts_with(family)) return false;
  const std::string_view suffix = name.substr(family.size());
  for (const std::string_view known :
       {"", "_total", "_bucket", "_sum", "_count", "_created", "_info", "_gcount", "_gsum"}) {
    if (suffix == known) return true;
  }
  return false;
}

/// One line's sample. Each step answers with what is wrong, or with nothing.
class SampleLine {
 public:
  SampleLine(std::string_view line, const ExpositionOptions& options)
      : rest_(line), options_(options) {}

  using Fault = std::optional<std::string>;

  Fault read() {
    if (auto fault = read_name()) return fault;
    skip_blanks();
    if (take('{')) {
      if (auto fault = read_labels()) return fault;
    }
    if (key.name.empty()) return "there is no name";
    return read_value_and_time();
  }

  SeriesKey key;
  Point point;
  bool own_time = false;

 private:
  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view take_name() {
    std::size_t end = 0;
    if (!rest_.empty() && starts_name(rest_.front())) {
      while (end < rest_.size() && continues_name(rest_[end])) ++end;
    }
    const std::string_view name = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return name;
  }

  Fault read_name() {
    skip_blanks();
    if (rest_.starts_with('{')) return std::nullopt;  // the name stands in quotes among the labels
    key.name = take_name();
    if (key.name.empty()) return "it does not begin with the name of a metric";
    return std::nullopt;
  }

  Fault read_labels() {
    for (std::size_t labels = 0;;) {
      skip_blanks();
      if (take('}')) return std::nullopt;
      if (auto fault = read_label(labels)) return fault;
      skip_blanks();
      if (take(',')) continue;
      if (take('}')) return std::nullopt;
      return rest_.empty() ? "the labels do not end"
                           : "a comma or a brace is missing after a label";
    }
  }

  Fault read_label(std::size_t& labels) {
    std::string name(take_name());
    if (name.empty() && rest_.starts_with('"')) {  // a name of any characters, as of Prometheus 3
      auto quoted_name = take_quoted();
      if (!quoted_name || quoted_name->empty()) return "a quoted name does not end or is empty";
      name = std::move(*quoted_name);
      skip_blanks();
      if (!rest_.starts_with('=')) return set_name(std::move(name));
    }
    if (name.empty()) return "the name of a label is missing";
    skip_blanks();
    if (!take('=')) return "there is no = after the label " + quoted(name);
    skip_blanks();
    auto value = take_quoted();
    if (!value) return "the value of the label " + quoted(name) + " has no quotes or does not end";
    if (core::valid_utf8(*value) != *value) {
      return "the value of the label " + quoted(name) + " is not UTF-8";
    }
    if (++labels > options_.labels_max) {
      return "it has more than " + std::to_string(options_.labels_max) + " labels";
    }
    if (name == "__name__") return "__name__ is no label of an exporter's";
    const auto [at, fresh] = key.labels.emplace(std::move(name), std::move(*value));
    if (!fresh) return "the label " + quoted(at->first) + " comes twice";
    return std::nullopt;
  }

  Fault set_name(std::string name) {
    if (!key.name.empty()) return "it has two names";
    if (core::valid_utf8(name) != name) return "its name is not UTF-8";
    key.name = std::move(name);
    return std::nullopt;
  }

  std::optional<std::string> take_quoted() {
    if (!take('"')) return std::nullopt;
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (rest_.empty()) return std::nullopt;
      const char escaped = rest_.front();
      rest_.remove_prefix(1);
      if (escaped == 'n') {
        text += '\n';
      } else if (escaped == '\\' || escaped == '"') {
        text += escaped;
      } else {  // no escape that is known: as written
        text += c;
        text += escaped;
      }
    }
    return std::nullopt;
  }

  Fault read_value_and_time() {
    const std::string_view value = next_word(rest_);
    const auto number = read_number(value);
    if (!number) return "its value " + quoted(value) + " is no number";
    point = {options_.time_s, *number};
    const std::string_view time = next_word(rest_);
    if (time.empty() || time.starts_with('#')) return std::nullopt;
    if (auto fault = read_time(time)) return fault;
    const std::string_view more = next_word(rest_);
    if (!more.empty() && !more.starts_with('#')) return "there is more text after the time";
    return std::nullopt;
  }

  Fault read_time(std::string_view word) {
    constexpr double kLatestS = 1e11;  // the year 5138
    double seconds = 0;
    if (options_.format == ExpositionFormat::kOpenMetrics) {
      seconds = read_number(word).value_or(std::numeric_limits<double>::quiet_NaN());
    } else {
      const auto millis = core::parse_int(word);
      seconds =
          millis ? static_cast<double>(*millis) / 1e3 : std::numeric_limits<double>::quiet_NaN();
    }
    if (!(std::abs(seconds) <= kLatestS)) return "its time " + quoted(word) + " is no time";
    point.time_s = seconds;
    own_time = true;
    return std::nullopt;
  }

  std::string_view rest_;
  const ExpositionOptions& options_;
};

class Page {
 public:
  explicit Page(const ExpositionOptions& options) : options_(options), known_(Less{&out_.series}) {}

  Exposition read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) {
        problem("the last line has no line end: the page may be cut; the line is not used");
        break;
      }
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line);
    }
    if (options_.format == ExpositionFormat::kOpenMetrics && !ended_) {
      line_ = std::max<std::size_t>(line_, 1);  // an empty page has a first line to blame, too
      problem("there is no \"# EOF\" at the end: the page may be cut");
    }
    return std::move(out_);
  }

 private:
  struct Less {
    const std::vector<Series>* series;
    bool operator()(std::size_t a, std::size_t b) const {
      return (*series)[a].key < (*series)[b].key;
    }
  };

  void problem(std::string message) {
    if (out_.problems.size() < options_.problems_max) {
      out_.problems.push_back({line_, std::move(message)});
    } else {
      ++out_.problems_left_out;
    }
  }

  void read_line(std::string_view line) {
    if (line.size() > options_.line_bytes_max) {
      return problem("the line is longer than " + std::to_string(options_.line_bytes_max) +
                     " bytes");
    }
    const std::string_view text = core::trim(line);
    if (text.empty()) return;
    if (ended_ && !std::exchange(text_after_end_, true)) {
      problem("there is text behind \"# EOF\"; it is not used");
    }
    if (ended_) return;
    if (text.front() == '#') return read_comment(text.substr(1));
    read_sample(line);
  }

  void read_comment(std::string_view rest) {
    const std::string_view kind = next_word(rest);
    if (kind == "EOF" && options_.format == ExpositionFormat::kOpenMetrics) {
      ended_ = true;
    } else if (kind == "TYPE") {
      read_type(rest);
    }
  }

  void read_type(std::string_view rest) {
    family_.clear();
    const std::string_view family = next_word(rest);
    const std::string_view word = next_word(rest);
    for (const TypeName& known : kTypes) {
      if (word != known.word || family.empty()) continue;
      family_ = family;
      type_ = known.type;
      return;
    }
    problem("# TYPE " + quoted(family) + " says " + quoted(word) + ", which is no type");
  }

  void read_sample(std::string_view line) {
    SampleLine sample(line, options_);
    if (const auto fault = sample.read()) return problem(*fault + ": " + quoted(line));
    ++out_.samples;
    if (options_.only != nullptr && !options_.only->contains(sample.key.name)) return;
    std::erase_if(sample.key.labels, [](const auto& label) { return label.second.empty(); });
    if (!family_.empty() && belongs_to(sample.key.name, family_)) {
      out_.types.try_emplace(family_, type_);
    }
    keep(std::move(sample));
  }

  void keep(SampleLine sample) {
    out_.series.push_back({std::move(sample.key), {sample.point}});
    const std::size_t last = out_.series.size() - 1;
    const auto [at, fresh] = known_.insert(last);
    if (fresh && out_.series.size() <= options_.series_max) return;
    if (fresh) {
      known_.erase(at);
      if (!std::exchange(full_, true)) {
        problem("there are more than " + std::to_string(options_.series_max) +
                " series that are wanted; the rest is not used");
      }
    } else {
      Series& first = out_.series[*at];
      if (sample.own_time && sample.point.time_s > first.points.back().time_s) {
        first.points.push_back(sample.point);
      } else {
        problem("the series " + quoted(first.key.name) + " comes twice with the same labels");
      }
    }
    out_.series.pop_back();
  }

  const ExpositionOptions& options_;
  Exposition out_;
  std::set<std::size_t, Less> known_;  ///< indices of `out_.series`, by key
  std::size_t line_ = 0;
  std::string family_;  ///< of the "# TYPE" line above
  MetricType type_ = MetricType::kUnknown;
  bool ended_ = false, text_after_end_ = false, full_ = false;
};

}  // namespace

Exposition parse_exposition(std::string_view text, const ExpositionOptions& options) {
  return Page(options).read(text);
}

}  // namespace tailrace::observe
