// Which other engines would have answered just the same?
#pragma once

#include <cstdio>
#include <span>

#include "capacity/learning_runs.h"

namespace tailrace::accuracy {

/// What one load leaves open: for each server, engines of another gamma with the very same mean
/// TTFT and ITL at that load, and how far their lambda* is from its.
void print_twins(std::FILE* out, std::span<const Subject> subjects);

}  // namespace tailrace::accuracy
