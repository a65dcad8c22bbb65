// How sure is a mean over a few independent repetitions, and a ratio of two that were paired?
//
// Repetitions are runs of the same thing under different seeds: independent, few, and near enough
// to normal for Student's t.
#pragma once

#include <optional>
#include <span>

#include "tailrace/report/summary.h"

namespace tailrace::report {

/// The mean and its two-sided interval by Student's t. One value: an interval without ends (NaN).
/// Nothing if `values` is empty or holds what is not finite.
std::optional<Interval> mean_of_replicates(std::span<const double> values, double level = 0.95);

/// The geometric mean of a[i] / b[i], by Student's t on the logarithms: what differs between seeds
/// cancels out. One pair: no ends (NaN). Nothing if the sizes differ, there are none, or a value is
/// not positive.
std::optional<Interval> ratio_of_replicates(std::span<const double> a, std::span<const double> b,
                                            double level = 0.95);

}  // namespace tailrace::report
