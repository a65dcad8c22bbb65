// How well do the estimators foretell the next cycle of real engines?
#pragma once

#include <cstdio>
#include <string>

#include "tailrace/core/result.h"

namespace tailrace::accuracy {

/// Every recorded cycle of scaled vLLM replicas is foretold before it is learnt from. Prints
/// nothing where the recording under `folder` is absent. Errors: those of reading it.
Result<void> print_cycles(std::FILE* out, const std::string& folder);

}  // namespace tailrace::accuracy
