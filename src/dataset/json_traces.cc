#include <array>

#include "dataset/trace_source.h"
#include "tailrace/core/rng.h"
#include "tailrace/dataset/json_lines.h"

namespace tailrace::dataset {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::int64_t kMooncakeTokensPerId = 512;
constexpr std::int64_t kTokensPerIdMax = 1 << 20;
constexpr double kNumberMax = 1e9;  ///< of weights and deadlines
constexpr double kSmallest = 1e-9;

std::string shown(element value) {
  return core::quoted(simdjson::minify(value));
}

/// What both shapes read alike.
class JsonTrace : public TraceSource {
 public:
  explicit JsonTrace(LineReader lines) : json_(std::move(lines)) {}

  /// A line that was read to tell the shape.
  void take_first(std::string_view line) { first_ = std::string(line); }

  Result<Read> next(TraceRow& row) override {
    if (first_) {
      const std::string line = std::move(*first_);
      first_.reset();
      auto record = json_.parse(line);
      if (!record) return fail(record.error());
      return read(*record, row);
    }
    auto record = json_.next();
    if (!record) return fail(record.error());
    if (!*record) return Read::kEnd;
    return read(**record, row);
  }

  const LineReader& lines() const override { return json_.lines(); }

 protected:
  virtual Result<Read> read(const object& record, TraceRow& row) const = 0;

  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(json_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

  Result<void> read_number(std::string_view key, element value, double least, double most,
                           double& into) const {
    if (value.get(into) == simdjson::SUCCESS && into >= least && into <= most) return {};
    return bad(
        fmt::format("{} is {}; it must be a number, {} to {}", key, shown(value), least, most));
  }

  Result<void> read_time(std::string_view key, element value, double unit_s, double& into) const {
    double at = 0;
    if (value.get(at) == simdjson::SUCCESS && is_trace_time(at * unit_s)) {
      into = at * unit_s;
      return {};
    }
    return bad(fmt::format("{} is {}; it must be {} from the trace's start, 0 to {}", key,
                           shown(value), unit_s == 1 ? "seconds" : "milliseconds",
                           kTraceSecondsMax / unit_s));
  }

  Result<void> read_count(std::string_view key, element value, std::int64_t least,
                          std::int64_t most, std::int64_t& into) const {
    double real = 0;  // which 12.0 is
    if (value.get(real) == simdjson::SUCCESS && real >= static_cast<double>(least) &&
        real <= static_cast<double>(most) && real == std::floor(real)) {
      into = static_cast<std::int64_t>(real);
      return {};
    }
    return bad(fmt::format("{} is {}; it must be a whole number of tokens, {} to {}", key,
                           shown(value), least, most));
  }

  Result<void> read_ids(std::string_view key, element value,
                        std::vector<std::uint64_t>& into) const {
    into.clear();
    array ids;
    if (value.get(ids) != simdjson::SUCCESS) {
      return bad(fmt::format("{} is {}; it must be a list of whole numbers", key, shown(value)));
    }
    for (const element id : ids) {
      if (into.size() == kTraceIdsMax) {
        return bad(
            fmt::format("{} holds more than {} ids; give longer blocks, or leave the row out", key,
                        kTraceIdsMax));
      }
      std::uint64_t word = 0;
      std::int64_t negative = 0;
      if (id.get(word) != simdjson::SUCCESS) {
        if (id.get(negative) != simdjson::SUCCESS) {
          return bad(fmt::format("{}[{}] is {}; it must be a whole number of 64 bits", key,
                                 into.size(), shown(id)));
        }
        word = static_cast<std::uint64_t>(negative);
      }
      into.push_back(word);
    }
    return {};
  }

  JsonLines json_;

 private:
  std::optional<std::string> first_;
};

class MooncakeTrace final : public JsonTrace {
 public:
  using JsonTrace::JsonTrace;

