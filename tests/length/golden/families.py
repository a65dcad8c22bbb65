#!/usr/bin/env python3
"""Writes families.json: reference values of every family, by another road than the product.

Only the densities are taken as formulas. Probabilities and moments are their integrals, by Gauss-Legendre
rules at 36 digits over short panels in ln x; values at risk are roots of those integrals. Bins are exact
fractions. Parameters are the doubles that the product reads.
Usage: python3 families.py  (needs mpmath; takes a minute)
"""
import json
import pathlib
from fractions import Fraction

from mpmath import exp, inf, log, log1p, loggamma, mp, mpf, nstr, pi, sqrt
from mpmath.calculus.quadrature import GaussLegendre

mp.dps = 36
NODES = GaussLegendre(mp).calc_nodes(4, mp.prec)  # 24 of them
HERE = pathlib.Path(__file__).parent
EFOLDS = 80  # what is dropped weighs e^-80
STEP = 4  # e-folds a panel may gain or lose


class Plain:
    """A law by ln of its density in u = ln x, and where and over what width that bends."""

    def __init__(self, family, *parameters):
        self.spec = {"family": family, "parameters": list(parameters)}
        self.quantiles = {}
        p = [mpf(x) for x in parameters]
        if family == "log-t":
            mu, sigma, nu = p
            norm = loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(nu * pi) / 2 - log(sigma)
            self.log_density = lambda u: norm - (nu + 1) / 2 * log1p(((u - mu) / sigma) ** 2 / nu)
            self.bends = [(mu, sigma)]
        elif family == "log-normal":
            mu, sigma = p
            norm = -log(sigma) - log(2 * pi) / 2
            self.log_density = lambda u: norm - ((u - mu) / sigma) ** 2 / 2
            self.bends = [(mu, sigma)]
        elif family == "gamma":
            a, scale = p
            norm = -loggamma(a) - a * log(scale)
            self.log_density = lambda u: norm + a * u - exp(u) / scale
            self.bends = [(log(a * scale), min(mpf(1), 1 / sqrt(a))), (log(scale), min(mpf(1), 1 / sqrt(a)))]
        elif family == "weibull":
            k, scale = p
            # Beyond all digits its exponential would only cost time.
            fallen = lambda v: exp(v) if v < 100 else mpf(10) ** 40 * v
            self.log_density = lambda u: log(k) + k * (u - log(scale)) - fallen(k * (u - log(scale)))
            self.bends = [(log(scale), min(mpf(1), 1 / k))]
        elif family == "exponential":
            (scale,) = p
            self.log_density = lambda u: u - log(scale) - exp(u) / scale
            self.bends = [(log(scale), mpf(1))]
        elif family == "lomax":
            a, scale = p
            self.log_density = lambda u: log(a) - log(scale) + u - (a + 1) * log1p(exp(u) / scale)
            self.bends = [(log(scale), mpf(1)), (log(scale / a), mpf(1))]

    def density(self, u):
        return exp(self.log_density(u))

    def cuts(self, power, lo, hi):
        """Panels over which x^power times the density is smooth, from where it begins to where it ends."""
        return panels(lambda u: self.log_density(u) + power * u, lo, hi, self.bends)

    def weigh(self, power, lo, hi):
        """The integral of x^power times the density over lo < ln x < hi."""
        f = lambda u: exp(self.log_density(u) + power * u)
        return sum(over_panels(f, self.cuts(power, lo, hi)))

    def quantile(self, p):
        return quantile(self, p)


class Mixed:
    def __init__(self, weight, first, second):
        self.spec = {"family": "mixture", "weight": weight, "first": first.spec, "second": second.spec}
        self.parts = [(mpf(weight), first), (1 - mpf(weight), second)]
        self.quantiles = {}
        self.bends = first.bends + second.bends

    def weigh(self, power, lo, hi):
        return sum(w * part.weigh(power, lo, hi) for w, part in self.parts)

    def density(self, u):
        return sum(w * part.density(u) for w, part in self.parts)

    def cuts(self, power, lo, hi):
        return sorted(set().union(*(part.cuts(power, lo, hi) for _, part in self.parts)))

    def quantile(self, p):
        return quantile(self, p)


def over_panels(f, cuts):
    return [(b - a) / 2 * sum(w * f((a + b) / 2 + (b - a) / 2 * x) for x, w in NODES)
            for a, b in zip(cuts, cuts[1:])]


