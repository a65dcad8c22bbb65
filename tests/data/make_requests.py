#!/usr/bin/env python3
"""Writes requests.jsonl: 800 made-up requests to two models with made-up answer lengths.

Nothing in it comes from anywhere else. A task's words decide most of a length, the model scales it, limits cut some
answers and a few requests are aborted. Same script, same bytes.

Usage: tests/data/make_requests.py > tests/data/requests.jsonl
"""
import json
import math

TASKS = [  # words of the prompt, median tokens, spread of ln tokens
    ("Write an essay about {}.", 420, 0.30),
    ("Explain {} to a child.", 160, 0.35),
    ("Translate the word {} into French.", 6, 0.25),
    ("List ten facts about {}.", 230, 0.20),
    ("Is {} larger than a house? Answer yes or no.", 2, 0.30),
    ("Write code that draws {}.", 260, 0.60),
    ("Summarise what is known about {} in one sentence.", 34, 0.30),
]
THINGS = ["the moon", "a whale", "rivers", "glass", "a bicycle", "the harvest", "clouds", "an engine", "salt", "music",
          "a lighthouse", "ants", "thunder", "paper", "the tide", "a bridge"]
MODELS = [("small-model", 0.7), ("large-model", 1.3)]


class Draws:
    """A 64-bit linear congruential generator: the same on every machine and version."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return ((self.state >> 11) + 0.5) / 2**53

    def normal(self):
        return math.sqrt(-2 * math.log(self.uniform())) * math.cos(2 * math.pi * self.uniform())

    def below(self, bound):
        return int(self.uniform() * bound)


def main():
    draws = Draws(2)
    for number in range(800):
        words, median, spread = TASKS[draws.below(len(TASKS))]
        model, scale = MODELS[draws.below(len(MODELS))]
        length = max(1, math.ceil(median * scale * math.exp(spread * draws.normal())))
        row = {"model": model, "prompt": words.format(THINGS[draws.below(len(THINGS))]), "length": length}
        if number % 3 == 0:
            row["cap"] = 512
            row["length"] = min(length, 512)
        if number % 25 == 24 and length > 4:
            row["length"], row["censored"] = max(1, length // 2), True
        if number % 10 == 0:
            row["temperature"] = 0.7
        print(json.dumps(row))


main()