 private:
  Result<Read> read(const object& record, TraceRow& row) const override {
    bool has_time = false, has_prompt = false, has_output = false;
    clear(row);
    row.tokens_per_id = kMooncakeTokensPerId;
    Result<void> ok;
    for (const auto& [key, value] : record) {
      if (key == "timestamp" || key == "t_ms") {
        has_time = true;
        ok = read_time(key, value, 1e-3, row.arrival_s);
      } else if (key == "input_length" || key == "input_tokens") {
        has_prompt = true;
        ok = read_count(key, value, 0, kTraceTokensMax, row.prompt_tokens);
      } else if (key == "output_length" || key == "output_tokens") {
        has_output = true;
        ok = read_count(key, value, 0, kTraceTokensMax, row.output_tokens);
      } else if (key == "hash_ids") {
        ok = read_ids(key, value, row.prefix_ids);
      }
      if (!ok) return fail(ok.error());
    }
    if (!has_time) return bad("timestamp is missing; give milliseconds from the trace's start");
    if (!has_prompt) return bad("input_length is missing; give the prompt's tokens");
    if (!has_output) return bad("output_length is missing; give the answer's tokens");
    if (row.prompt_tokens == 0 || row.output_tokens == 0) return Read::kDropped;
    return Read::kRow;
  }
};

class OwnTrace final : public JsonTrace {
 public:
  using JsonTrace::JsonTrace;

 private:
  /// Which needed fields a line had.
  struct Seen {
    bool arrival = false, prompt = false, output = false;
    std::optional<std::size_t> text_bytes;  ///< of the prompt
  };

  Result<Read> read(const object& record, TraceRow& row) const override {
    clear(row);
    Seen seen;
    for (const auto& [key, value] : record) {
      if (auto ok = read_field(key, value, row, seen); !ok) return fail(ok.error());
    }
    if (!seen.arrival) return bad("arrival_s is missing; give seconds from the trace's start");
    if (!seen.prompt && seen.text_bytes) {
      // As the emulated engine counts: a token for four bytes, and four for the message.
      row.prompt_tokens = 4 + static_cast<std::int64_t>((*seen.text_bytes + 3) / 4);
    } else if (!seen.prompt) {
      return bad("prompt_tokens is missing; give the prompt's length, or the prompt as a text");
    }
    if (!seen.output) return bad("output_tokens is missing; give the answer's true length");
    return Read::kRow;
  }

  Result<void> read_field(std::string_view key, element value, TraceRow& row, Seen& seen) const {
    if (key == "arrival_s") {
      seen.arrival = true;
      return read_time(key, value, 1, row.arrival_s);
    }
    if (key == "prompt_tokens") {
      seen.prompt = true;
      return read_count(key, value, 1, kTraceTokensMax, row.prompt_tokens);
    }
    if (key == "output_tokens") {
      seen.output = true;
      return read_count(key, value, 1, kTraceTokensMax, row.output_tokens);
    }
    if (value.is_null()) return {};  // of an optional field: not given
    if (key == "max_tokens") return read_count(key, value, 1, kTraceTokensMax, row.cap.emplace());
    if (key == "prefix_ids") return read_ids(key, value, row.prefix_ids);
    if (key == "tokens_per_id")
      return read_count(key, value, 1, kTokensPerIdMax, row.tokens_per_id);
    if (key == "weight") return read_number(key, value, kSmallest, kNumberMax, row.weight);
    if (key == "priority") return read_priority(value, row);
    if (key == "deadline_ms") return read_deadline(value, row);
    if (key == "session") return read_session(value, row);
    if (key == "law") return read_law(value, row);
    if (key == "tenant") {
      std::string_view tenant;
      if (value.get(tenant) == simdjson::SUCCESS) {
        row.tenant = tenant;
        return {};
      }
      return bad(fmt::format("tenant is {}; it must be a text", shown(value)));
    }
    // What `tailrace load` sends, so that one file serves both.
    if (key == "prompt") {
      std::string_view text;
      if (value.get(text) != simdjson::SUCCESS) return bad("prompt is no text; give one");
      seen.text_bytes = text.size();
      return {};
    }
    constexpr std::array<std::string_view, 3> kOfLoad{"id", "messages", "fields"};
    for (const std::string_view known : kOfLoad) {
      if (key == known) return {};
    }
    return bad(fmt::format(
        "{} is unknown; the fields are arrival_s, prompt_tokens, output_tokens, max_tokens, "
        "tenant, "
        "priority, weight, deadline_ms, session, prefix_ids, tokens_per_id, law, and what tailrace "
        "load sends: id, prompt, messages, fields",
        core::quoted(key)));
  }

