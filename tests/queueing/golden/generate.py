#!/usr/bin/env python3
"""Writes published_modes.csv: what the closed form and the chain say, at 50 digits.

Independent of the C++ code: the chain sums its states one by one, and sizing bisects. Run it from
this folder; it takes some seconds and needs nothing but Python.
"""
import csv
from decimal import Decimal as D, getcontext

getcontext().prec = 50

# alpha, beta, gamma, input, output, batch, queue, rate/s, TTFT target, ITL target
CASES = [
    ("6", "0.02", "7.6e-5", "512", "128", 64, 100, "12", "60", "14"),
    ("6", "0.02", "7.6e-5", "2048", "512", 256, 100, "3", "120", "25"),
    ("16", "0.048", "9.2e-5", "512", "128", 256, 0, "9", "150", "50"),
    ("5", "0.05", "0.00005", "100", "1", 8, 16, "40", "30", "0"),
    ("5", "0.05", "0.00005", "0", "64", 1, 4, "2", "0", "6"),
    ("2.5", "0", "0.001", "37.5", "12.25", 16, 3, "80", "11", "6"),
    ("0", "0.03", "0.0002", "300", "40", 32, 10, "6", "40", "8"),
]
COLUMNS = ["alpha", "beta", "gamma", "input", "output", "batch", "queue", "rate", "target_ttft", "target_itl",
           "delta", "rho", "closed_ttft", "closed_itl", "closed_concurrency", "closed_max_rate", "closed_rate",
           "chain_ttft", "chain_itl", "chain_wait", "chain_e2e", "chain_concurrency", "chain_throughput",
           "chain_max_rate", "chain_rate"]


def closed(alpha, beta, gamma, i, o):
    """Sections 9.2 to 9.4: delta and total work in ms, and the parts of TTFT and ITL beside T_iter."""
    delta = beta * (i + o) / (o + 1) + gamma * (i + o / 2)
    return delta, (o + 1) * delta, (beta + gamma) * i, beta + gamma * (i + (o + 1) / 2)


class Chain:
    def __init__(self, alpha, beta, gamma, i, o, batch, queue):
        self.o, self.batch, self.states = o, batch, batch + queue
        delta = beta * (i + o) / (o + 1) + gamma * (i + o / 2)
        self.prefill = lambda n: (alpha + n * delta + (beta + gamma) * i) if i > 0 else D(0)
        decode = lambda n: alpha + n * delta + beta + gamma * (i + o / 2)
        self.mu = lambda n: n / (self.prefill(n) + o * decode(n))
        self.least, self.most = self.mu(D(1)) / 1000, D("0.999") * self.mu(D(batch))

    def at(self, rate):
        """rate per ms → ttft, itl, wait, response, in service, throughput per ms."""
        p, every, served, inside = D(1), D(1), D(0), D(0)
        for n in range(1, self.states + 1):
            k = D(min(n, self.batch))
            p *= rate / self.mu(k)
            every, served, inside = every + p, served + k * p, inside + n * p
        throughput = rate * (1 - p / every)
        n, response = served / every, inside / every / throughput
        service = n / throughput
        wait = response - service
        itl = (service - self.prefill(n)) / self.o
        return wait + self.prefill(n) + itl, itl, wait, response, n, throughput

    def largest(self, which, target):
        low, high = self.least, self.most
        if target == 0 or self.at(high)[which] <= target:
            return high
        if self.at(low)[which] > target:
            return None
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle)[which] <= target else (low, middle)
        return low


def number(value):
    return "" if value is None else f"{value:.17g}"


def main():
    with open("published_modes.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for case in CASES:
            alpha, beta, gamma, i, o = map(D, case[:5])
            batch, queue = case[5:7]
            rate, ttft, itl = map(D, case[7:])
            delta, work, prefill, decode = closed(alpha, beta, gamma, i, o)
            rho = rate / 1000 * work
            t = alpha / (1 - rho)
            budgets = [target - part for target, part in ((ttft, prefill), (itl, decode)) if target > 0]
            reachable = all(budget > alpha for budget in budgets)
            best = min((1 - alpha / budget) * 1000 / work for budget in budgets) if reachable else None
            chain = Chain(alpha, beta, gamma, i, o, batch, queue)
            found = chain.at(rate / 1000)
            rates = [chain.largest(0, ttft), chain.largest(1, itl)]
            chain_rate = None if None in rates else min(rates) * 1000
            out.writerow([*case, *map(number, (
                delta, rho, t + prefill, t + decode, rate / 1000 * (o + 1) * t, 1000 / work, best,
                *found[:5], found[5] * 1000, chain.most * 1000, chain_rate))])


if __name__ == "__main__":
    main()
