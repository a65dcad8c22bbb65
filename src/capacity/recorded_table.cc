#include "tailrace/capacity/recorded_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "capacity/names.h"
#include "tailrace/core/text.h"
#include "tailrace/tune/metric_columns.h"

namespace tailrace::capacity {
namespace {

enum Place : std::size_t {
  kTime,
  kNamespace,
  kModel,
  kVariant,
  kPod,
  kRate,
  kInput,
  kOutput,
  kTtft,
  kItl,
  // what may be left out
  kAccelerator,
  kRunning,
  kRequests,
  kOutputCv,
  kInputCv,
  kPrefixHit,
  kWaiting,
  kItlPerSequence,
  kItlPerSequenceError,
  kCurrent,
  kPending,
  kMin,
  kMax,
  kCost,
  kGpus,
  kMaxBatch,
  kMaxBatchedTokens,
  kKvTokens,
  kMaxQueue,
  kKnee,
  kFingerprint,
  kRole,
  kScaledUpAt,
  kPriority,
  kGatewayQueue,
  kPlaces
};
constexpr std::size_t kRequired = kAccelerator;

enum class Kind { kText, kReal, kWhole };
struct Column {
  std::string_view name;
  Kind kind = Kind::kReal;
  double low = -HUGE_VAL, high = HUGE_VAL;
};
constexpr double kTokens = 1e12, kReplicas = 1e9, kSequences = 1e6;
constexpr std::array<Column, kPlaces> kColumns{{
    {"time_s"},
    {"namespace", Kind::kText},
    {"model", Kind::kText},
    {"variant", Kind::kText},
    {"pod", Kind::kText},
    {"rate"},
    {"input"},
    {"output"},
    {"ttft_ms"},
    {"itl_ms"},
    {"accelerator", Kind::kText},
    {"running"},
    {"requests"},
    {"output_cv"},
    {"input_cv"},
    {"prefix_hit"},
    {"waiting"},
    {"itl_per_sequence_ms"},
    {"itl_per_sequence_error"},
    {"current", Kind::kWhole, 0, kReplicas},
    {"pending", Kind::kWhole, 0, kReplicas},
    {"min", Kind::kWhole, 0, kReplicas},
    {"max", Kind::kWhole, 0, kReplicas},
    {"cost", Kind::kReal, 0, 1e9},
    {"gpus", Kind::kWhole, 1, kSequences},
    {"max_batch", Kind::kWhole, 1, kSequences},
    {"max_batched_tokens", Kind::kWhole, 0, kReplicas},
    {"kv_tokens", Kind::kWhole, 0, kTokens},
    {"max_queue", Kind::kWhole, 0, kSequences},
    {"knee_tokens", Kind::kReal, 0, kSequences},
    {"fingerprint", Kind::kText},
    {"role", Kind::kText},
    {"scaled_up_at_s"},
    {"priority", Kind::kReal, 0, kSequences},
    {"gateway_queue", Kind::kReal, 0, kTokens},
}};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<double> value_in(const Column& column, std::string_view cell) {
  const auto value = tune::number_in(cell);
  if (!value) {
    return bad(fmt::format("column {}: {} is not a number; leave the cell empty if it is unknown",
                           column.name, core::quoted(cell)));
  }
  const bool whole = column.kind != Kind::kWhole || std::floor(*value) == *value;
  if (*value >= column.low && *value <= column.high && whole) return *value;
  return bad(fmt::format(
      "column {}: {} is not a {} from {:.15g} to {:.15g}; leave the cell empty "
      "if it is unknown",
      column.name, core::quoted(cell), column.kind == Kind::kWhole ? "whole number" : "number",
      column.low, column.high));
}

constexpr std::pair<Place, std::optional<double> tune::Observation::*> kPodNumbers[] = {
    {kRate, &tune::Observation::rate_per_s},
    {kInput, &tune::Observation::input_tokens},
    {kOutput, &tune::Observation::output_tokens},
    {kTtft, &tune::Observation::ttft_ms},
    {kItl, &tune::Observation::itl_ms},
    {kRunning, &tune::Observation::running},
    {kRequests, &tune::Observation::requests},
    {kOutputCv, &tune::Observation::output_cv},
    {kInputCv, &tune::Observation::input_cv},
    {kPrefixHit, &tune::Observation::prefix_hit},
    {kWaiting, &tune::Observation::waiting},
    {kItlPerSequence, &tune::Observation::itl_per_sequence_ms},
    {kItlPerSequenceError, &tune::Observation::itl_per_sequence_error},
};

}  // namespace

struct RecordedTable::Row {
  std::array<std::string, kPlaces> texts;
  std::array<std::optional<double>, kPlaces> numbers;

