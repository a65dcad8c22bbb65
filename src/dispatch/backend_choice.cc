#include "tailrace/dispatch/backend_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tailrace::dispatch {
namespace {

constexpr std::array<std::pair<std::string_view, BackendChoice>, 4> kNames{{
    {"least-outstanding", BackendChoice::kLeastOutstanding},
    {"round-robin", BackendChoice::kRoundRobin},
    {"least-work", BackendChoice::kLeastWork},
    {"prefix", BackendChoice::kPrefix},
}};

/// a/b against c/d for positive denominators, without dividing: below 0 where the first is smaller.
int compare_ratios(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  const std::int64_t left = a * d;
  const std::int64_t right = c * b;
  return left < right ? -1 : (left > right ? 1 : 0);
}

bool less_loaded(const BackendLoad& a, const BackendLoad& b) {
  return compare_ratios(a.running, a.slots, b.running, b.slots) < 0;
}

/// However little work a full one has left, it lets a job wait that another would start.
bool less_work(const BackendLoad& a, const BackendLoad& b) {
  const bool a_full = a.running >= a.slots;
  const bool b_full = b.running >= b.slots;
  if (a_full != b_full) return b_full;
  const int order = compare_ratios(a.work, a.slots, b.work, b.slots);
  return order != 0 ? order < 0 : less_loaded(a, b);
}

/// Rendezvous hashing: every prefix ranks the backends in an order of its own, and a backend that
/// comes or goes moves only the prefixes that it wins. SplitMix64's finish.
std::uint64_t affinity(std::uint64_t prefix, std::uint64_t identity) {
  std::uint64_t x = prefix * 0x9E3779B97F4A7C15u + identity;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<std::string_view> backend_choice_names() {
  std::vector<std::string_view> names;
  names.reserve(kNames.size());
  for (const auto& [name, choice] : kNames) names.push_back(name);
  return names;
}

std::optional<BackendChoice> find_backend_choice(std::string_view name) {
  for (const auto& [known, choice] : kNames) {
    if (known == name) return choice;
  }
  return std::nullopt;
}

std::int64_t expected_work(const schedule::Job& job) {
  const auto cap = static_cast<double>(job.cap.count());
  const double tokens = job.law ? job.law->capped_moments_fast(cap).mean : cap;
  return std::max<std::int64_t>(1, std::llround(tokens * job.slots));
}

bool BackendRule::holds_too_much(const BackendLoad& load) const {
  const std::int64_t with_it = load.running + slots_;
  if (8 * with_it <= load.slots) return false;
  // with_it > ceil(1.25 · (all + slots) · its slots / all slots), in integers.
  return 4 * (with_it - 1) * pool_.slots >= 5 * (pool_.running + slots_) * load.slots;
}

bool BackendRule::better(const BackendLoad& a, const BackendLoad& b) const {
  switch (choice_) {
    case BackendChoice::kRoundRobin:
      return a.last_sent < b.last_sent;
    case BackendChoice::kLeastWork:
      return less_work(a, b);
    case BackendChoice::kPrefix: {
      if (prefix_ == 0) break;
      const bool a_full = holds_too_much(a);
      const bool b_full = holds_too_much(b);
      if (a_full != b_full) return b_full;
      if (a_full) break;
      return affinity(prefix_, a.identity) > affinity(prefix_, b.identity);
    }
    case BackendChoice::kLeastOutstanding:
      break;
  }
  return less_loaded(a, b);
}

}  // namespace tailrace::dispatch
