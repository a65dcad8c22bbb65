#include "simulate/router.h"

#include <algorithm>

namespace tailrace::simulate {
namespace {

dispatch::BackendChoice rule_of(FrontSpec::Choice choice) {
  switch (choice) {
    case FrontSpec::Choice::kRoundRobin:
      return dispatch::BackendChoice::kRoundRobin;
    case FrontSpec::Choice::kLeastPredictedWork:
      return dispatch::BackendChoice::kLeastWork;
    case FrontSpec::Choice::kPrefixAffinity:
      return dispatch::BackendChoice::kPrefix;
    case FrontSpec::Choice::kLeastOutstanding:
    case FrontSpec::Choice::kLeastReported:
      break;
  }
  return dispatch::BackendChoice::kLeastOutstanding;
}

}  // namespace

Router::Router(const FrontSpec& spec, const FleetSpec& fleet)
    : spec_(spec), rule_(rule_of(spec.choice)), reports_(static_cast<std::size_t>(fleet.engines)) {
  for (int i = 0; i < fleet.engines; ++i) {
    dispatch::BackendLoad load;
    load.slots = fleet.engine.max_num_seqs;
    load.identity = static_cast<std::uint64_t>(i) + 1;
    slots_ += load.slots;
    loads_.push_back(load);
  }
}

std::size_t Router::pick(const Live& live, MonoTime now) {
  if (reads_reports()) {
    note_age(now);
    return pick_by_reports();
  }
  const dispatch::BackendRule rule(rule_, live.prefix, 1, {outstanding_, slots_});
  const auto best =
      std::min_element(loads_.begin(), loads_.end(),
                       [&rule](const auto& a, const auto& b) { return rule.better(a, b); });
  return static_cast<std::size_t>(best - loads_.begin());
}

void Router::note_age(MonoTime now) {
  const auto oldest =
      std::min_element(reports_.begin(), reports_.end(),
                       [](const Report& a, const Report& b) { return a.at < b.at; });
  const Duration age = now - oldest->at;
  ++picks_by_reports_;
  report_ages_s_ += to_seconds(age);
  oldest_report_ = std::max(oldest_report_, age);
}

std::optional<double> Router::mean_report_age_s() const {
  if (picks_by_reports_ == 0) return std::nullopt;
  return report_ages_s_ / static_cast<double>(picks_by_reports_);
}

std::optional<double> Router::max_report_age_s() const {
  if (picks_by_reports_ == 0) return std::nullopt;
  return to_seconds(oldest_report_);
}

std::size_t Router::pick_by_reports() const {
  const auto requests = [this](std::size_t i) {
    return spec_.corrected_reports ? std::max(reports_[i].requests, loads_[i].running)
                                   : reports_[i].requests;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < loads_.size(); ++i) {
    const std::int64_t mine = requests(i);
    const std::int64_t least = requests(best);
    if (mine < least || (mine == least && reports_[i].kv_share < reports_[best].kv_share)) best = i;
  }
  return best;
}

void Router::sent(std::size_t engine, Live& live) {
  dispatch::BackendLoad& load = loads_[engine];
  live.record.engine = static_cast<int>(engine);
  live.work =
      rule_ == dispatch::BackendChoice::kLeastWork ? dispatch::expected_work(job_of(live)) : 0;
  load.work += live.work;
  load.last_sent = ++sent_;
  ++load.running;
  ++outstanding_;
}

void Router::law_arrived(Live& live) {
  if (rule_ != dispatch::BackendChoice::kLeastWork || live.record.engine < 0) return;
  const std::int64_t work = dispatch::expected_work(job_of(live));
  loads_[static_cast<std::size_t>(live.record.engine)].work += work - live.work;
  live.work = work;
}

void Router::ended(const Live& live) {
  dispatch::BackendLoad& load = loads_[static_cast<std::size_t>(live.record.engine)];
  load.work -= live.work;
  --load.running;
  --outstanding_;
}

void Router::report(const std::vector<std::unique_ptr<Server>>& servers, MonoTime now) {
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (static_cast<int>(i) == spec_.frozen_engine) continue;
    reports_[i] = {now, servers[i]->outstanding(), servers[i]->kv_share(now)};
  }
}

}  // namespace tailrace::simulate
