#include "capacity/saved_cycle.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <type_traits>
#include <utility>

#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kFormat = "tailrace-capacity";
constexpr std::int64_t kVersion = 2;
constexpr std::int64_t kCountMax = 1'000'000'000'000'000;

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorCode::kDataLoss, fmt::format("saved state: {}; start without it", what));
}

std::string text_json(std::string_view text) {
  return boost::json::serialize(boost::json::string(core::valid_utf8(text)));
}

/// Reads back as itself; what JSON cannot say is null.
std::string number_json(double value) {
  if (!std::isfinite(value)) return "null";
  return fmt::format("{}", value == 0 ? 0 : value);
}

std::string number_json(const std::optional<double>& value) {
  return value ? number_json(*value) : "null";
}

std::string key_json(const ModelKey& key) {
  return fmt::format("\"ns\":{},\"model\":{}", text_json(key.ns), text_json(key.model));
}

std::string slo_json(const std::optional<SloTarget>& slo) {
  if (!slo) return "null";
  const auto& t = slo->targets;
  return fmt::format(
      "{{\"ttft_ms\":{},\"itl_ms\":{},\"e2e_ms\":{},\"statistic\":{},\"source\":{},\"reason\":{}}}",
      number_json(t.ttft_ms), number_json(t.itl_ms), number_json(t.e2e_ms),
      static_cast<int>(t.statistic), static_cast<int>(slo->source), text_json(slo->reason));
}

std::string workload_json(const std::optional<queueing::Workload>& w) {
  if (!w) return "null";
  return fmt::format("[{},{},{},{},{},{},{}]", number_json(w->rate_per_s),
                     number_json(w->input_mean), number_json(w->input_second_moment),
                     number_json(w->output_mean), number_json(w->output_second_moment),
                     number_json(w->cross_moment), number_json(w->prefix_hit));
}

std::string arrivals_json(const DemandHistory& history) {
  const auto& memory = history.memory();
  std::string samples;
  for (const auto& sample : memory.samples) {
    samples += fmt::format("{}[{},{},{}]", samples.empty() ? "" : ",", number_json(sample.at_s),
                           number_json(sample.rate), number_json(sample.length_s));
  }
  return fmt::format("{{\"now_s\":{},\"cut\":{},\"samples\":[{}]}}", number_json(memory.now_s),
                     text_json(memory.cut), samples);
}

std::string lengths_json(const SteadyLengths& lengths) {
  const auto& memory = lengths.memory();
  return fmt::format("{{\"workload\":{},\"now_s\":{},\"far_off\":{}}}", workload_json(memory.mean),
                     number_json(memory.now_s), memory.far_off);
}

std::string model_json(const ModelKey& key, const ModelMemory& m) {
  const auto& f = m.freeze.memory();
  return fmt::format(
      "{{{},\"seen_s\":{},\"idle_since_s\":{},\"slo\":{},\"workload\":{},\"arrivals\":{},"
      "\"lengths\":{},\"one_queue\":{},\"freeze\":{{\"frozen\":{},\"last\":{},\"calm_cycles\":{},"
      "\"multiplier\":{},\"input_tokens\":{},\"output_tokens\":{}}}}}",
      key_json(key), number_json(m.seen_s), number_json(m.idle_since_s), slo_json(m.slo),
      workload_json(m.workload), arrivals_json(m.arrivals), lengths_json(m.lengths), m.one_queue,
      slo_json(f.frozen), slo_json(f.last), f.calm_cycles, number_json(f.multiplier),
      number_json(f.input_tokens), number_json(f.output_tokens));
}

std::string learner_json(const std::tuple<ModelKey, std::string>& name, const Learners::Saved& l) {
  std::string pods;
  for (const auto& [pod, times] : l.pods) {
    pods += fmt::format("{}[{},{},{}]", pods.empty() ? "" : ",", text_json(pod),
                        number_json(times.first_s), number_json(times.last_s));
  }
  return fmt::format(
      "{{{},\"variant\":{},\"key\":[{},{},{}],\"estimator\":{},\"learning\":{},\"state\":{},"
      "\"origin\":{},"
      "\"begun_s\":{},\"seen_s\":{},\"pods\":[{}]}}",
      key_json(std::get<0>(name)), text_json(std::get<1>(name)), text_json(l.key.model),
      text_json(l.key.accelerator), text_json(l.key.configuration), text_json(to_string(l.kind)),
      text_json(l.learning), l.state ? text_json(*l.state) : "null", text_json(l.origin),
      number_json(l.begun_s), number_json(l.seen_s), pods);
}