  ModelKey model() const { return {texts[kNamespace], texts[kModel]}; }
  const std::string& text(Place place) const { return texts[place]; }
  const std::optional<double>& number(Place place) const { return numbers[place]; }
  template <class T>
  void set(Place place, T& into) const {
    if (numbers[place]) into = static_cast<T>(*numbers[place]);
  }
};

Result<RecordedTable> RecordedTable::open(std::span<const std::string> header) {
  std::array<std::string_view, kPlaces> names;
  std::transform(kColumns.begin(), kColumns.end(), names.begin(),
                 [](const Column& column) { return column.name; });
  auto places = tune::places_of_columns(header, names, kRequired);
  if (!places) return fail(places.error());
  RecordedTable table;
  table.columns_ = std::move(*places);
  return table;
}

Result<RecordedTable::Row> RecordedTable::read(std::span<const std::string> cells) const {
  if (cells.size() != columns_.size()) {
    return bad(
        fmt::format("{} cells, but the header names {} columns", cells.size(), columns_.size()));
  }
  Row row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t place = columns_[i];
    const Column& column = kColumns[place];
    const std::string_view cell = core::trim(cells[i]);
    if (column.kind == Kind::kText) {
      if (cell.size() > kNameBytesMax) {
        return bad(fmt::format("column {}: {} has {} bytes; give a name of at most {}", column.name,
                               core::quoted(cell), cell.size(), kNameBytesMax));
      }
      row.texts[place] = std::string(cell);
    } else if (!tune::is_missing(cell)) {
      const auto value = value_in(column, cell);
      if (!value) return fail(value.error());
      row.numbers[place] = *value;
    }
  }
  if (!row.numbers[kTime] || !std::isfinite(*row.numbers[kTime])) {
    return bad("column time_s: no time; give seconds, such as 60");
  }
  for (const Place place : {kNamespace, kModel, kVariant}) {
    if (row.texts[place].empty()) {
      return bad(fmt::format("column {}: empty; every row names its namespace, model and variant",
                             kColumns[place].name));
    }
  }
  if (!row.texts[kRole].empty()) {
    if (const auto role = parse_role(row.texts[kRole]); !role) {
      return bad(
          fmt::format("column role: {} {}", core::quoted(row.texts[kRole]), role.error().message));
    }
  }
  return row;
}

Result<std::optional<RecordedCycle>> RecordedTable::add(std::span<const std::string> cells) {
  auto row = read(cells);
  if (!row) return fail(row.error());
  const double time_s = *row->number(kTime);
  std::optional<RecordedCycle> ended;
  if (time_s_ && time_s != *time_s_) {
    if (time_s < *time_s_) {
      return bad(fmt::format("column time_s: {} comes after {}; sort the rows by time_s", time_s,
                             *time_s_));
    }
    ended = end_cycle();
  }
  time_s_ = time_s;
  if (++rows_ > kCycleRowsMax) {
    return fail(
        ErrorCode::kResourceExhausted,
        fmt::format("column time_s: more than {} rows have the time {}", kCycleRowsMax, time_s));
  }
  if (const auto taken = take(*row); !taken) return fail(taken.error());
  return ended;
}

Result<ModelState*> RecordedTable::model_of(const Row& row) {
  const auto [place, first] = model_places_.try_emplace(row.model(), models_.size());
  if (first) {
    models_.emplace_back();
    models_.back().key = row.model();
  }
  return &models_[place->second];
}

Result<std::pair<Variant*, std::size_t>> RecordedTable::variant_of(const Row& row,
                                                                   ModelState& model) {
  const std::pair key(row.model(), row.text(kVariant));
  const auto known = variant_places_.find(key);
  if (known != variant_places_.end()) {
    return std::pair(&model.variants[known->second.second], known->second.second);
  }
  if (variant_places_.size() >= kVariantsMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("column variant: more than {} variants", kVariantsMax));
  }
  const std::size_t place = model.variants.size();
  variant_places_.emplace(key, std::pair(model_places_.at(row.model()), place));
  auto& variant = model.variants.emplace_back();
  variant.key = row.model();
  variant.name = row.text(kVariant);
  return std::pair(&variant, place);
}

