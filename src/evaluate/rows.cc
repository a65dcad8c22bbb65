#include "tailrace/evaluate/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <unordered_map>

#include "evaluate/length_tables.h"
#include "evaluate/row_maker.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/json_lines.h"

namespace tailrace::evaluate {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShapes =
    "a row needs a length: {\"prompt\": \"…\", \"length\": 120}; see tailrace evaluate --help";

/// Where in its file a line stands, for what is worth saying of it: a text with file and line.
using Place = std::function<std::string(std::string_view what)>;
using UseLine = std::function<Result<void>(const LineFields&, const Place&)>;

/// Calls `use` with each line that is not empty; its errors come back with file and line.
Result<void> each_line(const fs::path& path, const UseLine& use) {
  auto reader = dataset::LineReader::open(path.string(), kLineBytesMax);
  if (!reader) return fail(reader.error());
  dataset::JsonLines lines(std::move(*reader));
  const Place place = [&](std::string_view what) {
    return lines.lines().at_line(ErrorCode::kInvalidArgument, what).message;
  };
  while (true) {
    const auto object = lines.next();
    if (!object) return fail(object.error());
    if (!*object) return {};
    if (auto used = use(LineFields(**object), place); !used) {
      return fail(lines.lines().at_line(used.error().code, used.error().message));
    }
  }
}

// ---- one line -----------------------------------------------------------------------------------

/// {"prompt" or "messages", "length", "cap"?, "censored"?, "model"?, …}
Result<void> add_own(const LineFields& fields, RowMaker& rows) {
  const auto asked = read_asked(fields);
  if (!asked) return fail(asked.error());
  const auto length = fields.required_whole("length", 0, kTokensMax);
  if (!length) return fail(length.error());
  const auto cap = fields.whole("cap", 1, kTokensMax);
  if (!cap) return fail(cap.error());
  if (*cap && *length > **cap) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("length is {}, above the row's cap of {}; a length that reached the "
                            "cap is equal to it, in the same tokens",
                            *length, **cap));
  }
  const auto censored = fields.flag("censored");
  if (!censored) return fail(censored.error());
  return rows.add(*asked, *cap, *length, censored->value_or(false));
}

/// {"prompt", "out": {model: tokens}}: one row a model.
Result<void> add_by_model(const LineFields& fields, RowMaker& rows) {
  auto asked = read_asked(fields);
  if (!asked) return fail(asked.error());
  const auto out = fields.object("out");
  if (!out) return fail(out.error());
  for (const auto& [model, tokens] : **out) {
    const auto length = whole_element(fmt::format("out.{}", model), tokens, 0, kTokensMax);
    if (!length) return fail(length.error());
    asked->features.model = model;
    if (auto added = rows.add(*asked, std::nullopt, *length); !added) return added;
  }
  return {};
}

/// {"set", "prompt", "out_tokens"}: each set is an application with a system prompt of its own.
Result<void> add_by_set(const LineFields& fields, RowMaker& rows) {
  auto asked = read_asked(fields);
  if (!asked) return fail(asked.error());
  const auto length = fields.required_whole("out_tokens", 0, kTokensMax);
  if (!length) return fail(length.error());
  const auto set = fields.text("set");
  if (!set) return fail(set.error());
  if (*set) asked->features.system_fingerprint = stable_hash(**set);
  return rows.add(*asked, std::nullopt, *length);
}

Result<void> add_samples(const LineFields& fields, const Asked& asked, RowMaker& rows) {
  const auto cap = fields.whole("cap", 1, kTokensMax);
  if (!cap) return fail(cap.error());
  const auto tokens = fields.array("tokens");
  if (!tokens) return fail(tokens.error());
  for (const auto item : **tokens) {
    const auto length = whole_element("tokens[]", item, 0, kTokensMax);
    if (!length) return fail(length.error());
    if (auto added = rows.add(asked, *cap, *length); !added) return added;
  }
  return {};
}

/// {"prompt"?, "prompt_id"?, "model"?, "tokens": [n samples]}
Result<void> add_repeated(const LineFields& fields, RowMaker& rows) {
  auto asked = read_asked(fields);
  if (!asked) return fail(asked.error());
  if (!fields.has("prompt") && !fields.has("messages")) {
    const auto id = fields.required_text("prompt_id");
    if (!id) return fail(id.error());
    asked->prompt_hash = stable_hash(*id);
  }
  return add_samples(fields, *asked, rows);
}

/// Says once a file what nobody reads: a misspelt member would silently count for nothing. Only of
/// our own rows, since collections carry what they like.
class UnknownMembers {
 public:
  explicit UnknownMembers(const ReadOptions& options) : warn_(options.warn) {}

