#include "simulate/live_table.h"

#include <algorithm>

namespace tailrace::simulate {

schedule::Job job_of(const Live& live) {
  const Request& request = live.request;
  schedule::Job job;
  job.id = JobId(live.key);
  job.arrival = request.arrival;
  job.tenant = request.tenant;
  job.prompt_tokens = request.prompt;
  job.cap = request.cap;
  if (live.law_known) job.law = live.law;
  job.deadline = request.deadline;
  job.weight = request.weight;
  job.priority = request.priority;
  job.prefix = live.prefix;
  return job;
}

std::vector<std::uint64_t> LiveTable::keys() const {
  std::vector<std::uint64_t> keys;
  keys.reserve(size_);
  for (const Live& live : slots_) {
    if (live.key != 0) keys.push_back(live.key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace tailrace::simulate