Result<void> RecordedTable::take(const Row& row) {
  auto model = model_of(row);
  if (!model) return fail(model.error());
  auto found = variant_of(row, **model);
  if (!found) return fail(found.error());
  Variant& v = *found->first;
  const std::pair own(row.model(), row.text(kVariant));

  // What belongs to the variant or the model is said by each of its rows; two sayings are a mix-up.
  for (const Place place :
       {kAccelerator, kCurrent, kPending, kMin, kMax, kCost, kGpus, kMaxBatch, kMaxBatchedTokens,
        kKvTokens, kMaxQueue, kKnee, kFingerprint, kRole, kScaledUpAt, kPriority, kGatewayQueue}) {
    const bool is_text = kColumns[place].kind == Kind::kText;
    if (is_text ? row.text(place).empty() : !row.number(place)) continue;
    const bool of_model = place == kPriority || place == kGatewayQueue;
    auto value = is_text ? row.text(place) : fmt::format("{}", *row.number(place));
    const auto [told, first] = told_.try_emplace(
        std::pair(of_model ? std::pair(row.model(), std::string()) : own, std::size_t{place}),
        value);
    if (first || told->second == value) continue;
    return bad(fmt::format("column {}: {} here, but {} in an earlier row of the same {} and time",
                           kColumns[place].name, core::quoted(value), core::quoted(told->second),
                           of_model ? "model" : "variant"));
  }
  if (!row.text(kAccelerator).empty()) v.accelerator = row.text(kAccelerator);
  if (!row.text(kFingerprint).empty()) v.fingerprint = row.text(kFingerprint);
  if (!row.text(kRole).empty()) v.role = parse_role(row.text(kRole)).value_or(v.role);
  row.set(kCurrent, v.current);
  row.set(kPending, v.pending);
  row.set(kMin, v.min);
  if (row.number(kMax)) v.max = static_cast<std::int64_t>(*row.number(kMax));
  row.set(kCost, v.cost);
  row.set(kGpus, v.gpus_per_replica);
  row.set(kMaxBatch, v.limits.max_num_seqs);
  row.set(kMaxBatchedTokens, v.limits.max_batched_tokens);
  row.set(kKvTokens, v.limits.kv_tokens);
  row.set(kMaxQueue, v.limits.max_queue);
  row.set(kKnee, v.knee_tokens);
  if (std::isfinite(row.number(kScaledUpAt).value_or(NAN))) {
    v.scaled_up_at_s = row.number(kScaledUpAt);
  }
  row.set(kPriority, (*model)->priority);
  if (row.number(kGatewayQueue)) (*model)->gateway = Backlog{*row.number(kGatewayQueue)};

  if (row.text(kPod).empty()) {
    for (const auto& [place, member] : kPodNumbers) {
      if (row.number(place)) {
        return bad(
            fmt::format("column {}: a value, but the row names no pod; give its pod, or "
                        "leave the cell empty",
                        kColumns[place].name));
      }
    }
    return {};
  }
  if (!pods_.emplace(own, row.text(kPod)).second) {
    return bad(fmt::format("column pod: {} of this variant has two rows of the time {}; keep one",
                           core::quoted(row.text(kPod)), *time_s_));
  }
  auto& pod = v.pods.emplace_back();
  pod.time_s = *time_s_;
  pod.pod = row.text(kPod);
  for (const auto& [place, member] : kPodNumbers) pod.*member = row.number(place);
  return {};
}

void RecordedTable::forget_pods(double until_s) {
  for (auto& [variant, pods] : seen_) {
    pods_seen_ -= std::erase_if(pods, [&](const auto& pod) { return pod.second < until_s; });
  }
}

RecordedCycle RecordedTable::end_cycle() {
  // Where nobody says how many there are, those that report are, and those that did a moment ago: a
  // lost scrape is no lost pod. Who reports no more keeps the number he had.
  if (pods_seen_ > kCycleRowsMax) forget_pods(*time_s_);
  forget_pods(*time_s_ - kPodMemorySeconds);
  for (auto& model : models_) {
    for (auto& v : model.variants) {
      auto& seen = seen_[{v.key, v.name}];
      for (const auto& pod : v.pods) pods_seen_ += seen.insert_or_assign(pod.pod, *time_s_).second;
      if (v.pods.empty() || told_.contains({{v.key, v.name}, kCurrent})) continue;
      v.current = static_cast<std::int64_t>(seen.size());
    }
  }
  RecordedCycle cycle{*time_s_, models_};
  for (auto& model : models_) {
    model.gateway.reset();
    for (auto& v : model.variants) v.pods.clear();
  }
  pods_.clear();
  told_.clear();
  rows_ = 0;
  return cycle;
}

std::optional<RecordedCycle> RecordedTable::finish() {
  if (!time_s_) return std::nullopt;
  return end_cycle();
}

}  // namespace tailrace::capacity