def quantile(law, p):
    """Newton's steps inside the panel that holds the quantile."""
    if (known := law.quantiles.get(p)) is not None:
        return known
    cuts = law.cuts(0, -inf, inf)
    weights = over_panels(law.density, cuts)
    missing = p if p < 0.5 else 1 - p
    order = range(len(weights)) if p < 0.5 else reversed(range(len(weights)))
    for i in order:
        if weights[i] >= missing:
            break
        missing -= weights[i]
    lo, hi = cuts[i], cuts[i + 1]
    u = (lo + hi) / 2
    for _ in range(100):
        if p < 0.5:
            excess = over_panels(law.density, [lo, u])[0] - missing
        else:
            excess = missing - over_panels(law.density, [u, hi])[0]
        step = excess / law.density(u)
        if not lo < u - step < hi:
            step = (u - lo) / 2 if step > 0 else (u - hi) / 2
        u -= step
        if abs(step) < mpf(10) ** -28 * (1 + abs(u)):
            law.quantiles[p] = exp(u)
            return law.quantiles[p]
    raise RuntimeError("no quantile")


def mode(g, centre, width, hi):
    """Where a function with one maximum has it, or beyond `hi` where that is further."""
    a, b, step = centre - width, centre + width, width
    while g(a - step) > g(a):
        a, step = a - step, 2 * step
    step = width
    while b < hi and g(b + step) > g(b):
        b, step = b + step, 2 * step
    a, b = a - step, b + step
    for _ in range(60):
        x, y = a + (b - a) * mpf("0.382"), a + (b - a) * mpf("0.618")
        if g(x) < g(y):
            a = x
        else:
            b = y
    return (a + b) / 2


def edge(g, top, start, sign, drop, limit, step):
    """How far from `start` g has fallen by `drop` from `top`, at most at `limit`."""
    while g(start + sign * step) > top - drop:
        if sign * (limit - start - sign * step) <= 0:
            return limit
        step *= 2
    lo, hi = step / 2, step
    for _ in range(4):
        middle = (lo + hi) / 2
        if g(start + sign * middle) > top - drop:
            lo = middle
        else:
            hi = middle
    out = start + sign * hi
    return out if sign * (limit - out) > 0 else limit


def panels(g, lo, hi, bends):
    if not lo < hi:
        return []
    at = mode(g, *bends[0], hi)
    top_at = min(max(at, lo), hi)
    top = g(top_at)
    cuts = {top_at}
    for sign, limit in ((-1, lo), (1, hi)):
        u, fallen, step = top_at, STEP, mpf(10) ** -14 * (1 + abs(top_at))
        while u != limit and fallen <= EFOLDS:
            u = edge(g, top, top_at, sign, fallen, limit, step)
            step = abs(u - top_at)
            cuts.add(u)
            fallen += STEP
    first, last = min(cuts), max(cuts)
    for centre, width in bends:
        for j in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
            cuts |= {u for u in (centre - j * width, centre + j * width) if first < u < last}
    return sorted(cuts)


def answers(law, cap, level):
    u = log(mpf(cap))
    p_cap = law.weigh(0, u, inf)
    cdf = law.weigh(0, -inf, u)
    below = law.weigh(1, -inf, u)
    mean = below + cap * p_cap
    p = mpf(level)
    quantile = law.quantile(p)
    var = min(quantile, mpf(cap))
    if quantile < cap:
        cvar = (law.weigh(1, log(quantile), u) + cap * p_cap) / (1 - p)
    else:
        cvar = mpf(cap)
    return dict(p_cap=p_cap, cdf=cdf, quantile=quantile, mean=mean, var=var, cvar=cvar)


class Bins:
    """The same in exact fractions, but for the square root beyond the last edge."""

    def __init__(self, edges, masses):
        self.spec = {"family": "binned", "edges": edges, "masses": masses}
        self.edges = [Fraction(0)] + [Fraction(e) for e in edges]
        total = sum(Fraction(m) for m in masses)
        self.masses = [Fraction(m) / total for m in masses]

    def survival(self, x):
        alive = Fraction(1)
        for lo, hi, mass in zip(self.edges, self.edges[1:], self.masses):
            if x <= hi:
                return alive - mass * max(Fraction(0), x - lo) / (hi - lo)
            alive -= mass
        return alive * (self.edges[-1] / x) ** 2

    def area(self, a, b):
        points = sorted({a, b} | {e for e in self.edges if a < e < b})
        total = Fraction(0)
        for lo, hi in zip(points, points[1:]):
            if lo >= self.edges[-1]:
                total += self.masses[-1] * self.edges[-1] ** 2 * (1 / lo - 1 / hi)
            else:
                total += (hi - lo) * (self.survival(lo) + self.survival(hi)) / 2
        return total

    def quantile(self, p):
        alive = 1 - p
        if alive < self.masses[-1]:
            root = sqrt(mpf(self.masses[-1].numerator) / self.masses[-1].denominator /
                        (mpf(alive.numerator) / alive.denominator))
            return Fraction(nstr(root, 36)) * self.edges[-1]
        before = Fraction(1)
        for lo, hi, mass in zip(self.edges, self.edges[1:], self.masses):
            if before - mass <= alive:
                return lo + (hi - lo) * (before - alive) / mass
            before -= mass

    def answers(self, cap, level):
        cap, p = Fraction(cap), Fraction(level)
        quantile = self.quantile(p)
        var = min(quantile, cap)
        cvar = var + self.area(var, cap) / (1 - p) if quantile < cap else cap
        exact = dict(p_cap=self.survival(cap), cdf=1 - self.survival(cap), quantile=quantile,
                     mean=self.area(Fraction(0), cap), var=var, cvar=cvar)
        return {k: mpf(v.numerator) / v.denominator for k, v in exact.items()}