/// Counts come from outside and may be any: beyond what is read again they are as good as that.
std::int64_t kept_count(std::int64_t count) {
  return std::clamp<std::int64_t>(count, 0, kCountMax);
}

std::string marks_json(const std::deque<Stabiliser::Mark>& marks) {
  std::string out;
  for (const auto& mark : marks) {
    out += fmt::format("{}[{},{}]", out.empty() ? "" : ",", number_json(mark.time_s),
                       kept_count(mark.replicas));
  }
  return "[" + out + "]";
}

std::string history_json(const std::tuple<ModelKey, std::string>& name,
                         const Stabiliser::History& h) {
  return fmt::format(
      "{{{},\"variant\":{},\"observed\":{},\"seen_s\":{},\"largest\":{},\"smallest\":{},\"grown\":{"
      "},"
      "\"shrunk\":{}}}",
      key_json(std::get<0>(name)), text_json(std::get<1>(name)), kept_count(h.observed),
      number_json(h.seen_s), marks_json(h.largest), marks_json(h.smallest), marks_json(h.grown),
      marks_json(h.shrunk));
}

/// Reads one object's members; the first that is wrong is remembered.
class Reader {
 public:
  explicit Reader(const dom::element& element) {
    if (element.get(object_) != simdjson::SUCCESS) wrong("an entry is no object");
  }

  std::string text(std::string_view name) {
    std::string_view out;
    if (object_[name].get(out) != simdjson::SUCCESS) wrong(name, "text");
    return std::string(out);
  }
  double number(std::string_view name) {
    const auto out = optional_number(name);
    if (!out) wrong(name, "number");
    return out.value_or(0);
  }
  std::optional<double> optional_number(std::string_view name) {
    dom::element value;
    double out = 0;
    if (object_[name].get(value) != simdjson::SUCCESS) wrong(name, "number");
    if (!ok() || value.is_null()) return std::nullopt;
    if (value.get(out) != simdjson::SUCCESS || !std::isfinite(out)) wrong(name, "number");
    return out;
  }
  std::int64_t count(std::string_view name, std::int64_t max = kCountMax) {
    std::int64_t out = 0;
    if (object_[name].get(out) != simdjson::SUCCESS || out < 0 || out > max) {
      wrong(name, "whole number in range");
      return 0;
    }
    return out;
  }
  bool flag(std::string_view name) {
    bool out = false;
    if (object_[name].get(out) != simdjson::SUCCESS) wrong(name, "true or false");
    return out;
  }
  std::optional<dom::element> optional(std::string_view name) {
    dom::element value;
    if (object_[name].get(value) != simdjson::SUCCESS) wrong(name, "member");
    if (!ok() || value.is_null()) return std::nullopt;
    return value;
  }
  /// An object that must be there.
  std::optional<dom::element> object(std::string_view name) {
    const auto element = optional(name);
    if (!element) wrong(name, "object");
    return element;
  }
  dom::array list(std::string_view name) {
    dom::array out;
    if (object_[name].get(out) != simdjson::SUCCESS) wrong(name, "list");
    return out;
  }
  ModelKey key() { return {text("ns"), text("model")}; }

  bool ok() const { return !error_; }
  void wrong(std::string_view name, std::string_view kind) {
    wrong(fmt::format("`{}` is no {}", name, kind));
  }
  void wrong(std::string what) {
    if (!error_) error_ = std::move(what);
  }
  void take_error(const Reader& other) {
    if (other.error_) wrong(*other.error_);
  }
  const std::optional<std::string>& error() const { return error_; }

 private:
  dom::object object_;
  std::optional<std::string> error_;
};