  void look(const LineFields& fields, const Place& place) {
    if (!warn_ || said_ || !fields.has("length")) return;
    const auto unknown = fields.first_outside(kOwnMembers);
    if (!unknown) return;
    said_ = true;
    warn_(place(fmt::format("{} is not read, here and in further lines; those that are: {}",
                            core::quoted(*unknown), fmt::join(kOwnMembers, ", "))));
  }

 private:
  static constexpr std::array<std::string_view, 14> kOwnMembers = {
      "prompt",          "messages",        "length", "cap",         "censored", "model",
      "tenant",          "route",           "system", "temperature", "top_p",    "prompt_tokens",
      "response_format", "reasoning_effort"};
  const std::function<void(const std::string&)>& warn_;
  bool said_ = false;
};

Result<void> add_line(const LineFields& fields, RowMaker& rows) {
  if (fields.has("length")) return add_own(fields, rows);
  if (fields.has("out")) return add_by_model(fields, rows);
  if (fields.has("tokens")) return add_repeated(fields, rows);
  if (fields.has("out_tokens")) return add_by_set(fields, rows);
  if (fields.has("lengths")) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("lengths found: such lines are for tailrace fit; {}", kShapes));
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("length is missing; {}", kShapes));
}

// ---- folders whose files refer to each other ----------------------------------------------------

using Prompts = std::unordered_map<std::string, Asked>;

Result<void> keep(Prompts& prompts, std::string key, Asked asked) {
  if (prompts.size() >= kRowsMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("more than {} prompts; evaluate a part of them", kRowsMax));
  }
  prompts.insert_or_assign(std::move(key), std::move(asked));
  return {};
}

/// prompts: {"id", "prompt"}; output lengths: {"model", "params", "out_tokens": {id: [lengths]}}.
class SamplingReports {
 public:
  explicit SamplingReports(RowMaker& rows) : rows_(rows) {}

  Result<void> add_prompt(const LineFields& fields) {
    const auto id = fields.required_whole("id", 0, kTokensMax);
    if (!id) return fail(id.error());
    auto asked = read_asked(fields);
    if (!asked) return fail(asked.error());
    return keep(prompts_, std::to_string(*id), std::move(*asked));
  }

  Result<void> add_report(const LineFields& fields) {
    const auto model = fields.required_text("model");
    if (!model) return fail(model.error());
    const auto params = fields.object("params");
    if (!params) return fail(params.error());
    Sampling sampling;
    if (*params) {
      auto read = read_params(LineFields(**params));
      if (!read) return fail(read.error().with_context("params"));
      sampling = *read;
    }
    const auto out = fields.object("out_tokens");
    if (!out) return fail(out.error());
    if (!*out) return fail(ErrorCode::kInvalidArgument, "out_tokens is missing; give {id: [n]}");
    for (const auto& [id, lengths] : **out) {
      const auto prompt = prompts_.find(std::string(id));
      if (prompt == prompts_.end()) continue;  // held back by whoever split the collection
      Asked asked = prompt->second;
      asked.features.model = *model;
      asked.features.temperature = sampling.temperature;
      asked.features.top_p = sampling.top_p;
      if (auto added = add_lengths(asked, sampling, id, lengths); !added) return added;
    }
    return {};
  }

 private:
  struct Sampling {
    std::optional<double> temperature;
    std::optional<double> top_p;
    std::optional<std::int64_t> cap;
  };

  static Result<Sampling> read_params(const LineFields& params) {
    const auto temperature = params.real("temperature", 0, 100);
    if (!temperature) return fail(temperature.error());
    const auto top_p = params.real("top_p", 0, 1);
    if (!top_p) return fail(top_p.error());
    const auto cap = params.whole("max_new_tokens", 1, kTokensMax);
    if (!cap) return fail(cap.error());
    const auto sample = params.flag("do_sample");
    if (!sample) return fail(sample.error());
    Sampling sampling{*temperature, *top_p, *cap};
    if (*sample == false) sampling.temperature = 0;  // how a client asks for the likeliest answer
    return sampling;
  }

  Result<void> add_lengths(const Asked& asked, const Sampling& sampling, std::string_view id,
                           simdjson::dom::element lengths) {
    simdjson::dom::array list;
    if (lengths.get(list) != simdjson::SUCCESS) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("out_tokens.{} is no list; give [lengths]", id));
    }
    for (const auto item : list) {
      const auto length = whole_element(fmt::format("out_tokens.{}[]", id), item, 0, kTokensMax);
      if (!length) return fail(length.error());
      if (auto added = rows_.add(asked, sampling.cap, *length); !added) return added;
    }
    return {};
  }

  RowMaker& rows_;
  Prompts prompts_;
};