  Result<void> read_priority(element value, TraceRow& row) const {
    double priority = 0;
    constexpr double kMost = 1'000'000;
    if (auto ok = read_number("priority", value, -kMost, kMost, priority); !ok) return ok;
    if (priority != std::floor(priority)) {
      return bad(fmt::format("priority is {}; it must be a whole number", shown(value)));
    }
    row.priority = static_cast<int>(priority);
    return {};
  }

  Result<void> read_deadline(element value, TraceRow& row) const {
    double ms = 0;
    if (auto ok = read_number("deadline_ms", value, 0, kNumberMax, ms); !ok) return ok;
    row.deadline_s = ms * 1e-3;
    return {};
  }

  Result<void> read_session(element value, TraceRow& row) const {
    std::string_view text;
    std::string number;
    if (value.get(text) != simdjson::SUCCESS) {
      if (!value.is_number()) {
        return bad(fmt::format("session is {}; it must be a text or a number", shown(value)));
      }
      number = simdjson::minify(value);
      text = number;
    }
    row.session = stable_hash(text) | 1;  // never 0, which is none
    return {};
  }

  Result<void> read_law(element value, TraceRow& row) const {
    object fields;
    if (value.get(fields) != simdjson::SUCCESS) {
      return bad(fmt::format("law is {}; it must be an object with mu and sigma", shown(value)));
    }
    TraceLaw law;
    bool has_mu = false, has_sigma = false;
    Result<void> ok;
    for (const auto& [key, number] : fields) {
      if (key == "mu") {
        has_mu = true;
        ok = read_number("law.mu", number, -700, 700, law.mu);
      } else if (key == "sigma") {
        has_sigma = true;
        ok = read_number("law.sigma", number, kSmallest, 700, law.sigma);
      } else if (key == "nu") {
        ok = read_number("law.nu", number, kSmallest, kNumberMax, law.nu);
      }
      if (!ok) return ok;
    }
    if (!has_mu || !has_sigma) return bad("law lacks mu or sigma; give both");
    row.law = law;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<TraceSource>> json_trace(LineReader lines, std::string_view first_line,
                                                TraceFormat& format) {
  if (format == TraceFormat::kAuto) {
    simdjson::dom::parser parser;
    object record;
    // A line that cannot be read says why when its turn comes.
    format = TraceFormat::kOwn;
    if (parser.parse(first_line.data(), first_line.size()).get(record) == simdjson::SUCCESS) {
      for (const std::string_view key : {"hash_ids", "timestamp", "t_ms", "input_length"}) {
        if (record.at_key(key).error() == simdjson::SUCCESS) format = TraceFormat::kMooncake;
      }
    }
  }
  std::unique_ptr<JsonTrace> source;
  if (format == TraceFormat::kMooncake) {
    source = std::make_unique<MooncakeTrace>(std::move(lines));
  } else if (format == TraceFormat::kOwn) {
    source = std::make_unique<OwnTrace>(std::move(lines));
  } else {
    return fail(lines.at_line(ErrorCode::kInvalidArgument,
                              fmt::format("JSON lines, but a trace of format {} is CSV; give the "
                                          "format that the file has",
                                          to_string(format))));
  }
  source->take_first(first_line);
  return source;
}

}  // namespace tailrace::dataset
