#include "tailrace/autoscaler/collector.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tailrace::autoscaler {
namespace {

std::vector<observe::EngineKind> engines_of(const std::vector<KnownVariant>& variants) {
  std::set<observe::EngineKind> kinds;
  for (const auto& variant : variants) kinds.insert(variant.engine);
  return {kinds.begin(), kinds.end()};
}

}  // namespace

struct SnapshotCollector::Impl : std::enable_shared_from_this<SnapshotCollector::Impl> {
  Impl(Roster& r, observe::Source& s, const observe::ObserverConfig& c)
      : roster(r), source(s), config(c), observer(c) {}

  Roster& roster;
  observe::Source& source;
  observe::ObserverConfig config;
  observe::Observer observer;
  bool gone = false;

  void looked(double now_s, Known known, UniqueFunction<void(Snapshot)> done);
  Snapshot join(double now_s, Known known, const observe::Fetched& fetched);
};

SnapshotCollector::SnapshotCollector(Roster& roster, observe::Source& source,
                                     const observe::ObserverConfig& config)
    : impl_(std::make_shared<Impl>(roster, source, config)) {}

SnapshotCollector::~SnapshotCollector() {
  impl_->gone = true;
}

void SnapshotCollector::collect(double now_s, UniqueFunction<void(Snapshot)> done) {
  impl_->roster.look(now_s, [self = impl_, now_s, done = std::move(done)](Known known) mutable {
    if (!self->gone) self->looked(now_s, std::move(known), std::move(done));
  });
}

void SnapshotCollector::Impl::looked(double now_s, Known known,
                                     UniqueFunction<void(Snapshot)> done) {
  if (known.blind) {
    // Nothing is read in vain, but what is remembered gets older.
    return done(join(now_s, std::move(known), {}));
  }
  observe::Wanted wanted;
  wanted.names = observe::Observer::names_of(engines_of(known.variants));
  // A rate needs a point from before the window too.
  wanted.window_s = 2 * config.window_s;
  wanted.targets = known.targets;
  source.fetch(now_s, wanted,
               [self = shared_from_this(), now_s, known = std::move(known),
                done = std::move(done)](const observe::Fetched& fetched) mutable {
                 if (self->gone) return;
                 done(self->join(now_s, std::move(known), fetched));
               });
}

Snapshot SnapshotCollector::Impl::join(double now_s, Known known, const observe::Fetched& fetched) {
  Snapshot out;
  out.time_s = now_s;
  out.blind = std::move(known.blind);
  out.conditions = std::move(known.conditions);
  out.gpus = std::move(known.gpus);
  if (out.blind) return out;
  const auto expected = expected_variants(known.variants);
  auto reading = observer.read(now_s, fetched, expected);
  std::move(reading.conditions.begin(), reading.conditions.end(),
            std::back_inserter(out.conditions));
  out.models = model_states(reading, known.variants);
  out.kv = kv_use(reading, known.variants);
  out.unmatched_pods = std::move(reading.unmatched);
  return out;
}

observe::ObserverConfig observer_config(const Config& config) {
  observe::ObserverConfig out;
  out.window_s = to_seconds(config.window);
  out.fresh_s = to_seconds(config.stale_after);
  out.unavailable_s = to_seconds(config.unavailable_after);
  out.grace_s = out.fresh_s;
  return out;
}

}  // namespace tailrace::autoscaler
