#!/usr/bin/env python3
"""Writes kalman.json: bootstraps and single filter steps, computed here by plain Python alone.

    tests/tune/golden/generate_kalman.py > tests/tune/golden/kalman.json
"""
import json


def closed_form(x, inputs):
    alpha, beta, gamma = x
    i, o, rate = inputs["in_"], inputs["out"], inputs["lambda_rps"] / 1e3
    rho = rate * (beta * (i + o) + gamma * (o + 1) * (i + o / 2))
    iteration = alpha / (1 - rho)
    return [iteration + (beta + gamma) * i, iteration + beta + gamma * (i + (o + 1) / 2)]


def chain(x, inputs):
    alpha, beta, gamma = x
    i, o, rate = inputs["in_"], inputs["out"], inputs["lambda_rps"] / 1e3
    batch, queue = inputs["max_batch"], inputs["max_queue"]
    delta = beta * (i + o) / (o + 1) + gamma * (i + o / 2)
    prefill = lambda n: alpha + n * delta + (beta + gamma) * i
    decode = lambda n: alpha + n * delta + beta + gamma * (i + o / 2)
    weight, total, serving, system = 1.0, 1.0, 0.0, 0.0
    for n in range(1, batch + queue + 1):
        busy = min(n, batch)
        weight *= rate * (prefill(busy) + o * decode(busy)) / busy
        total += weight
        serving += busy * weight
        system += n * weight
    throughput = rate * (1 - weight / total)
    serving, system = serving / total, system / total
    itl = (serving / throughput - prefill(serving)) / o
    return [(system - serving) / throughput + prefill(serving), itl]


def bootstrap(inputs):
    i, o = inputs["in_"], inputs["out"]
    alpha = 0.9 * inputs["ITL"]
    total = (inputs["TTFT"] - alpha) / i
    gamma = (inputs["ITL"] - alpha - total) / (i + (o + 1) / 2 - 1)
    return {"ok": min(alpha, total - gamma, gamma) > 0, "alpha": alpha, "beta": total - gamma, "gamma": gamma}


def product(a, b):
    return [[sum(p * q for p, q in zip(row, column)) for column in zip(*b)] for row in a]


def step(inputs):
    model = chain if "max_batch" in inputs else closed_form
    x, z = inputs["x0"], inputs["z"]
    # P after the prediction: what it was at first, and as much again.
    p = [[2 * (0.05 * x[r]) ** 2 if r == c else 0.0 for c in range(3)] for r in range(3)]
    predicted = model(x, inputs)
    innovation = [z[r] - predicted[r] for r in range(2)]
    jacobian = [[0.0] * 3, [0.0] * 3]
    for j in range(3):
        above, below = list(x), list(x)
        above[j] *= 1.01
        below[j] *= 0.99
        for r in range(2):
            jacobian[r][j] = (model(above, inputs)[r] - model(below, inputs)[r]) / (0.02 * x[j])
    transposed = [list(column) for column in zip(*jacobian)]
    s = product(product(jacobian, p), transposed)
    for r in range(2):
        s[r][r] += (0.05 / 1.96 * z[r]) ** 2
    determinant = s[0][0] * s[1][1] - s[0][1] * s[1][0]
    inverse = [[s[1][1] / determinant, -s[0][1] / determinant], [-s[1][0] / determinant, s[0][0] / determinant]]
    gain = product(product(p, transposed), inverse)
    nis = sum(innovation[r] * inverse[r][c] * innovation[c] for r in range(2) for c in range(2))
    moved = [x[j] + sum(gain[j][r] * innovation[r] for r in range(2)) for j in range(3)]
    clamped = [min(max(v, low), high) for v, low, high in zip(moved, inputs["min"], inputs["max"])]
    kept = [[(r == c) - value for c, value in enumerate(row)] for r, row in enumerate(product(gain, jacobian))]
    return {"h": predicted, "innovation": innovation, "H": jacobian, "S": s, "K": gain, "NIS": nis,
            "accepted": nis < 7.378, "x_unclamped": moved, "x": clamped, "P": product(kept, p)}


def main():
    box = {"min": [0.05, 0.0005, 5e-07], "max": [500.0, 5.0, 0.005]}
    llama = {"in_": 512, "out": 128}
    steps = {
        "closed form, accepted": {"x0": [6.0, 0.021, 6e-5], "z": [19.5, 8.1], "lambda_rps": 10.0, **llama, **box},
        "closed form, clamped": {"x0": [0.0501, 0.0005, 5e-7], "z": [0.29, 0.0506], "lambda_rps": 1.0, **llama, **box},
        "chain, accepted": {"x0": [6.2, 0.0225, 4.9e-5], "z": [19.2, 8.0], "lambda_rps": 10.0, "max_batch": 64, "max_queue": 640,
                            **llama, **box},
        "chain, waiting, rejected": {"x0": [12.0, 0.05, 0.0005], "z": [90.0, 31.0], "lambda_rps": 3.0, "in_": 128, "out": 512,
                                     "max_batch": 48, "max_queue": 480, **box},
    }
    guesses = {
        "usual": {"TTFT": 24.0, "ITL": 9.0, "in_": 300, "out": 80},
        "gamma below 0": {"TTFT": 900.0, "ITL": 9.0, "in_": 300, "out": 80},
        "beta below 0": {"TTFT": 8.2, "ITL": 9.0, "in_": 300, "out": 2},
    }
    rows = [{"id": name, "group": "EKF single step", "inputs": inputs, "expected": step(inputs)} for name, inputs in steps.items()]
    rows += [{"id": name, "group": "bootstrap", "inputs": inputs, "expected": bootstrap(inputs)} for name, inputs in guesses.items()]
    print("{\"vectors\": [\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]}")


if __name__ == "__main__":
    main()
