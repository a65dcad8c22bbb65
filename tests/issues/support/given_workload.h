// Requests that a test has written down.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {

class GivenWorkload final : public Workload {
 public:
  explicit GivenWorkload(std::vector<Request> requests) : requests_(std::move(requests)) {}
  Result<bool> next(Request& out) override {
    if (at_ == requests_.size()) return false;
    out = requests_[at_++];
    return true;
  }

 private:
  std::vector<Request> requests_;
  std::size_t at_ = 0;
};

inline Request request(std::uint64_t id, double arrival_s, std::int64_t prompt,
                       std::int64_t output) {
  Request r;
  r.id = id;
  r.arrival = MonoTime{from_seconds(arrival_s)};
  r.prompt = Tokens(prompt);
  r.output = Tokens(output);
  r.cap = Tokens(output);
  return r;
}

/// All records, in the order in which requests ended.
inline std::vector<RequestRecord> records_of(const RunSpec& spec, std::vector<Request> requests,
                                             RunTotals* totals = nullptr) {
  GivenWorkload workload(std::move(requests));
  std::vector<RequestRecord> records;
  const auto run_totals =
      run(spec, workload, [&](const RequestRecord& record) { records.push_back(record); });
  if (!run_totals) {
    ADD_FAILURE() << run_totals.error().message;
    return {};
  }
  if (totals != nullptr) *totals = *run_totals;
  return records;
}

}  // namespace tailrace::simulate
