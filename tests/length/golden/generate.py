#!/usr/bin/env python3
"""Writes log_t.csv and whole_tokens.csv: reference values at 40 digits, by another road than the product.

Continuous law: E[min(X, cap)] and CVaR from the density, integrated by mpmath's tanh-sinh rule over short
panels in z; survival by the incomplete beta function. Whole tokens: sums over every token count.
Usage: python3 generate.py  (needs mpmath; takes a few minutes)
"""
import csv
import math
import pathlib

from mpmath import mp, mpf, asinh, betainc, exp, findroot, gamma, linspace, log, nstr, pi, quad, sinh, cosh, sqrt

mp.dps = 40
HERE = pathlib.Path(__file__).parent


def density(z, nu):
    return gamma((nu + 1) / 2) / (sqrt(nu * pi) * gamma(nu / 2)) * (1 + z * z / nu) ** (-(nu + 1) / 2)


def survival(z, nu):
    tail = betainc(nu / 2, mpf(1) / 2, 0, nu / (nu + z * z), regularized=True) / 2
    return tail if z >= 0 else 1 - tail


def quantile(p, nu):
    if p == mpf(1) / 2:
        return mpf(0)
    lo, hi = mpf(0), mpf(1)
    while survival(hi, nu) > 1 - p:
        hi *= 2
    return findroot(lambda z: log(survival(z, nu)) - log(1 - p), (lo + mpf("1e-30"), hi), solver="anderson",
                    tol=mpf("1e-60"), maxsteps=500)


def moment(mu, sigma, nu, lo, hi):
    """The integral of exp(mu + sigma z) t(z) over [lo, hi], in v = asinh z, in many short panels."""
    a, b = asinh(lo), asinh(hi)
    if b <= a:
        return mpf(0)
    # Steps in v of at most 1/4, and of at most 4 e-folds of exp(sigma z).
    edges = [a]
    while edges[-1] < b:
        v = edges[-1]
        step = min(mpf(1) / 4, 4 / (sigma * cosh(v)))
        nxt = v + step
        nxt = min(nxt, v + 4 / (sigma * cosh(nxt)) if cosh(nxt) * sigma * step > 8 else nxt)
        edges.append(min(b, nxt))
    f = lambda v: exp(mu + sigma * sinh(v)) * density(sinh(v), nu) * cosh(v)
    return sum(quad(f, [x, y], maxdegree=5) for x, y in zip(edges, edges[1:]))


def continuous(mu, sigma, nu, cap, level):
    mu, sigma, nu, cap, level = (mpf(str(x)) for x in (mu, sigma, nu, cap, level))
    z_cap = (log(cap) - mu) / sigma
    z_level = quantile(level, nu)
    by_growth = 90 / sigma - min(z_cap, 0)
    by_mass = mpf(10) ** (30 / nu) * sqrt(nu)
    cut = -min(by_growth, by_mass)
    atom = cap * survival(z_cap, nu)
    split = min(z_cap, z_level)
    body = moment(mu, sigma, nu, cut, min(split, 0))
    if split > 0:
        body += moment(mu, sigma, nu, mpf(0), split)
    tail = moment(mu, sigma, nu, z_level, z_cap) if z_cap > z_level else mpf(0)
    mean = body + tail + atom
    var = min(exp(mu + sigma * z_level), cap)
    cvar = (tail + atom) / (1 - level) if var < cap else cap
    return survival(z_cap, nu), mean, var, cvar


def whole_tokens(mu, sigma, nu, cap, age, quantum):
    mp.dps = 25
    mu, sigma, nu = (mpf(str(x)) for x in (mu, sigma, nu))
    s = [mpf(1)] + [survival((log(k) - mu) / sigma, nu) for k in range(1, cap)] + [mpf(0)]
    residual = sum(s[age:cap]) / s[age]
    inverse = sum((s[k - 1] - s[k]) / k for k in range(1, cap + 1))
    best, served = None, mpf(0)
    for b in range(age + 1, cap + 1):
        served += s[b - 1]
        if (b < age + quantum and b < cap) or s[age] == s[b]:
            continue
        rank = served / (s[age] - s[b])
        best = rank if best is None or rank < best else best
    mp.dps = 40
    return residual, inverse, best


CONTINUOUS = [(mu, sigma, 3.5, cap, 0.9)
              for mu in (0, 3.7, 6.2, 9) for sigma in (0.01, 0.103, 0.75, 2.5) for cap in (16, 2048, 131072)]
CONTINUOUS += [(4.6, 0.75, 3.5, 2048, level) for level in (0.5, 0.8, 0.95, 0.99, 0.999)]
CONTINUOUS += [(4.6, 0.75, nu, 4096, 0.9) for nu in (0.5, 1, 2, 7.3, 30, 200)]
CONTINUOUS += [
    (600, 0.5, 3.5, 1000, 0.9), (-600, 0.5, 3.5, 1000, 0.9), (-600, 50, 3.5, 1e9, 0.9), (600, 50, 3.5, 1, 0.9),
    (5, 50, 3.5, 1e9, 0.9), (5, 0.001, 3.5, 1e9, 0.9), (20, 0.001, 3.5, 1e9, 0.9), (-30, 1.5, 3.5, 1e9, 0.9),
    (0, 0.3, 3.5, 1, 0.9), (3, 5, 3.5, 1e6, 0.99), (8, 0.001, 1, 2048, 0.9), (-100, 0.5, 50, 1e9, 0.9),
]
WHOLE = [(4.6, 0.75, 3.5, 2048, age, q) for age in (0, 1, 100, 2000) for q in (1, 16)]
WHOLE += [(0.5, 0.5, 3.5, 64, 0, 1), (2, 0.01, 3.5, 100, 0, 16), (6, 2.5, 3.5, 3000, 10, 16),
          (9, 0.3, 3.5, 4000, 500, 16), (5, 0.05, 10, 1000, 150, 4), (4, 1, 3.5, 8, 0, 16), (3, 0.7, 3.5, 1, 0, 1)]


def main():
    with open(HERE / "log_t.csv", "w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow("mu sigma nu cap level p_cap mean var cvar".split())
        for row in CONTINUOUS:
            rows.writerow(list(row) + [nstr(x, 17) for x in continuous(*row)])
            out.flush()
    with open(HERE / "whole_tokens.csv", "w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow("mu sigma nu cap age quantum mean_residual mean_inverse gittins_rank".split())
        for row in WHOLE:
            rows.writerow(list(row) + [nstr(x, 17) for x in whole_tokens(*row)])
            out.flush()


if __name__ == "__main__":
    main()
