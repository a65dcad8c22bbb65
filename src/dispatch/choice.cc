#include "dispatch/choice.h"

#include <algorithm>

namespace tailrace::dispatch {
namespace {

bool more_free(const Backend& a, const Backend& b) {
  if (a.free_slots() != b.free_slots()) return a.free_slots() > b.free_slots();
  return a.spec.name < b.spec.name;
}

bool avoids(const LiveJob& job, const Backend& backend) {
  return std::find(job.avoid.begin(), job.avoid.end(), backend.spec.name) != job.avoid.end();
}

/// What a pool's backends offer to one job.
struct Offer {
  Backend* best = nullptr;        // has room now: the one that suits the job best
  Backend* reservable = nullptr;  // could hold the job later: the one with the most free slots
  bool large_enough = false;      // some usable backend, reserved or not, could ever hold it
};

class Round {
 public:
  Round(const Pool& pool, BackendChoice choice, std::uint64_t number, MonoTime now)
      : pool_(pool), choice_(choice), number_(number), now_(now) {
    for (const Backend* backend : pool.backends) {
      if (!backend->usable(now)) continue;
      load_.running += backend->running;
      load_.slots += backend->spec.slots;
    }
  }

  bool has_room() const {
    return std::any_of(pool_.backends.begin(), pool_.backends.end(), [this](const Backend* b) {
      return b->free_slots() > 0 && !reserved(*b) && b->usable(now_);
    });
  }

  Offer offer_to(const schedule::Job& job, const LiveJob& live, bool overdue) const {
    const Offer elsewhere = survey(job, [&](const Backend& b) { return !avoids(live, b); });
    const bool may_return = overdue || !elsewhere.large_enough;
    if (live.avoid.empty() || elsewhere.best != nullptr || !may_return) return elsewhere;
    return survey(job, [](const Backend&) { return true; });
  }

  void reserve(Backend& backend) const { backend.reserved_in = number_; }

 private:
  bool reserved(const Backend& backend) const { return backend.reserved_in == number_; }

  template <class Allowed>
  Offer survey(const schedule::Job& job, Allowed allowed) const {
    Offer offer;
    const BackendRule rule(choice_, job.prefix, job.slots, load_);
    for (Backend* backend : pool_.backends) {
      if (backend->spec.slots < job.slots || !backend->usable(now_) || !allowed(*backend)) continue;
      offer.large_enough = true;
      if (reserved(*backend)) continue;
      if (backend->free_slots() >= job.slots) {
        // Backends come by name, which settles ties.
        const bool better =
            offer.best == nullptr || rule.better(backend->load(), offer.best->load());
        if (better) offer.best = backend;
      } else if (offer.reservable == nullptr || more_free(*backend, *offer.reservable)) {
        offer.reservable = backend;
      }
    }
    return offer;
  }

  const Pool& pool_;
  PoolLoad load_;
  BackendChoice choice_;
  std::uint64_t number_;
  MonoTime now_;
};

}  // namespace

std::optional<Choice> choose(Pool& pool, BackendChoice rule, std::uint64_t round_number,
                             MonoTime now, const std::function<const LiveJob&(JobId)>& live_job) {
  const Round round(pool, rule, round_number, now);
  if (pool.queue.empty() || !round.has_room()) return std::nullopt;

  std::optional<Choice> choice;
  pool.queue.walk(now, pool.queue.size(), [&](const schedule::Job& job, bool overdue) {
    const Offer offer = round.offer_to(job, live_job(job.id), overdue);
    if (offer.best != nullptr) {
      choice = Choice{&job, offer.best, overdue};
      return true;
    }
    if (!offer.large_enough) return false;
    if (offer.reservable != nullptr) round.reserve(*offer.reservable);
    return overdue || !round.has_room();
  });
  return choice;
}

}  // namespace tailrace::dispatch