P53 = float(2**53)
NEAR_ONE = 1 - 2.0**-30


def cases():
    every_cap = (1e-3, 100.0, 2048.0, P53)
    plain = [
        Plain("log-normal", 5.0, 0.75), Plain("log-normal", 6.0, 1e-6), Plain("log-normal", 5.0, 20.0),
        Plain("log-normal", 0.0, 3.0),
        Plain("gamma", 2.0, 100.0), Plain("gamma", 0.05, 4000.0), Plain("gamma", 1e-6, 1e5),
        Plain("gamma", 1.0, 300.0), Plain("gamma", 60.0, 4.0), Plain("gamma", 3000.0, 0.1),
        Plain("gamma", 3e5, 1e-3), Plain("gamma", 1e12, 2e-9),
        Plain("weibull", 1.5, 200.0), Plain("weibull", 0.3, 40.0), Plain("weibull", 0.01, 1.0),
        Plain("weibull", 1e-6, 30.0), Plain("weibull", 40.0, 500.0), Plain("weibull", 1e9, 1500.0),
        Plain("exponential", 300.0), Plain("exponential", 1e-2), Plain("exponential", 1e20),
        Plain("lomax", 1.5, 200.0), Plain("lomax", 1.0, 200.0), Plain("lomax", 1 + 1e-9, 200.0),
        Plain("lomax", 0.05, 3.0), Plain("lomax", 1e-6, 3.0), Plain("lomax", 1e9, 3e11),
        Plain("lomax", 30.0, 9000.0),
        Mixed(0.3, Plain("log-t", 3.0, 0.3, 3.5), Plain("log-t", 7.0, 0.5, 3.5)),
        Mixed(0.8, Plain("gamma", 40.0, 2.0), Plain("log-normal", 6.0, 1.5)),
        Mixed(1e-9, Plain("exponential", 1e6), Plain("weibull", 3.0, 50.0)),
    ]
    for law in plain:
        for cap in every_cap:
            yield law, cap, 0.9
        for level in (1e-6, 0.5, NEAR_ONE):
            yield law, 4096.0, level
    # The cap inside narrow laws, where everything happens.
    for law, middle, width in ((plain[1], exp(mpf(6)), 4e-4), (plain[11], mpf(2000), 2e-3),
                               (plain[17], mpf(1500), 1.5e-6), (plain[9], mpf(300), 5.0)):
        for z, level in ((-8, 0.3), (-2, 0.9), (0.5, 0.3), (3, 0.9), (8, 0.9)):
            yield law, float(middle + z * width), level


def bins():
    tokens = Bins([float(k) for k in range(1, 40)], [0.5 / k for k in range(1, 41)])
    mixed = Bins([0.5, 2.0, 2.25, 10.0, 300.0, 301.0, 4000.0], [0.1, 0.0, 0.2, 0.3, 1e-12, 0.25, 0.1, 1e-3])
    ended = Bins([1000.0, 1001.0], [3.0, 1.0, 0.0])
    for law in (tokens, mixed, ended):
        for cap in (1e-3, 0.75, 7.0, 300.5, 1000.0, 2048.0, P53):
            for level in (1e-6, 0.3, 0.9, 0.999, NEAR_ONE):
                yield law, cap, level


def row(law, cap, level, values):
    numbers = {k: float(nstr(v, 25)) for k, v in values.items()}
    # A quantile that no double holds is left out.
    if not 2.3e-308 < numbers["quantile"] < 1.7e308:
        del numbers["quantile"]
    return law.spec | {"cap": cap, "level": level} | numbers


def main():
    rows = [row(law, cap, level, answers(law, cap, level)) for law, cap, level in cases()]
    rows += [row(law, cap, level, law.answers(cap, level)) for law, cap, level in bins()]
    (HERE / "families.json").write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
