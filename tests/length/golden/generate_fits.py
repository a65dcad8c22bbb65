#!/usr/bin/env python3
"""Writes fits.json: maximum likelihood fits by another road than the product.

scipy searches from many starts with its generic log-density and log-survival; mpmath polishes the
best of them by Newton's method with differences at 50 digits. Lengths are whole tokens; those equal
to the cap are censored. Usage: python3 generate_fits.py  (needs numpy, scipy, mpmath; some minutes)
"""
import json
import pathlib

import mpmath
import numpy as np
from mpmath import mp, mpf
from scipy import optimize, stats

mp.dps = 50
HERE = pathlib.Path(__file__).parent
NU = 3.5


def samples():
    rng = np.random.default_rng(20260403)
    drawn = {
        "gamma-2": rng.gamma(2, 80, 25),
        "gamma-half": rng.gamma(0.5, 300, 30),
        "weibull-0.7": 150 * rng.weibull(0.7, 25),
        "weibull-3": 200 * rng.weibull(3, 25),
        "lomax-1.5": 100 * rng.pareto(1.5, 40),
        "exponential": rng.exponential(120, 25),
        "log-t": np.exp(5 + 0.6 * rng.standard_t(3.5, 25)),
        "log-normal": np.exp(5 + 0.8 * rng.standard_normal(25)),
        "tight": np.exp(6 + 0.02 * rng.standard_normal(20)),
    }
    for name, lengths in drawn.items():
        whole = [float(x) for x in np.maximum(1, np.ceil(lengths))]
        yield name, whole, None
        for share in (0.8, 0.3):
            cap = float(np.ceil(np.quantile(whole, share)))
            yield f"{name}, cut at {share:.0%}", [min(x, cap) for x in whole], cap
    yield "one below the cap", [40.0] + [100.0] * 4, 100.0
    yield "ties and a cap", [10.0] * 5 + [12.0] * 3 + [90.0] + [100.0] * 3, 100.0


# Per family: scipy's law from free coordinates, the same in mpmath as (log-density, log-survival) of
# tokens, and the names of the parameters from the coordinates.
def t_parts(u):
    mu, sigma = u[0], mpmath.exp(u[1])
    nu = mpf(NU)
    peak = mpmath.loggamma((nu + 1) / 2) - mpmath.loggamma(nu / 2) - mpmath.log(nu * mp.pi) / 2

    def pdf(x):
        z = (mpmath.log(x) - mu) / sigma
        return peak - (nu + 1) / 2 * mpmath.log(1 + z * z / nu) - mpmath.log(sigma * x)

    def sf(x):
        z = (mpmath.log(x) - mu) / sigma
        tail = mpmath.betainc(nu / 2, mpf(1) / 2, 0, nu / (nu + z * z), regularized=True) / 2
        return mpmath.log(tail if z >= 0 else 1 - tail)

    return pdf, sf


def normal_parts(u):
    mu, sigma = u[0], mpmath.exp(u[1])

    def pdf(x):
        z = (mpmath.log(x) - mu) / sigma
        return -z * z / 2 - mpmath.log(2 * mp.pi) / 2 - mpmath.log(sigma * x)

    return pdf, lambda x: mpmath.log(mpmath.erfc((mpmath.log(x) - mu) / sigma / mpmath.sqrt(2)) / 2)


def gamma_parts(u):
    k, s = mpmath.exp(u[0]), mpmath.exp(u[1] - u[0])  # u[1]: ln of the mean
    return (lambda x: (k - 1) * mpmath.log(x) - x / s - mpmath.loggamma(k) - k * mpmath.log(s),
            lambda x: mpmath.log(mpmath.gammainc(k, x / s, mp.inf, regularized=True)))


def weibull_parts(u):
    k, s = mpmath.exp(u[0]), mpmath.exp(u[1])
    return (lambda x: mpmath.log(k) - mpmath.log(x) + k * mpmath.log(x / s) - (x / s) ** k,
            lambda x: -(x / s) ** k)


def lomax_parts(u):
    k, s = mpmath.exp(u[0]), mpmath.exp(u[1] + u[0])
    return (lambda x: mpmath.log(k / s) - (k + 1) * mpmath.log(1 + x / s),
            lambda x: -k * mpmath.log(1 + x / s))


def exponential_parts(u):
    s = mpmath.exp(u[0])
    return lambda x: -x / s - mpmath.log(s), lambda x: -x / s


class LogScale:
    """A scipy law of ln(tokens), asked in tokens."""

    def __init__(self, law):
        self.law = law

    def logpdf(self, x):
        return self.law.logpdf(np.log(x)) - np.log(x)

    def logsf(self, x):
        return self.law.logsf(np.log(x))