std::optional<std::vector<double>> numbers(const dom::element& element, std::size_t count) {
  dom::array list;
  if (element.get(list) != simdjson::SUCCESS || list.size() != count) return std::nullopt;
  std::vector<double> out;
  for (const dom::element item : list) {
    double value = 0;
    if (item.get(value) != simdjson::SUCCESS || !std::isfinite(value)) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

std::optional<SloTarget> slo_of(Reader& parent, std::string_view name) {
  const auto element = parent.optional(name);
  if (!element) return std::nullopt;
  Reader r(*element);
  SloTarget slo;
  slo.targets.ttft_ms = r.number("ttft_ms");
  slo.targets.itl_ms = r.number("itl_ms");
  slo.targets.e2e_ms = r.number("e2e_ms");
  slo.targets.statistic = static_cast<queueing::Statistic>(
      r.count("statistic", static_cast<int>(queueing::Statistic::kP99)));
  slo.source = static_cast<SloSource>(r.count("source", static_cast<int>(SloSource::kObserved)));
  slo.reason = r.text("reason");
  parent.take_error(r);
  return slo;
}

std::optional<queueing::Workload> workload_of(Reader& parent) {
  const auto element = parent.optional("workload");
  if (!element) return std::nullopt;
  const auto n = numbers(*element, 7);
  if (!n) {
    parent.wrong("workload", "list of seven numbers");
    return std::nullopt;
  }
  queueing::Workload w;
  w.rate_per_s = (*n)[0];
  w.input_mean = (*n)[1];
  w.input_second_moment = (*n)[2];
  w.output_mean = (*n)[3];
  w.output_second_moment = (*n)[4];
  w.cross_moment = (*n)[5];
  w.prefix_hit = (*n)[6];
  return w;
}

DemandHistory arrivals_of(Reader& parent) {
  DemandHistory out;
  const auto element = parent.object("arrivals");
  if (!element) return out;
  Reader r(*element);
  DemandHistory::Memory memory;
  memory.now_s = r.number("now_s");
  memory.cut = r.text("cut");
  for (const dom::element item : r.list("samples")) {
    const auto n = numbers(item, 3);
    // A sample that counts for no time would weigh infinitely.
    if (!n || !((*n)[1] >= 0) || !((*n)[2] > 0)) {
      r.wrong("samples", "list of times, rates and lengths");
      break;
    }
    memory.samples.push_back({(*n)[0], (*n)[1], (*n)[2]});
  }
  parent.take_error(r);
  out.restore(std::move(memory));
  return out;
}

SteadyLengths lengths_of(Reader& parent) {
  SteadyLengths out;
  const auto element = parent.object("lengths");
  if (!element) return out;
  Reader r(*element);
  SteadyLengths::Memory memory;
  memory.mean = workload_of(r);
  memory.now_s = r.number("now_s");
  memory.far_off = static_cast<int>(r.count("far_off", 1'000'000));
  parent.take_error(r);
  out.restore(memory);
  return out;
}

ModelMemory model_of(Reader& r) {
  ModelMemory m;
  m.seen_s = r.number("seen_s");
  m.idle_since_s = r.optional_number("idle_since_s");
  m.slo = slo_of(r, "slo");
  m.workload = workload_of(r);
  m.arrivals = arrivals_of(r);
  m.lengths = lengths_of(r);
  m.one_queue = r.flag("one_queue");
  const auto element = r.object("freeze");
  if (!element) return m;
  Reader f(*element);
  SloFreeze::Memory memory;
  memory.frozen = slo_of(f, "frozen");
  memory.last = slo_of(f, "last");
  memory.calm_cycles = static_cast<int>(f.count("calm_cycles", 1'000'000'000));
  memory.multiplier = f.number("multiplier");
  memory.input_tokens = f.number("input_tokens");
  memory.output_tokens = f.number("output_tokens");
  m.freeze.restore(std::move(memory));
  r.take_error(f);
  return m;
}

Learners::Saved learner_of(Reader& r) {
  Learners::Saved l;
  std::vector<std::string> key;
  for (const dom::element part : r.list("key")) {
    std::string_view text;
    if (part.get(text) == simdjson::SUCCESS) key.emplace_back(text);
  }
  if (key.size() == 3) {
    l.key = {key[0], key[1], key[2]};
  } else {
    r.wrong("key", "list of three texts");
  }
  const auto kind = tune::parse_estimator(r.text("estimator"));
  if (kind) {
    l.kind = *kind;
  } else {
    r.wrong("estimator", "estimator");
  }
  l.learning = r.text("learning");
  if (r.optional("state")) l.state = r.text("state");
  l.origin = r.text("origin");
  l.begun_s = r.number("begun_s");
  l.seen_s = r.number("seen_s");
  for (const dom::element item : r.list("pods")) {
    dom::array pod;
    std::string_view name;
    double first = 0, last = 0;
    if (item.get(pod) != simdjson::SUCCESS || pod.size() != 3 ||
        pod.at(0).get(name) != simdjson::SUCCESS || pod.at(1).get(first) != simdjson::SUCCESS ||
        pod.at(2).get(last) != simdjson::SUCCESS) {
      r.wrong("pods", "list of names and times");
      break;
    }
    l.pods[std::string(name)] = {first, last};
  }
  return l;
}

std::deque<Stabiliser::Mark> marks_of(Reader& r, std::string_view name) {
  std::deque<Stabiliser::Mark> out;
  double before = -HUGE_VAL;
  for (const dom::element item : r.list(name)) {
    const auto n = numbers(item, 2);
    if (!n || (*n)[0] < before || !((*n)[1] >= 0 && (*n)[1] <= double(kCountMax))) {
      r.wrong(name, "list of rising times with replicas");
      break;
    }
    before = (*n)[0];
    out.push_back({before, static_cast<std::int64_t>((*n)[1])});
  }
  return out;
}

Stabiliser::History history_of(Reader& r) {
  Stabiliser::History h;
  h.observed = r.count("observed");
  h.seen_s = r.number("seen_s");
  h.largest = marks_of(r, "largest");
  h.smallest = marks_of(r, "smallest");
  h.grown = marks_of(r, "grown");
  h.shrunk = marks_of(r, "shrunk");
  return h;
}

/// Entries of the list `name` of `root`, each by what `read` makes of it.
template <class Map, class Read>
Result<void> read_entries(const dom::object& root, std::string_view name, Map& into, Read read) {
  dom::array list;
  if (root[name].get(list) != simdjson::SUCCESS)
    return damaged(fmt::format("`{}` is no list", name));
  for (const dom::element item : list) {
    Reader r(item);
    typename Map::key_type key;
    if constexpr (std::is_same_v<typename Map::key_type, ModelKey>) {
      key = r.key();
    } else {
      key = {r.key(), r.text("variant")};
    }
    auto value = read(r);
    if (!r.ok()) return damaged(fmt::format("{}: {}", name, *r.error()));
    if (!into.emplace(std::move(key), std::move(value)).second) {
      return damaged(fmt::format("{}: two entries have one name", name));
    }
  }
  return {};
}

template <class Map, class Print>
std::string list_json(const Map& map, Print print) {
  std::string out;
  for (const auto& [key, value] : map) {
    out += (out.empty() ? "\n" : ",\n") + print(key, value);
  }
  return out;
}

}  // namespace

std::string to_json(const tune::ParameterStore& store, const Learners::SavedLearners& learners,
                    const std::map<ModelKey, ModelMemory>& models,
                    const Stabiliser::Histories& histories) {
  return fmt::format(
      "{{\"format\":\"{}\",\"version\":{},\"parameters\":{},\"learners\":[{}],\"models\":[{}],"
      "\"histories\":[{}]}}\n",
      kFormat, kVersion, core::trim(store.save()), list_json(learners, learner_json),
      list_json(models, model_json), list_json(histories, history_json));
}

Result<SavedCycle> parse_saved_cycle(std::string_view document) {
  SavedCycle out;
  dom::parser parser(tune::ParameterStore::kFileBytesMax);
  dom::object root;
  std::string_view format;
  if (parser.parse(document.data(), document.size()).get(root) != simdjson::SUCCESS ||
      root["format"].get(format) != simdjson::SUCCESS || format != kFormat) {
    // It is not ours; the store says what is wrong with it, or reads what version 1 was.
    if (const auto read = out.store.restore(document); !read) return fail(read.error());
    return out;
  }
  std::int64_t version = 0;
  if (root["version"].get(version) != simdjson::SUCCESS) return damaged("`version` is no number");
  if (version != kVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("saved state: version {} is not {}, the one that this program reads",
                            version, kVersion));
  }
  dom::element parameters;
  if (root["parameters"].get(parameters) != simdjson::SUCCESS) {
    return damaged("`parameters` is missing");
  }
  if (const auto ok = out.store.restore(simdjson::minify(parameters)); !ok) return fail(ok.error());
  if (const auto ok = read_entries(root, "learners", out.learners, learner_of); !ok) {
    return fail(ok.error());
  }
  if (const auto ok = read_entries(root, "models", out.models, model_of); !ok) {
    return fail(ok.error());
  }
  if (const auto ok = read_entries(root, "histories", out.histories, history_of); !ok) {
    return fail(ok.error());
  }
  return out;
}

}  // namespace tailrace::capacity
