// Runs of every kind, checked against what no run may break.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

using testing::Ran;
using testing::VariedRun;

MonoTime end_of(const RequestRecord& r, const Ran& ran) {
  return r.end == End::kRefused ? r.arrival : r.finished.value_or(ran.totals.end);
}

void check_every_request_ends_once(const VariedRun& run, const Ran& ran) {
  const RunTotals& t = ran.totals;
  RC_ASSERT(t.offered == t.completed + t.refused + t.unfinished);
  RC_ASSERT(ran.records.size() == t.offered);
  if (!run.spec.horizon_s) {
    RC_ASSERT(t.offered == run.requests.size());
    RC_ASSERT(t.unfinished == 0u);
  }
  std::set<std::uint64_t> seen;
  std::map<End, std::uint64_t> ends;
  for (const RequestRecord& r : ran.records) {
    RC_ASSERT(seen.insert(r.id).second);
    ++ends[r.end];
  }
  RC_ASSERT(ends[End::kCompleted] == t.completed);
  RC_ASSERT(ends[End::kRefused] == t.refused);
}

void check_time_only_goes_on(const Ran& ran) {
  MonoTime last;
  std::uint64_t last_left = 0;
  for (const RequestRecord& r : ran.records) {
    if (r.end == End::kUnfinished) {
      RC_ASSERT(r.id >= last_left);
      last_left = r.id;
    }
    const bool ended = r.end == End::kCompleted;
    RC_ASSERT(r.finished.has_value() == ended);
    if (ended) {
      RC_ASSERT(r.dispatched && r.admitted && r.first_token);
      RC_ASSERT(*r.finished >= last);
      last = *r.finished;
    }
    if (r.dispatched) RC_ASSERT(*r.dispatched >= r.arrival);
    if (r.admitted) RC_ASSERT(r.dispatched && *r.admitted >= *r.dispatched);
    if (r.first_token) RC_ASSERT(r.admitted && *r.first_token > *r.admitted);
    if (r.finished) RC_ASSERT(*r.finished >= *r.first_token);
    RC_ASSERT((r.engine >= 0) == r.dispatched.has_value());
    RC_ASSERT(end_of(r, ran) <= ran.totals.end);
  }
}

/// The averages come from stays in lines and batches; the records know only beginnings and ends.
void check_littles_law(const Ran& ran) {
  double in_system = 0;
  std::uint64_t preemptions = 0;
  for (const RequestRecord& r : ran.records) {
    in_system += to_seconds(end_of(r, ran) - r.arrival);
    preemptions += static_cast<std::uint64_t>(r.preemptions);
  }
  RC_ASSERT(preemptions == ran.totals.preemptions);
  const double length = to_seconds(ran.totals.end);
  const double mean = ran.totals.mean_waiting + ran.totals.mean_running;
  RC_ASSERT(std::abs(mean * length - in_system) <= 1e-6 * (1 + in_system));
}

/// An engine computes whenever somebody is with it: no engine idles while one waits there.
void check_engines_conserve_work(const VariedRun& run, const Ran& ran) {
  double with_somebody = 0;
  for (int engine = 0; engine < run.spec.fleet.engines; ++engine) {
    std::vector<std::pair<MonoTime, MonoTime>> stays;
    for (const RequestRecord& r : ran.records) {
      if (r.engine == engine) stays.emplace_back(*r.dispatched, end_of(r, ran));
    }
    std::sort(stays.begin(), stays.end());
    MonoTime covered;
    for (const auto& [from, to] : stays) {
      with_somebody += to_seconds(std::max(covered, to) - std::max(covered, from));
      covered = std::max(covered, to);
    }
  }
  RC_ASSERT(std::abs(ran.totals.busy_s - with_somebody) <= 1e-6);
  const double length = to_seconds(ran.totals.end) * run.spec.fleet.engines;
  RC_ASSERT(ran.totals.mean_kv_share >= 0 && ran.totals.mean_kv_share <= 1);
  RC_ASSERT(ran.totals.mean_kv_share * length <= ran.totals.busy_s + 1e-6);
}

/// While one waits in front, every engine holds as many as it has slots for.
void check_dispatcher_conserves_work(const VariedRun& run, const Ran& ran) {
  if (!run.spec.front.queue) return;
  const std::int64_t slots = run.spec.front.slots_per_engine > 0
                                 ? run.spec.front.slots_per_engine
                                 : run.spec.fleet.engine.max_num_seqs;
  // At one instant everybody has moved on before anything is judged.
  std::map<MonoTime, std::pair<std::int64_t, std::int64_t>> changes;  // waiting, held
  for (const RequestRecord& r : ran.records) {
    if (r.end == End::kRefused) continue;
    changes[r.arrival].first += 1;
    if (!r.dispatched) continue;
    changes[*r.dispatched].first -= 1;
    changes[*r.dispatched].second += 1;
    if (r.finished) changes[*r.finished].second -= 1;
  }
  std::int64_t waiting = 0;
  std::int64_t held = 0;
  for (const auto& [at, change] : changes) {
    waiting += change.first;
    held += change.second;
    if (run.spec.horizon_s && at == ran.totals.end) break;
    RC_ASSERT(waiting >= 0);
    RC_ASSERT(held <= slots * run.spec.fleet.engines);
    RC_ASSERT(waiting == 0 || held == slots * run.spec.fleet.engines);
  }
}

RC_GTEST_PROP(SimulationProperty, EveryRunConservesRequestsTimeAndWork, ()) {
  const VariedRun run = testing::varied_run(*rc::gen::arbitrary<std::uint64_t>());
  const Ran ran = testing::run_given(run.spec, run.requests);
  check_every_request_ends_once(run, ran);
  check_time_only_goes_on(ran);
  check_littles_law(ran);
  check_engines_conserve_work(run, ran);
  check_dispatcher_conserves_work(run, ran);
}

}  // namespace
}  // namespace tailrace::simulate
