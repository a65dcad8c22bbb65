// How do the fitted laws look over one prompt's histogram?
#pragma once

#include "tailrace/evaluate/fit_run.h"
#include "tailrace/report/figure.h"

namespace tailrace::evaluate {

/// Bars are the share of answers in each bin, curves the share that each law gives a bin of that
/// width; dots at the cap what it gives the cut ones. Lengths are drawn on a logarithmic axis where
/// the longest is more than 10 times the shortest.
report::Figure fit_figure(const PromptFit& prompt);

}  // namespace tailrace::evaluate
