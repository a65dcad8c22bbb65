#include "tailrace/schedule/starvation.h"

namespace tailrace::schedule {

void IdleCounter::set_due(JobId id, State& state, std::int64_t due) {
  if (state.due != kNever) by_due_.erase({state.due, id});
  state.due = due;
  if (due != kNever) by_due_.emplace(due, id);
}

IdleCounter::State& IdleCounter::settled(JobId id, std::int64_t iteration) {
  State& state = states_.try_emplace(id, State{.since = iteration}).first->second;
  const std::int64_t elapsed = iteration - state.since;
  if (state.running && state.promoted) state.left -= elapsed;
  if (!state.running && !state.promoted) state.idle += elapsed;
  state.since = iteration;
  return state;
}

void IdleCounter::waits(JobId id, std::int64_t iteration) {
  State& state = settled(id, iteration);
  state.running = false;
  set_due(id, state, state.promoted ? kNever : iteration + rule_.idle_iterations - state.idle);
}

void IdleCounter::runs(JobId id, std::int64_t iteration) {
  State& state = settled(id, iteration);
  state.running = true;
  set_due(id, state, state.promoted ? iteration + state.left : kNever);
}

void IdleCounter::ended(JobId id) {
  const auto found = states_.find(id);
  if (found == states_.end()) return;
  set_due(id, found->second, kNever);
  states_.erase(found);
}

IdleCounter::Changes IdleCounter::advance(std::int64_t iteration) {
  Changes changes;
  while (!by_due_.empty() && by_due_.begin()->first <= iteration) {
    const JobId id = by_due_.begin()->second;
    State& state = states_.at(id);
    set_due(id, state, kNever);
    state.promoted = !state.running;
    state.idle = 0;
    state.left = rule_.run_iterations;
    (state.promoted ? changes.promoted : changes.demoted).push_back(id);
  }
  return changes;
}

bool IdleCounter::promoted(JobId id) const {
  const auto found = states_.find(id);
  return found != states_.end() && found->second.promoted;
}

}  // namespace tailrace::schedule
