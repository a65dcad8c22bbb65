"""A short piece of `make autoscaler-real`: a ramp, Debian's Prometheus, and engines that come and go by what it remembers."""
import json
import random
import shutil
import sys

import pytest

from harness import ROOT

sys.path.insert(0, str(ROOT / "experiments" / "autoscaler"))
import real  # noqa: E402

SCALE, WARM_UP_S = 8, 80
BASE, PEAK = 0.65, 2.6
PLAN = {
    "startup_s": 30, "cycle_s": 15, "ttft_ms": 2000, "itl_ms": 100,
    "segments": [{"name": name, "from_s": from_s, "to_s": to_s}
                 for name, from_s, to_s in (("ramp", 0, 160), ("plateau", 160, 400), ("lull", 400, 640))],
    # One replica carries some 0.85 requests/s within the targets, three 3.7.
    "variants": [{"name": "a100", "preset": "a100-70b-tp4", "cost": 4, "slots": 6, "min": 1, "max": 4, "alpha_ms": 26, "beta_ms": 0.165,
                  "gamma_ms": 6e-5, "knee_tokens": 160, "max_batched_tokens": 2048, "kv_tokens": 487200}],
}


def rate(at_s):
    if at_s < 0 or at_s >= 400:
        return BASE
    return BASE + (PEAK - BASE) * min(1, at_s / 160)


def requests(seed):
    """Poisson arrivals of that rate, answers of some 140 tokens."""
    chance, at_s, lines = random.Random(seed), -WARM_UP_S, []
    while True:
        at_s += chance.expovariate(PEAK)
        if at_s >= PLAN["segments"][-1]["to_s"]:
            return "".join(json.dumps(line) + "\n" for line in lines)
        tokens = min(1024, max(1, round(chance.lognormvariate(4.6, 0.8))))
        if chance.random() < rate(at_s) / PEAK:
            lines.append({"id": str(len(lines)), "prompt": "x" * 500, "arrival_s": at_s + WARM_UP_S, "output_tokens": tokens, "max_tokens": 1024})


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus in PATH (tools/setup installs Debian's)")
def test_a_ramp_is_served_by_what_prometheus_remembers(tmp_path):
    (tmp_path / "requests.jsonl").write_text(requests(seed=1))
    result = real.run(tmp_path, PLAN, tmp_path / "requests.jsonl", SCALE, WARM_UP_S)
    log = (tmp_path / "autoscaler.log").read_text()
    assert result["failed"] == 0, log
    assert result["most"] >= 3, log
    plateau, lull = result["segments"][1:]
    assert lull["replica_s"] < 0.8 * plateau["replica_s"], log
    # Far below what it reaches: other work may be on the machine.
    assert result["goodput"] >= 0.75, (result, log)
