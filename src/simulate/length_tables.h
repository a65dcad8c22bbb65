// Which lengths has the next request, when they come from tables?
#pragma once

#include <cstdint>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::simulate {

struct Lengths {
  std::int64_t prompt = 1, output = 1;
};

/// Draws pass after pass. `tables` must outlive it.
class LengthPasses {
 public:
  LengthPasses(const LengthTables& tables, const Rng& rng);

  Lengths next();

 private:
  void shuffle();

  const LengthTables& tables_;
  Rng rng_;
  std::vector<Lengths> pass_;
  std::size_t at_ = 0;
};

}  // namespace tailrace::simulate
