// Which of the backends that could take a job should have it?
//
// Pure rules over what a dispatcher knows for certain: what it sent where, and what has ended
// since. They say which of two backends suits better; who asks goes through the candidates in a
// fixed order and keeps the first best. The gateway's dispatcher and a simulated router share them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tailrace/schedule/job.h"

namespace tailrace::dispatch {

enum class BackendChoice {
  kLeastOutstanding,  ///< the smallest fraction of slots in use
  kRoundRobin,        ///< the one whose last job is longest ago
  kLeastWork,  ///< one with a free slot; the least expected tokens per slot; the least loaded
  kPrefix,     ///< the one that its prompt's beginning names, unless that one holds too much
};

/// "least-outstanding", "round-robin", "least-work", "prefix".
std::vector<std::string_view> backend_choice_names();
std::optional<BackendChoice> find_backend_choice(std::string_view name);

struct BackendLoad {
  std::int64_t running = 0;  ///< slots in use; may exceed `slots` where nothing limits them
  std::int64_t slots = 1;    ///< ≥ 1
  std::int64_t work = 0;     ///< tokens that its jobs were expected to generate when they were sent
  std::uint64_t last_sent = 0;  ///< number of its last assignment among all; 0: none yet
  std::uint64_t identity = 0;   ///< a hash of its name
};

/// Tokens that a job is expected to generate: what its law says under its cap, the cap where it has
/// none; at least 1. Whole, so that sums of comings and goings stay exact.
std::int64_t expected_work(const schedule::Job& job);

/// Sums over a job's candidates, those without room included.
struct PoolLoad {
  std::int64_t running = 0;
  std::int64_t slots = 0;
};

class BackendRule {
 public:
  /// `prefix`: equal where prompts begin alike, 0 where nothing is known; `slots`: the job's own.
  BackendRule(BackendChoice choice, std::uint64_t prefix, int slots, const PoolLoad& pool)
      : choice_(choice), prefix_(prefix), slots_(slots), pool_(pool) {}

  /// `a` suits the job better than `b`; neither does where they tie. A strict weak order.
  bool better(const BackendLoad& a, const BackendLoad& b) const;
  /// kPrefix: it would hold more than an eighth of its slots and more than 1.25 times its share of
  /// what the candidates hold (consistent hashing with bounded loads).
  bool holds_too_much(const BackendLoad& load) const;

 private:
  BackendChoice choice_;
  std::uint64_t prefix_;
  int slots_;
  PoolLoad pool_;
};

}  // namespace tailrace::dispatch
