#include "tailrace/tune/parameter_store.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <tuple>
#include <utility>

#include "tailrace/core/move_aside.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tune/json_numbers.h"

namespace tailrace::tune {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kFormat = "tailrace-parameters";
constexpr std::int64_t kVersion = 1;
constexpr double kMillisMax = 1e9;
/// From one accelerator to another, alpha and beta of one model differ by factors of 1.7 to 6 in
/// published sets; from one image or flag to the next, by less.
constexpr double kSameAcceleratorLogSd = 0.5, kOtherAcceleratorLogSd = 1;

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorCode::kDataLoss, fmt::format("learnt parameters: {}", what));
}

std::string quoted_json(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

Result<void> check_name(std::string_view field, const std::string& value) {
  const auto refused = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} {}", field, core::quoted(value), why));
  };
  if (value.empty()) return refused("is empty; it tells what parameters belong to");
  if (value.size() > ParameterStore::kNameBytesMax) {
    return refused(fmt::format("has {} bytes; at most {} are kept", value.size(),
                               ParameterStore::kNameBytesMax));
  }
  if (core::valid_utf8(value) != value) return refused("is not UTF-8");
  return {};
}

Result<void> check_key(const ParameterKey& key) {
  for (const auto& [field, value] : {std::pair{"model", &key.model},
                                     {"accelerator", &key.accelerator},
                                     {"configuration", &key.configuration}}) {
    if (const auto ok = check_name(field, *value); !ok) return ok;
  }
  return {};
}

std::optional<std::string> text_in(const dom::object& object, std::string_view name) {
  std::string_view text;
  if (object[name].get(text) != simdjson::SUCCESS) return std::nullopt;
  return std::string(text);
}

std::optional<double> number_in(const dom::object& object, std::string_view name) {
  double number = 0;
  if (object[name].get(number) != simdjson::SUCCESS || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string values_json(const std::optional<queueing::IterationModel>& values) {
  if (!values) return "null";
  return fmt::format(
      "{{\"alpha_ms\":{},\"beta_ms\":{},\"gamma_ms\":{},\"knee_tokens\":{},\"per_request_ms\":{}}}",
      values->alpha_ms, values->beta_ms, values->gamma_ms, json_number(values->knee_tokens),
      json_number(values->per_request_ms));
}

Result<queueing::IterationModel> values_of(const dom::object& object) {
  queueing::IterationModel values;
  for (const auto& [name, to] : {std::pair<std::string_view, double*>{"alpha_ms", &values.alpha_ms},
                                 {"beta_ms", &values.beta_ms},
                                 {"gamma_ms", &values.gamma_ms},
                                 {"knee_tokens", &values.knee_tokens},
                                 {"per_request_ms", &values.per_request_ms}}) {
    const auto number = number_in(object, name);
    if (!number || *number < 0 || *number > kMillisMax) {
      return damaged(fmt::format("`values.{}` is no number from 0 to {}", name, kMillisMax));
    }
    *to = *number;
  }
  return values;
}

Result<std::pair<ParameterKey, ParameterStore::Entry>> entry_of(const dom::element& element) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) return damaged("an entry is no object");
  std::pair<ParameterKey, ParameterStore::Entry> out;
  for (const auto& [name, to] :
       {std::pair<std::string_view, std::string*>{"model", &out.first.model},
        {"accelerator", &out.first.accelerator},
        {"configuration", &out.first.configuration},
        {"state", &out.second.state}}) {
    auto text = text_in(object, name);
    if (!text) return damaged(fmt::format("an entry's `{}` is no text", name));
    *to = std::move(*text);
  }
  if (const auto ok = check_key(out.first); !ok) return damaged(ok.error().message);
  if (out.second.state.size() > ParameterStore::kStateBytesMax) {
    return damaged(fmt::format("a state has {} bytes; at most {} are kept", out.second.state.size(),
                               ParameterStore::kStateBytesMax));
  }
  const auto kind = parse_estimator(text_in(object, "estimator").value_or(""));
  if (!kind) return damaged(kind.error().message);
  out.second.kind = *kind;
  const auto seen = number_in(object, "seen_s");
  if (!seen) return damaged("an entry's `seen_s` is no number");
  out.second.seen_s = *seen;
  if (object["identified"].get(out.second.identified) != simdjson::SUCCESS) {
    return damaged("an entry's `identified` is neither true nor false");
  }
  dom::element values;
  if (object["values"].get(values) != simdjson::SUCCESS) {
    return damaged("an entry lacks `values`");
  }
  if (values.is_null()) return out;
  dom::object numbers;
  if (values.get(numbers) != simdjson::SUCCESS) {
    return damaged("an entry's `values` is neither null nor an object");
  }
  const auto read = values_of(numbers);
  if (!read) return fail(read.error());
  out.second.values = *read;
  return out;
}

}  // namespace