/// prompts: {"task", "rubric_id", "prompt"}; samples: {"model", "task", "prompt_id": "run:rubric",
/// "tokens": [n]}.
class Rubrics {
 public:
  explicit Rubrics(RowMaker& rows) : rows_(rows) {}

  Result<void> add_prompt(const LineFields& fields) {
    const auto task = fields.required_text("task");
    if (!task) return fail(task.error());
    const auto rubric = fields.required_text("rubric_id");
    if (!rubric) return fail(rubric.error());
    auto asked = read_asked(fields);
    if (!asked) return fail(asked.error());
    return keep(prompts_, key(*task, *rubric), std::move(*asked));
  }

  Result<void> add_samples_line(const LineFields& fields) {
    const auto task = fields.required_text("task");
    if (!task) return fail(task.error());
    const auto id = fields.required_text("prompt_id");
    if (!id) return fail(id.error());
    auto asked = read_asked(fields);
    if (!asked) return fail(asked.error());
    const auto prompt = prompts_.find(key(*task, id->substr(id->rfind(':') + 1)));
    if (prompt == prompts_.end()) return {};
    Asked joined = prompt->second;
    joined.features.model = asked->features.model;
    joined.features.temperature = asked->features.temperature;
    return add_samples(fields, joined, rows_);
  }

 private:
  static std::string key(std::string_view task, std::string_view rubric) {
    return fmt::format("{}\n{}", task, rubric);
  }
  RowMaker& rows_;
  Prompts prompts_;
};

/// `stem` with the ending that the folder has of it, or nothing.
std::optional<fs::path> member(const fs::path& folder, std::string_view stem) {
  for (const char* ending : {".jsonl.gz", ".jsonl"}) {
    const fs::path path = folder / fmt::format("{}{}", stem, ending);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

template <class Collection>
Result<void> read_pair(Collection collection, const fs::path& prompts, const fs::path& answers,
                       Result<void> (Collection::*add_answers)(const LineFields&)) {
  auto read = each_line(prompts, [&](const LineFields& fields, const Place&) {
    return collection.add_prompt(fields);
  });
  if (!read) return read;
  return each_line(answers, [&](const LineFields& fields, const Place&) {
    return (collection.*add_answers)(fields);
  });
}

bool is_table(const fs::path& path) {
  return path.filename().string().find(".csv") != std::string::npos;
}

bool holds_rows(const fs::path& path) {
  return is_table(path) || path.filename().string().find(".jsonl") != std::string::npos;
}

Result<void> read_file(const fs::path& path, const ReadOptions& options, RowMaker& rows) {
  if (is_table(path)) return read_length_table(path.string(), rows);
  UnknownMembers unknown(options);
  return each_line(path, [&](const LineFields& fields, const Place& place) {
    unknown.look(fields, place);
    return add_line(fields, rows);
  });
}

Result<void> read_folder(const fs::path& folder, const ReadOptions& options, RowMaker& rows) {
  if (const auto prompts = member(folder, "prompts")) {
    if (const auto reports = member(folder, "output_lengths")) {
      return read_pair(SamplingReports(rows), *prompts, *reports, &SamplingReports::add_report);
    }
    if (const auto samples = member(folder, "samples")) {
      return read_pair(Rubrics(rows), *prompts, *samples, &Rubrics::add_samples_line);
    }
  }
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (holds_rows(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                core::printable(folder.string()) +
                    ": holds no file of rows (*.jsonl or *.csv, packed or not)");
  }
  for (const auto& file : files) {
    if (auto read = read_file(file, options, rows); !read) return read;
  }
  return {};
}

std::string name_of(const fs::path& path) {
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  std::string name = last.string();
  return name.substr(0, name.find('.', 1));
}

}  // namespace

Result<RowSet> read_rows(const std::string& path, const ReadOptions& options) {
  const bool standard_input = path == "-";
  RowSet set;
  set.name = standard_input ? "standard input" : name_of(path);
  RowMaker rows(options, set);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!standard_input && !fs::exists(status)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: no such file or folder", core::printable(path)));
  }
  const auto read = !standard_input && fs::is_directory(status) ? read_folder(path, options, rows)
                                                                : read_file(path, options, rows);
  if (!read) return fail(read.error());
  if (set.rows.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: holds no rows; {}",
                            core::printable(standard_input ? set.name : path), kShapes));
  }
  return set;
}

void shuffle(std::vector<Row>& rows, Rng rng) {
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[rng.below(i)]);
}

void keep_per_group(std::vector<Row>& rows, std::size_t answers) {
  if (answers == 0) return;
  std::unordered_map<std::uint64_t, std::size_t> kept;
  std::erase_if(rows, [&](const Row& row) { return ++kept[row.group] > answers; });
}

}  // namespace tailrace::evaluate
