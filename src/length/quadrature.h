// What does a part of a log-t law weigh, as an integral that is the same on every run?
//
// E[min(X, cap)] and CVaR are sums of partial exponential moments of the t law, which have no
// closed form. With z = sinh(v) the polynomial tail becomes an exponential one and Gauss-Legendre
// converges geometrically; panels are halved until none holds more growth than the rule resolves.
#pragma once

#include "tailrace/length/length_law.h"

namespace tailrace::length {

/// The integral of exp(mu + sigma·z)·t_nu(z) over [lo, hi]: tokens carried by that part of the law.
/// `lo` may be −infinity. Requires mu + sigma·hi ≤ ln of the largest double. `negligible` is an
/// absolute weight in tokens below which a panel may be left out.
double partial_moment(const LogT& law, double lo, double hi, double negligible);

/// (ln tokens − mu)/sigma.
double standardise(const LogT& law, double tokens);

/// E[min(X, cap)].
double capped_mean(const LogT& law, double cap);
/// E[min(X, cap) | the worst 1 − level]; the cap where the value at risk reaches it.
double capped_cvar(const LogT& law, double level, double cap);

}  // namespace tailrace::length