std::string fingerprint(const std::map<std::string, std::string>& settings) {
  std::string all;
  // Lengths first: no setting can look like the end of another.
  for (const auto& [name, value] : settings) {
    all += fmt::format("{}:{}{}:{}", name.size(), name, value.size(), value);
  }
  return fmt::format("{:016x}{:016x}", stable_hash(all, 1), stable_hash(all, 2));
}

Result<ParameterStore::Started> ParameterStore::start(const ParameterKey& key,
                                                      TuneConfig config) const {
  std::string why_not;
  if (const auto own = entries_.find(key); own != entries_.end()) {
    if (own->second.kind == config.estimator) {
      auto estimator = make_estimator(config);
      if (!estimator) return fail(estimator.error());
      const auto restored = (*estimator)->restore(own->second.state);
      if (restored) {
        return Started{std::move(*estimator), Started::From::kItself,
                       "it goes on from what it had learnt"};
      }
      why_not = fmt::format(" (its own state cannot be read: {})", restored.error().message);
    } else {
      why_not = fmt::format(" (its own state is of the estimator {})", to_string(own->second.kind));
    }
  }
  // The model's other entries; its own too, where only the values can be used.
  using Rank = std::tuple<bool, bool, bool, double>;
  const ParameterKey* best = nullptr;
  const Entry* related = nullptr;
  Rank best_rank;
  for (auto at = entries_.lower_bound({key.model, "", ""});
       at != entries_.end() && at->first.model == key.model; ++at) {
    const auto& values = at->second.values;
    if (!values || !(values->alpha_ms > 0 && values->beta_ms > 0 && values->gamma_ms > 0)) continue;
    const Rank rank{at->first == key, at->first.accelerator == key.accelerator,
                    at->second.identified, at->second.seen_s};
    if (related != nullptr && rank <= best_rank) continue;
    best = &at->first;
    related = &at->second;
    best_rank = rank;
  }
  Started out;
  if (related == nullptr) {
    out.reason = "nothing is known of its model" + why_not;
  } else {
    const bool same = best->accelerator == key.accelerator;
    config.prior =
        PriorParameters{*related->values, same ? kSameAcceleratorLogSd : kOtherAcceleratorLogSd};
    out.from = Started::From::kRelated;
    out.reason = fmt::format("it starts near what {} has taught on {}{}{}", core::quoted(key.model),
                             core::quoted(best->accelerator),
                             *best == key ? "" : " in another configuration", why_not);
  }
  auto estimator = make_estimator(config);
  if (!estimator) return fail(estimator.error());
  out.estimator = std::move(*estimator);
  return out;
}

Result<void> ParameterStore::put(const ParameterKey& key, EstimatorKind kind,
                                 const Estimator& estimator, double now_s) {
  if (const auto ok = check_key(key); !ok) return ok;
  if (!std::isfinite(now_s)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("now: {} is no time in seconds", now_s));
  }
  const ParameterEstimate estimate = estimator.current();
  Entry entry{kind, estimator.save(), estimate.values, estimate.identified, now_s};
  if (entry.state.size() > kStateBytesMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("the estimator's state has {} bytes; at most {} are kept",
                            entry.state.size(), kStateBytesMax));
  }
  entries_[key] = std::move(entry);
  forget(now_s);
  return {};
}

