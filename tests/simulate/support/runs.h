// Requests and runs for tests: varied, from a seed.
#pragma once

#include <string>
#include <vector>

#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate::testing {

/// Requests that are written down, in order of arrival.
class GivenWorkload final : public Workload {
 public:
  explicit GivenWorkload(std::vector<Request> requests) : requests_(std::move(requests)) {}
  Result<bool> next(Request& out) override {
    if (next_ == requests_.size()) return false;
    out = requests_[next_++];
    return true;
  }

 private:
  std::vector<Request> requests_;
  std::size_t next_ = 0;
};

Request request(std::uint64_t id, double arrival_s, std::int64_t prompt, std::int64_t output);

/// A run of everything that a run can vary: engines, lines, fronts, choices, predictions, memory,
/// horizons. Same seed, same run.
struct VariedRun {
  RunSpec spec;
  std::vector<Request> requests;
};
VariedRun varied_run(std::uint64_t seed);

struct Ran {
  RunTotals totals;
  std::vector<RequestRecord> records;
};
/// Fails the test where the run does.
Ran run_given(const RunSpec& spec, std::vector<Request> requests);

/// Every field of every record and total, in order.
std::uint64_t fingerprint(const Ran& ran);
/// "SEED FINGERPRINT" of the varied runs with the seeds from `first` to before `end`.
std::vector<std::string> fingerprints(std::uint64_t first, std::uint64_t end);

}  // namespace tailrace::simulate::testing
