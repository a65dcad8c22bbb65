#!/usr/bin/env python3
"""Writes traces/: a few made-up requests in every format that tailrace reads, as its publishers lay it out.

Nothing in it comes from anywhere else. Every file but ServeGen's tells the same twelve requests where its format can.
Same script, same bytes.

Usage: tests/data/make_traces.py
"""
import datetime
import json
import pathlib

FOLDER = pathlib.Path(__file__).parent / "traces"


class Draws:
    """A 64-bit linear congruential generator: the same on every machine and version."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def requests():
    """Milliseconds of arrival, prompt and output tokens, session."""
    draws = Draws(4)
    at_ms = 0
    for number in range(12):
        yield at_ms, 64 + draws.below(2000), 1 + draws.below(400), number % 3
        at_ms += 50 + 3 * draws.below(900)


def lines(name, rows):
    (FOLDER / name).write_text("".join(row + "\n" for row in rows))


def csv(name, header, rows):
    lines(name, [header] + [",".join(str(cell) for cell in row) for row in rows])


def date(at_ms, zone=""):
    """With seven digits of a second, as .NET writes them; or six and a zone, as pandas does."""
    at = datetime.datetime(2031, 3, 1, 23, 59, 58) + datetime.timedelta(milliseconds=at_ms)
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    if not zone:
        return f"{text}.{at.microsecond:06}0"
    return text + (f".{at.microsecond:06}" if at.microsecond else "") + zone


def write_traces(rows):
    csv("azure_2023.csv", "TIMESTAMP,ContextTokens,GeneratedTokens", [(date(t), p, o) for t, p, o, _ in rows])
    csv("azure_2024.csv", "TIMESTAMP,ContextTokens,GeneratedTokens", [(date(t, "+00:00"), p, o) for t, p, o, _ in rows])
    csv("azure_reduced.csv", "t_s,input_tokens,output_tokens", [(t / 1000, p, o) for t, p, o, _ in rows])
    csv("burstgpt.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
        [(t / 1000, "GPT-4" if s == 0 else "ChatGPT", p, 0 if n == 5 else o, p + (0 if n == 5 else o), "API log")
         for n, (t, p, o, s) in enumerate(rows)])
    csv("vllm_requests.csv", "arrival_s,input_tokens,output_tokens,queued_s,scheduled_s,first_token_s,last_token_s",
        [(t / 1000, p, o, t / 1000, round(t / 1000 + 0.01, 4), round(t / 1000 + 0.2, 4),
          round(t / 1000 + 0.2 + o * 0.02, 4))
         for t, p, o, _ in rows])


def blocks(number, prompt, session):
    """Ids of 512 tokens: the first is everybody's, the following ones a session's, the last its own."""
    count = (prompt + 511) // 512
    return [0 if i == 0 else 10 * (session + 1) + i if i < count - 1 else 1000 + number for i in range(count)]


def write_json(rows):
    mooncake, reduced, own = [], [], []
    for number, (t, p, o, s) in enumerate(rows):
        ids = blocks(number, p, s)
        mooncake.append(json.dumps({"timestamp": t, "input_length": p, "output_length": o, "hash_ids": ids}))
        reduced.append(json.dumps({"t_ms": t, "input_tokens": p, "output_tokens": o, "hash_ids": ids},
                                  separators=(",", ":")))
        row = {"id": f"r{number}", "arrival_s": t / 1000, "prompt": f"Say {number} in words.", "prompt_tokens": p,
               "output_tokens": o, "max_tokens": 512, "tenant": "chat" if s else "batch", "session": f"s{s}",
               "prefix_ids": ids, "tokens_per_id": 512}
        if s == 0:
            row.update({"priority": -1, "weight": 0.5})
        else:
            row.update({"deadline_ms": 2000, "law": {"mu": 4.5, "sigma": 0.7}})
        own.append(json.dumps(row))
    lines("mooncake.jsonl", mooncake)
    lines("mooncake_reduced.jsonl", reduced)
    lines("own.jsonl", own)


def write_servegen():
    windows, lengths = [], []
    for client, (rate, family, shape) in enumerate([(2.0, "G", 0.25), (0.5, "W", 0.7), (0.2, "G", 1.0)]):
        for window in range(4):
            if (client, window) != (1, 2):  # a window without requests is left out
                windows.append((client, 600 * window, rate * (1 + window % 2), round(shape**-0.5, 4), family, shape,
                                round(1 / rate, 5)))
        if client != 2:  # a client without lengths
            p50 = 200 * (client + 1)
            quantiles = [p50 // 4, p50 // 2, p50, 2 * p50, 3 * p50, 4 * p50, 6 * p50, 8 * p50]
            lengths.append([client, 0, 1.4 * p50, 1.1] + quantiles + [0.7 * p50, 0.8] + [q // 2 for q in quantiles])
    csv("servegen_arrival_windows.csv", "client,t_s,rate_rps,cv,family,shape,scale_s", windows)
    names = ["mean", "cv", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max"]
    csv("servegen_length_windows.csv",
        ",".join(["client", "t_s"] + ["in_" + n for n in names] + ["out_" + n for n in names]), lengths)
    lines("servegen_top_client_pmf.jsonl", [
        json.dumps({"client": 0, "t_s": 1800, "input_tokens": {"84": 0.5, "96": 0.5}, "output_tokens": {"60": 1.0}}),
        json.dumps({"client": 2, "t_s": 1800})])


def main():
    FOLDER.mkdir(exist_ok=True)
    rows = list(requests())
    write_traces(rows)
    write_json(rows)
    write_servegen()


main()