void ParameterStore::forget(double now_s) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    // A clock that was set back must not keep an entry for ever.
    at->second.seen_s = std::min(at->second.seen_s, now_s);
    const bool old = now_s - at->second.seen_s > options_.forget_after_s;
    at = old ? entries_.erase(at) : std::next(at);
  }
  while (entries_.size() > std::max<std::size_t>(1, options_.entries_max)) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.seen_s < b.second.seen_s; }));
  }
}

std::string ParameterStore::save() const {
  std::string out =
      fmt::format("{{\"format\":\"{}\",\"version\":{},\"entries\":[", kFormat, kVersion);
  bool first = true;
  for (const auto& [key, entry] : entries_) {
    out += fmt::format(
        "{}\n{{\"model\":{},\"accelerator\":{},\"configuration\":{},\"seen_s\":{},"
        "\"identified\":{},\"values\":{},\"estimator\":\"{}\",\"state\":{}}}",
        first ? "" : ",", quoted_json(key.model), quoted_json(key.accelerator),
        quoted_json(key.configuration), json_number(entry.seen_s), entry.identified,
        values_json(entry.values), to_string(entry.kind), quoted_json(entry.state));
    first = false;
  }
  return out + "\n]}\n";
}

Result<void> ParameterStore::restore(std::string_view document) {
  dom::parser parser(kFileBytesMax);
  dom::element root;
  if (const auto error = parser.parse(document.data(), document.size()).get(root)) {
    return damaged(fmt::format("not JSON, or cut short: {}", simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS || text_in(object, "format") != kFormat) {
    return damaged(fmt::format("`format` is not \"{}\"", kFormat));
  }
  const auto version = number_in(object, "version");
  if (!version) return damaged("`version` is no number");
  if (*version != static_cast<double>(kVersion)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("learnt parameters: version {} is not {}, the one that this program "
                            "reads",
                            *version, kVersion));
  }
  dom::array list;
  if (object["entries"].get(list) != simdjson::SUCCESS) return damaged("`entries` is no list");
  std::map<ParameterKey, Entry> entries;
  for (const dom::element value : list) {
    auto entry = entry_of(value);
    if (!entry) return fail(entry.error());
    if (!entries.insert(std::move(*entry)).second) return damaged("two entries have one key");
  }
  entries_ = std::move(entries);
  return {};
}

Result<void> ParameterStore::save_file(const std::string& path) const {
  const std::string document = save();
  if (document.size() > kFileBytesMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("learnt parameters take {} bytes; a file holds at most {}, so keep "
                            "fewer entries",
                            document.size(), kFileBytesMax));
  }
  return core::write_file_atomically(path, document);
}

Result<ParameterStore::Loaded> ParameterStore::load_file(const std::string& path,
                                                         const Options& options) {
  Loaded out{ParameterStore(options), std::nullopt};
  std::error_code unknown;
  const auto kind = std::filesystem::status(path, unknown).type();
  if (kind == std::filesystem::file_type::not_found) return out;
  if (kind != std::filesystem::file_type::regular) {
    // A folder must not be moved aside, and opening a pipe would wait for its other end.
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a regular file; give one that learnt parameters can be "
                            "kept in",
                            core::quoted(path, 256)));
  }
  const auto bytes = core::read_regular_file(path, kFileBytesMax);
  if (!bytes && bytes.error().code != ErrorCode::kResourceExhausted) return fail(bytes.error());
  const Result<void> restored = bytes ? out.store.restore(*bytes) : fail(bytes.error());
  if (restored) return out;
  const auto aside = core::move_aside(path);
  if (!aside) return fail(aside.error().with_context(restored.error().message));
  out.damage = Error{
      restored.error().code,
      fmt::format("{}: {}; the file is now {}, and learning starts afresh", core::quoted(path, 256),
                  restored.error().message, core::quoted(*aside, 256))};
  return out;
}

}  // namespace tailrace::tune