exp = np.exp
FAMILIES = {
    "log-t": (lambda u: LogScale(stats.t(NU, u[0], exp(u[1]))), t_parts, ("mu", "sigma"),
              lambda u: (u[0], mpmath.exp(u[1]))),
    "log-normal": (lambda u: LogScale(stats.norm(u[0], exp(u[1]))), normal_parts, ("mu", "sigma"),
                   lambda u: (u[0], mpmath.exp(u[1]))),
    "gamma": (lambda u: stats.gamma(exp(u[0]), scale=exp(u[1] - u[0])), gamma_parts, ("shape", "scale"),
              lambda u: (mpmath.exp(u[0]), mpmath.exp(u[1] - u[0]))),
    "weibull": (lambda u: stats.weibull_min(exp(u[0]), scale=exp(u[1])), weibull_parts, ("shape", "scale"),
                lambda u: (mpmath.exp(u[0]), mpmath.exp(u[1]))),
    "lomax": (lambda u: stats.lomax(exp(u[0]), scale=exp(u[1] + u[0])), lomax_parts, ("shape", "scale"),
              lambda u: (mpmath.exp(u[0]), mpmath.exp(u[1] + u[0]))),
    "exponential": (lambda u: stats.expon(scale=exp(u[0])), exponential_parts, ("scale",),
                    lambda u: (mpmath.exp(u[0]),)),
}
STARTS = {
    "log-t": [(m, s) for m in (3, 5, 7) for s in (-4, -1, 0.5)],
    "log-normal": [(m, s) for m in (3, 5, 7) for s in (-4, -1, 0.5)],
    "gamma": [(k, m) for k in (-1, 1, 6) for m in (3, 5, 7)],
    "weibull": [(k, m) for k in (-1, 0.5, 4) for m in (3, 5, 7)],
    "lomax": [(k, m) for k in (-1, 1, 4) for m in (3, 5, 7)],
    "exponential": [(m,) for m in (3, 5, 7)],
}
EXPONENTIAL_LIMIT = 9  # ln of a shape so large that a Lomax law is the exponential one


def polish(loglik, u):
    """Newton's method with central differences."""
    h = mpf(10) ** -14
    size = len(u)
    for _ in range(8):
        def moved(*steps):
            v = list(u)
            for i, d in steps:
                v[i] += d
            return loglik(v)
        here = loglik(u)
        slope = mpmath.matrix(size, 1)
        curve = mpmath.matrix(size, size)
        for i in range(size):
            up, down = moved((i, h)), moved((i, -h))
            slope[i] = (up - down) / (2 * h)
            curve[i, i] = (up - 2 * here + down) / h**2
            for j in range(i):
                curve[i, j] = curve[j, i] = (moved((i, h), (j, h)) - moved((i, h), (j, -h)) -
                                             moved((i, -h), (j, h)) + moved((i, -h), (j, -h))) / (4 * h**2)
        step = mpmath.lu_solve(curve, slope)
        u = [u[i] - step[i] for i in range(size)]
        if max(abs(s) for s in step) < mpf(10) ** -24:
            break
    else:
        raise SystemExit("no convergence")
    return u, loglik(u)


def fit(family, lengths, cap):
    law_of, parts, names, parameters = FAMILIES[family]
    whole = np.array([x for x in lengths if x != cap])
    cut = sum(1 for x in lengths if x == cap)

    def negative(u):
        law = law_of(u)
        value = -np.sum(law.logpdf(whole)) - (cut * law.logsf(cap) if cut else 0)
        return value if np.isfinite(value) else 1e300

    best = None
    with np.errstate(all="ignore"):
        for start in STARTS[family]:
            found = optimize.minimize(negative, start, method="Nelder-Mead",
                                      options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 1500})
            if best is None or found.fun < best.fun:
                best = found
    if family == "lomax" and best.x[0] > EXPONENTIAL_LIMIT:
        scale = sum(lengths) / len(whole)  # the limit's own maximum
        return {"at_bound": True, "mean": scale, "loglik": float(-len(whole) * (np.log(scale) + 1))}

    def loglik(u):
        pdf, sf = parts(u)
        return sum(pdf(mpf(x)) for x in whole) + (cut * sf(mpf(cap)) if cut else 0)

    u, value = polish(loglik, [mpf(float(x)) for x in best.x])
    if abs(float(value) + best.fun) > 1e-6:
        raise SystemExit(f"{family}: the polished maximum {value} is not scipy's, {-best.fun}")
    out = {name: float(p) for name, p in zip(names, parameters(u))}
    out["loglik"] = float(value)
    return out


def main():
    rows = []
    for name, lengths, cap in samples():
        row = {"id": name, "lengths": lengths}
        if cap is not None:
            row["cap"] = cap
        row["fits"] = {family: fit(family, lengths, cap) for family in FAMILIES}
        rows.append(row)
        print(name, len(lengths), row["fits"])
    text = ",\n".join(json.dumps(row) for row in rows)
    (HERE / "fits.json").write_text(f"[\n{text}\n]\n")


main()
