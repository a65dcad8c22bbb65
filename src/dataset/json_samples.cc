#include <fmt/format.h>

#include <array>
#include <deque>

#include "dataset/sample_source.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/json_lines.h"

namespace tailrace::dataset {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

/// What tells apart records of one prompt, in the order in which it joins the id.
constexpr std::array<std::string_view, 6> kQualifiers{"model",  "plan",   "variant",
                                                      "report", "config", "temperature"};
constexpr std::size_t kPooledQualifiers = 1;  // the model stays apart

std::optional<element> field(const object& record, std::string_view key) {
  element value;
  if (record.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::string shown(element value) {
  return core::quoted(simdjson::minify(value));
}

/// A text or a number as text; nothing for other types.
std::optional<std::string> as_text(element value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  if (value.is_number()) return simdjson::minify(value);
  return std::nullopt;
}

class JsonSamples final : public SampleSource {
 public:
  JsonSamples(LineReader lines, SampleOptions options)
      : json_(std::move(lines)), options_(options) {}

  Result<void> add_line(std::string_view line) {
    auto record = json_.parse(line);
    if (!record) return fail(record.error());
    return add(*record);
  }

  Result<std::optional<Sample>> next() override {
    while (ready_.empty()) {
      auto record = json_.next();
      if (!record) return fail(record.error());
      if (!*record) return std::nullopt;
      if (auto added = add(**record); !added) return fail(added.error());
    }
    Sample sample = std::move(ready_.front());
    ready_.pop_front();
    return sample;
  }

 private:
  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(json_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

  Result<void> add(const object& record) {
    if (const auto lists = field(record, "out_tokens")) return add_many(record, *lists);
    for (const std::string_view key : {"lengths", "tokens"}) {
      if (const auto list = field(record, key)) return add_one(record, key, *list);
    }
    if (field(record, "length")) {
      return bad(
          "\"length\" found where \"lengths\" is expected: one answer a line is what tailrace "
          "evaluate reads; for tailrace fit give {\"id\": …, \"lengths\": [tokens of each "
          "answer]}");
    }
    return bad(
        "there is no field \"lengths\"; give {\"id\": …, \"lengths\": [tokens of each answer], "
        "\"cap\": …}");
  }

  Result<void> add_one(const object& record, std::string_view key, element list) {
    auto id = prompt_id(record);
    if (!id) return fail(id.error());
    Sample sample{std::move(*id), {}, {}};
    if (auto read = read_lengths(key, list, sample); !read) return read;
    if (auto capped = read_cap(record, sample); !capped) return capped;
    ready_.push_back(std::move(sample));
    return {};
  }

  /// {"model": …, "out_tokens": {prompt id: [lengths]}}
  Result<void> add_many(const object& record, element lists) {
    object prompts;
    if (lists.get(prompts) != simdjson::SUCCESS) {
      return bad(
          fmt::format("out_tokens is {}; it must be an object from prompt ids to lists of "
                      "lengths",
                      shown(lists)));
    }
    for (const auto [prompt, list] : prompts) {
      auto id = qualified(record, prompt);
      if (!id) return fail(id.error());
      Sample sample{std::move(*id), {}, {}};
      const std::string name = fmt::format("out_tokens[{}]", core::quoted(prompt));
      if (auto read = read_lengths(name, list, sample); !read) return read;
      if (auto capped = read_cap(record, sample); !capped) return capped;
      ready_.push_back(std::move(sample));
    }
    return {};
  }

  Result<std::string> prompt_id(const object& record) const {
    if (const auto id = field(record, "id")) {
      if (auto text = as_text(*id)) return std::move(*text);
      return bad(fmt::format("id is {}; it must be a text or a number", shown(*id)));
    }
    if (const auto id = field(record, "prompt_id")) {
      if (auto text = as_text(*id)) return qualified(record, *text);
      return bad(fmt::format("prompt_id is {}; it must be a text or a number", shown(*id)));
    }
    return qualified(record, fmt::format("line {}", json_.lines().line_number()));
  }

  /// "prompt@model,plan,T": the same prompt comes back under other settings.
  Result<std::string> qualified(const object& record, std::string_view prompt) const {
    std::string settings;
    const std::size_t count = options_.pool ? kPooledQualifiers : kQualifiers.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = field(record, kQualifiers[i]);
      if (!value) continue;
      const auto text = as_text(*value);
      if (!text) {
        return bad(
            fmt::format("{} is {}; it must be a text or a number", kQualifiers[i], shown(*value)));
      }
      settings += (settings.empty() ? "@" : ",") + *text;
    }
    return std::string(prompt) + settings;
  }

  Result<void> read_lengths(std::string_view name, element list, Sample& into) const {
    array values;
    if (list.get(values) != simdjson::SUCCESS) {
      return bad(fmt::format("{} is {}; it must be a list of lengths", name, shown(list)));
    }
    for (const element value : values) {
      double length = 0;
      if (value.get(length) != simdjson::SUCCESS || !is_token_count(length)) {
        return bad(fmt::format("{}[{}] is {}; {}", name, into.lengths.size(), shown(value),
                               kNumberRemedy));
      }
      if (into.lengths.size() == options_.max_lengths) {
        return bad(
            fmt::format("{} holds more than {} lengths; sample them", name, options_.max_lengths));
      }
      into.lengths.push_back(length);
    }
    if (into.lengths.empty()) {
      return bad(
          fmt::format("{} is empty; give at least one length, or leave the prompt out", name));
    }
    return {};
  }

  Result<void> read_cap(const object& record, Sample& into) const {
    std::string_view key = "cap";
    auto value = field(record, key);
    if (!value) value = field(record, key = "max_tokens");
    if (!value) return {};
    double cap = 0;
    if (value->get(cap) != simdjson::SUCCESS || !is_token_count(cap)) {
      return bad(fmt::format("{} is {}; {}, or leave it out", key, shown(*value), kNumberRemedy));
    }
    const CapKind kind = key == "cap" ? CapKind::kExact : CapKind::kEnginesOwn;
    if (auto wrong = apply_cap(into, cap, kind, key)) return bad(*wrong);
    return {};
  }

  JsonLines json_;
  SampleOptions options_;
  std::deque<Sample> ready_;
};

}  // namespace

Result<std::unique_ptr<SampleSource>> json_samples(LineReader lines, std::string_view first_line,
                                                   SampleOptions options) {
  auto source = std::make_unique<JsonSamples>(std::move(lines), options);
  if (auto added = source->add_line(first_line); !added) return fail(added.error());
  return source;
}

std::optional<std::string> apply_cap(Sample& sample, double cap, CapKind kind,
                                     std::string_view cap_name) {
  for (double& length : sample.lengths) {
    if (length <= cap) continue;
    if (kind == CapKind::kExact) {
      return fmt::format(
          "{} is {}, but a length is {}; raise or leave out the cap, or correct the length",
          cap_name, cap, length);
    }
    length = cap;
  }
  sample.cap = cap;
  return std::nullopt;
}

}  // namespace tailrace::dataset
