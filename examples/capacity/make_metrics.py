#!/usr/bin/env python3
"""Writes metrics.csv: what pods of two models would have reported over twenty minutes.

The latencies are the corrected model's at each pod's own rate, by `tailrace latency`, so the
parameters behind them are known: H100 6.5 / 0.022 / 5e-5, A100 12.9 / 0.059 / 1e-4.
Run from the repository: python3 examples/capacity/make_metrics.py > examples/capacity/metrics.csv
"""
import json
import math
import pathlib
import subprocess

TAILRACE = pathlib.Path(__file__).resolve().parents[2] / "build" / "tailrace"
HEADER = ("time_s,namespace,model,variant,accelerator,pod,rate,input,output,ttft_ms,itl_ms,"
          "running,requests,output_cv,current,min,max,cost,gateway_queue")
H100 = ("6.5", "0.022", "5e-5")
A100 = ("12.9", "0.059", "1e-4")
# model, variant, accelerator, parameters, pods, rate of a pod when it is busiest, input, output, cost
FLEET = [
    ("llama-8b", "llama-h100", "H100", H100, 2, 34.0, 512, 160, 40),
    ("llama-8b", "llama-a100", "A100", A100, 2, 11.0, 512, 160, 18),
    ("coder-8b", "coder-h100", "H100", H100, 4, 3.0, 1800, 220, 40),
]


def latency(parameters, rate, tokens_in, tokens_out):
    alpha, beta, gamma = parameters
    done = subprocess.run(
        [TAILRACE, "latency", "--alpha", alpha, "--beta", beta, "--gamma", gamma, "--rate", str(rate),
         "--input", str(tokens_in), "--output", str(tokens_out), "--output-cv", "0.8", "--json"],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    print(HEADER)
    for cycle in range(20):
        time_s = 60 * cycle
        for model, variant, kind, parameters, pods, top, tokens_in, tokens_out, cost in FLEET:
            for pod in range(pods):
                share = 0.75 + 0.25 * math.sin(0.5 * cycle + pod) if cycle < 19 else 1
                rate = round(top * share, 3)
                longer = round(tokens_in * (1 + 0.15 * math.sin(0.8 * cycle + 2 * pod)))
                at = latency(parameters, rate, longer, tokens_out)
                queue = 240 if model == "llama-8b" and cycle == 19 else 0
                print(f"{time_s},prod,{model},{variant},{kind},{variant}-{pod},{rate},{longer},"
                      f"{tokens_out},{at['ttft_ms']:.3f},{at['itl_ms']:.4f},"
                      f"{at['concurrency']:.2f},{round(60 * rate)},0.8,{pods},1,8,{cost},{queue}")


if __name__ == "__main__":
    main()
