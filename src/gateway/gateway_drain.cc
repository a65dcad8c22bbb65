// The graceful end: first unready, then closed to new work, then empty.
#include <utility>

#include "gateway/gateway_impl.h"
#include "tailrace/core/log.h"

namespace tailrace::gateway {
namespace {

constexpr Duration kWatchInterval = std::chrono::milliseconds(5);
/// For the last bytes of cut answers to leave.
constexpr Duration kFarewell = std::chrono::milliseconds(500);

}  // namespace

void Gateway::Impl::begin_drain(UniqueFunction<void(bool)> done) {
  if (leaving) return;
  leaving = true;
  drained = std::move(done);
  log::info("drain_begins", {{"active", static_cast<std::uint64_t>(active())},
                             {"limit_ms", to_millis(config.drain.limit)},
                             {"notice_ms", to_millis(config.drain.notice)}});
  // During the notice load balancers see "not ready" while nothing is refused yet.
  if (config.drain.notice > Duration::zero()) {
    notice_timer = loop.after(config.drain.notice, [this] { refuse_new_work(); });
  } else {
    refuse_new_work();
  }
}

void Gateway::Impl::refuse_new_work() {
  context->draining = true;
  dispatcher.drain();
  public_server->close_when_idle();
  limit_timer = loop.after(config.drain.limit, [this] { drain_limit_reached(); });
  watch_drain();
}

void Gateway::Impl::watch_drain() {
  // The last bytes may still be on their way to a client when the last request has ended.
  drain_watch = loop.after(active() == 0 ? Duration::zero() : kWatchInterval, [this] {
    if (active() > 0 || public_server->exchanges() > 0) {
      drain_watch = loop.after(kWatchInterval, [this] { watch_drain(); });
      return;
    }
    limit_timer.reset();
    log::info("drain_ends", {{"cut", cut_any}});
    if (drained) std::exchange(drained, nullptr)(!cut_any);
  });
}

/// Everyone is told, in whatever state: a stream by an error event, the others by 503.
void Gateway::Impl::cut_everything() {
  cut_any = active() > 0 || cut_any;
  context->draining = true;
  pumping = true;                    // slots that become free now are for nobody
  const auto generation = requests;  // each ends itself and leaves the map
  for (const auto& [id, request] : generation) request->shut_down();
  const auto others = passthroughs;
  for (const auto& [id, request] : others) request->shut_down();
  pumping = false;
}

void Gateway::Impl::drain_limit_reached() {
  log::warn("drain_limit", {{"cut_requests", static_cast<std::uint64_t>(active())}});
  cut_everything();
  limit_timer = loop.after(kFarewell, [this] {
    drain_watch.reset();
    if (drained) std::exchange(drained, nullptr)(!cut_any);
  });
}

}  // namespace tailrace::gateway
