// What does each closed-form family answer?
//
// One overload set per question and family, for tokens > 0, 0 < p < 1 and cap > 0. LengthLaw
// dispatches here; nothing else includes it.
#pragma once

#include "tailrace/length/length_law.h"

namespace tailrace::length {

double survival_of(const LogT& law, double tokens);
double survival_of(const LogNormal& law, double tokens);
double survival_of(const Gamma& law, double tokens);
double survival_of(const Weibull& law, double tokens);
double survival_of(const Exponential& law, double tokens);
double survival_of(const Lomax& law, double tokens);

double density_of(const LogT& law, double tokens);
double density_of(const LogNormal& law, double tokens);
double density_of(const Gamma& law, double tokens);
double density_of(const Weibull& law, double tokens);
double density_of(const Exponential& law, double tokens);
double density_of(const Lomax& law, double tokens);

double quantile_of(const LogT& law, double p);
double quantile_of(const LogNormal& law, double p);
double quantile_of(const Gamma& law, double p);
double quantile_of(const Weibull& law, double p);
double quantile_of(const Exponential& law, double p);
double quantile_of(const Lomax& law, double p);

/// E[min(X, cap)].
double capped_mean_of(const LogT& law, double cap);
double capped_mean_of(const LogNormal& law, double cap);
double capped_mean_of(const Gamma& law, double cap);
double capped_mean_of(const Weibull& law, double cap);
double capped_mean_of(const Exponential& law, double cap);
double capped_mean_of(const Lomax& law, double cap);

}  // namespace tailrace::length
