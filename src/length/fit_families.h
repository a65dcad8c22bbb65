// How is each family fitted, once the sample is prepared?
//
// One function per family for samples that have lengths below the cap; fit.cc settles the rest and
// nothing else includes this.
#pragma once

#include "length/likelihood.h"

namespace tailrace::length {

/// Completes a fit: the law, how many parameters, and the criteria from the log-likelihood in
/// tokens. A law out of the range of LengthLaw is no maximum that can be used, and said so.
FamilyFit fitted(Family family, const Result<LengthLaw>& law, int parameters, double loglik,
                 double n);
FamilyFit without_maximum(Family family, std::string why);

FamilyFit fit_log_t(const PreparedSample& sample, const FitOptions& options);
FamilyFit fit_log_normal(const PreparedSample& sample);
FamilyFit fit_gamma(const PreparedSample& sample);
FamilyFit fit_weibull(const PreparedSample& sample);
FamilyFit fit_exponential(const PreparedSample& sample);
FamilyFit fit_lomax(const PreparedSample& sample);
FamilyFit fit_mixture(const PreparedSample& sample, const FitOptions& options);

/// "16 of 20 lengths are 2048 tokens": how a message begins that blames a tie.
std::string commonest_in_words(const PreparedSample& sample);

}  // namespace tailrace::length
