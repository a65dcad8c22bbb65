#!/usr/bin/env python3
"""Writes kolmogorov.csv and goodness.csv: distances and p-values by other roads than the product.

kolmogorov.csv: P(D_n >= d) from scipy's kstwo (Pomeranz, Durbin, Pelz and Good, or the one-sided sum, as it
selects). goodness.csv: D by scipy's kstest, A^2 by mpmath's quadrature of its definition, complete and censored, for
samples that the test reproduces from the quantile levels written here.
Usage: python3 generate_goodness.py  (needs scipy and mpmath; takes seconds)
"""
import csv
import math
import pathlib

from mpmath import mp, mpf, quad
from scipy import stats

mp.dps = 25
HERE = pathlib.Path(__file__).parent


def kolmogorov():
    rows = []
    for n in (1, 2, 3, 5, 8, 10, 15, 20, 50, 100, 140, 141, 256, 500, 1000, 1001, 3000, 20000):
        for x in (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.36, 1.63, 1.9, 1.99, 2.01, 2.5, 3.0, 4.0):
            d = x / math.sqrt(n)
            if d < 1:
                rows.append([n, repr(d), repr(float(stats.kstwo.sf(d, n)))])
    return rows


def a_squared(levels, n, end):
    """n * integral of (F_n - u)^2 / (u (1 - u)) over u in (0, end), between the given levels."""
    total = mpf(0)
    edges = [mpf(0)] + [mpf(u) for u in levels] + [mpf(end)]
    for i, (a, b) in enumerate(zip(edges, edges[1:])):
        step = mpf(i) / n
        total += quad(lambda u: (step - u) ** 2 / (u * (1 - u)), [a, b])
    return n * total


def goodness():
    """Lengths are the law's quantiles at these levels: then F at the sample is known without the law."""
    rows = []
    for n in (3, 10, 40):
        for bend in (1.0, 1.3, 0.6):
            levels = [((i + 0.5) / n) ** bend for i in range(n)]
            d = stats.kstest(levels, "uniform").statistic
            rows.append([n, bend, 1, repr(float(d)), mp.nstr(a_squared(levels, n, 1), 15)])
            for end in (0.5, 0.75):
                seen = [u for u in levels if u < end]
                assert len(seen) < n
                gaps = [max((i + 1) / n - u, u - i / n) for i, u in enumerate(seen)] + [abs(end - len(seen) / n)]
                rows.append([n, bend, end, repr(max(gaps)), mp.nstr(a_squared(seen, n, end), 15)])
    return rows


def write(name, header, rows):
    with open(HERE / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


write("kolmogorov.csv", ["n", "d", "p"], kolmogorov())
write("goodness.csv", ["n", "bend", "cap_level", "d", "a2"], goodness())
