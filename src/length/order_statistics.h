// What do the order statistics of a sample say by themselves?
//
// For ascending values, at least one.
#pragma once

#include <span>

namespace tailrace::length {

/// Between order statistics, linearly (type 7, the usual default of statistics software).
double quantile_of_sorted(std::span<const double> ascending, double p);

/// The sum of the largest n/10 values; a tenth that ends inside a value takes its part of it.
double sum_of_top_tenth(std::span<const double> ascending);

}  // namespace tailrace::length
