// What does the scheduler know about a request?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/length/length_law.h"

namespace tailrace::schedule {

struct Job {
  JobId id;
  MonoTime arrival;
  std::string model;
  std::string tenant;
  Tokens prompt_tokens{0};  ///< measured or estimated
  Tokens cached_tokens{0};  ///< of the prompt, expected in the engine's prefix cache
  Tokens cap{1};            ///< the answer's own limit, ≥ 1: the smallest of all that apply
  std::optional<length::LengthLaw> law;  ///< unknown until predicted
  Tokens attained{0};                    ///< tokens already generated (running jobs)
  std::optional<MonoTime> deadline;
  double weight = 1;  ///< > 0
  int priority = 0;   ///< higher is more urgent; orders before any policy key
  int slots = 1;      ///< engine sequences it takes (n > 1 samples)
  /// Equal where prompts begin alike, so that one engine's prefix cache serves them; 0: not known.
  std::uint64_t prefix = 0;
};

}  // namespace tailrace::schedule
