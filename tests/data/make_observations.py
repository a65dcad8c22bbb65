#!/usr/bin/env python3
"""Writes recordings for `tailrace tune`: pods that behave exactly like the published chain.

    tests/data/make_observations.py > tests/data/granite_sawtooth.csv

TTFT is the wait and the prefill, as the specification's filter counts it; rho is the specification's (9.3).
"""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tune" / "golden"))
from generate_kalman import chain  # noqa: E402

QWEN = {"x": (10.645377, 0.041760195, 5.770509e-05), "in_": 1024, "out": 256, "max_batch": 256}
LLAMA = {"x": (6.49, 0.0219, 4.96e-05), "in_": 512, "out": 128, "max_batch": 256}
GRANITE = {"x": (8.0, 0.016, 0.0005), "in_": 2048, "out": 1024, "max_batch": 64}
HEADER = ["time_s", "pod", "rate", "input", "output", "ttft_ms", "itl_ms"]


def saturation_rate(server, x=None):
    _, beta, gamma = x or server["x"]
    i, o = server["in_"], server["out"]
    return 1e3 / (beta * (i + o) + gamma * (o + 1) * (i + o / 2))


def constant(rho):
    return [rho] * 40


def ramp():
    return [0.02 + 0.68 * k / 80 for k in range(81)]


def sawtooth():
    return [0.1 + 0.5 * (k % 10) / 9 for k in range(80)]


def rows(server, loads):
    for k, rho in enumerate(loads):
        rate = rho * saturation_rate(server)
        ttft, itl = chain(server["x"], {**server, "lambda_rps": rate, "max_queue": 10 * server["max_batch"]})
        yield [60 * (k + 1), "pod-1", repr(rate), server["in_"], server["out"], repr(ttft), repr(itl)]


def write(file, server, loads):
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(rows(server, loads))


if __name__ == "__main__":
    write(sys.stdout, GRANITE, sawtooth())
