// How does the likelihood of one observed length move with the law's location and scale?
//
// Everything is said in z = (y − mu)/sigma with y the log of the observed length, for the one shape
// that the predictors learn (nu = 3.5, TIE Eq. 1). A complete observation has the density's
// derivatives, a censored one those of the survival function. Pure functions.
#pragma once

namespace tailrace::predict {

inline constexpr double kNu = 3.5;
/// What one complete observation tells on average, per unit of sigma (Fisher information of a t).
inline constexpr double kLocationInformation = (kNu + 1) / (kNu + 3);
inline constexpr double kLogScaleInformation = 2 * kNu / (kNu + 3);

/// P(T > z).
double survival_t(double z);
/// ln of the density of T at z.
double log_density_t(double z);
/// The z that T stays below with probability p, 0 < p < 1.
double quantile_t(double p);

struct Score {
  double location = 0;   ///< d lnL / d mu, in units of 1/sigma
  double log_scale = 0;  ///< d lnL / d ln sigma
  double curvature = 0;  ///< −d² lnL / d mu², in units of 1/sigma²; kept positive
};

Score complete_score(double z);
Score censored_score(double z);
inline Score score(double z, bool censored) {
  return censored ? censored_score(z) : complete_score(z);
}

/// ln of the likelihood of one observation of y = ln length: density of y, or survival when
/// censored.
double log_likelihood(double z, double sigma, bool censored);

/// A length as the log-scale point that learning uses. Whole tokens are a continuous length rounded
/// up, so the middle of the unit is taken; lengths below one token count as one.
double log_length(double tokens);

}  // namespace tailrace::predict
