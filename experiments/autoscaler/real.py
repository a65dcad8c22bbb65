#!/usr/bin/env python3
"""The fixed scenario of the autoscaler with real processes: gateway, Prometheus, autoscaler, emulated engines.

    experiments/autoscaler/real.py [--scale 4] [--seeds 1,2] [--keep FOLDER]

Everything runs on 127.0.0.1, `scale` times faster than the scenario says: engines' times, targets, cycle, windows, start-up
and scrapes are all divided by it, and what is printed is in the scenario's own time. Prints docs/autoscaler-real.md on
standard output; exits 1 if a limit that the page states is missed.
"""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BIN, Gateway, Program, http, percentile  # noqa: E402
from machine import free_ports, wait_until  # noqa: E402

PLAN = os.environ.get("TAILRACE_SCENARIO", str(ROOT / "build" / "bin" / "autoscaler_scenario"))
MODEL = "emulated"
GOODPUT_MIN, REPLICAS_MAX = 0.93, 1.4
SCRAPE_S, WINDOW_S, WARM_UP_S = 5, 60, 300
LATE_MS = 5


def duration(seconds):
    """As configurations spell it."""
    return f"{max(1, round(1e3 * seconds))}ms"


class Prometheus:
    """Debian's, scraping a gateway and whatever engine listens on one of `ports`."""

    def __init__(self, folder, port, gateway, ports, scrape_s):
        self.folder, self.port = pathlib.Path(folder), port
        self.url = f"http://127.0.0.1:{self.port}"
        (self.folder / "engines.json").write_text(json.dumps([{"targets": [f"127.0.0.1:{port}" for port in ports]}]))
        interval = duration(scrape_s)
        (self.folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": [
                {"job_name": "gateway", "static_configs": [{"targets": [gateway]}]},
                {"job_name": "engines", "file_sd_configs": [{"files": ["engines.json"]}]}]}, indent=1))
        with open(self.folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def logs(self):
        return (self.folder / "prometheus.log").read_text(errors="replace")

    def value(self, query):
        """The one value of an instant query; none where there is no series."""
        status, body = http(f"{self.url}/api/v1/query?query={urllib.parse.quote(query)}")
        assert status == 200, body
        result = json.loads(body)["data"]["result"]
        return float(result[0]["value"][1]) if result else None

    def __enter__(self):
        try:
            wait_until(lambda: http(self.url + "/-/ready")[0] == 200, 60, self.logs)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)


def settings(plan, scale):
    """The analyzer's, as the simulated scenario has them, in scaled time."""
    return {"default": {
        "targetTTFT": plan["ttft_ms"] / scale, "targetITL": plan["itl_ms"] / scale, "percentile": 99,
        "startupTime": duration(plan["startup_s"] / scale), "scaleUpThreshold": 0.95, "scaleDownThreshold": 0.85,
        "drainTime": duration(60 / scale), "transientDelay": duration(120 / scale),
        "variants": {v["name"]: {"kneeTokens": v["knee_tokens"]} for v in plan["variants"]},
        "stabilisation": {"downWindow": duration(120 / scale), "upPeriod": duration(60 / scale),
                          "downPeriod": duration(60 / scale)}}}


class Stack:
    """Gateway, Prometheus and the autoscaler's files; engines come with autoscale()."""

    def __init__(self, folder, plan, scale):
        self.path, self.plan, self.scale = pathlib.Path(folder), plan, scale
        with contextlib.ExitStack() as begun:
            self._begin(begun)
            self.children = begun.pop_all()

    def _begin(self, children):
        plan, scale = self.plan, self.scale
        self.gateway = children.enter_context(Gateway({
            "backends": [], "predict": {"mode": "off"}, "schedule": {"policy": "fcfs"}, "health": {"interval": duration(2 / scale)}}))
        first = free_ports(sum(v["max"] for v in plan["variants"]) + 1)
        self.variants, ports = {}, []
        for variant in plan["variants"]:
            self.variants[variant["name"]] = self._variant(variant, first)
            ports += range(first, first + variant["max"])
            first += variant["max"]
        self.prometheus = children.enter_context(
            Prometheus(self.path, first, f"127.0.0.1:{self.gateway.admin_port}", ports, SCRAPE_S / scale))
        (self.path / "slo.yaml").write_text(json.dumps(settings(plan, scale), indent=1))
        self.config = {
            "interval": duration(plan["cycle_s"] / scale), "source": "prometheus",
            "prometheus": {"url": self.prometheus.url}, "settings": {"file": str(self.path / "slo.yaml")},
            "database": str(self.path / "autoscaler.db"),
            "observe": {"window": duration(WINDOW_S / scale), "stale_after": duration(60 / scale),
                        "unavailable_after": duration(300 / scale)},
            "metrics": {"listen": "127.0.0.1:0"}, "decision_log": {"file": str(self.path / "decisions.jsonl")},
            "processes": {"gateway": self.gateway.admin_url, "folder": str(self.path / "replicas")},
            "variants": self.variants}

    def _variant(self, variant, first_port):
        # A start-up is a time in which a process is there and does not listen yet.
        engine = [BIN, "engine", "--preset", variant["preset"], "--model", "{model}", "--port", "{port}",
                  "--max-num-seqs", str(variant["slots"]), "--alpha", str(variant["alpha_ms"] / self.scale),
                  "--beta", str(variant["beta_ms"] / self.scale), "--gamma", str(variant["gamma_ms"] / self.scale)]
        command = ["sh", "-c", f"sleep {self.plan['startup_s'] / self.scale:g}; exec \"$@\"", "start", *engine]
        return {"model": MODEL, "accelerator": variant["name"], "cost": variant["cost"], "min": variant["min"],
                "max": variant["max"], "slots": variant["slots"], "first_port": first_port,
                "max_batched_tokens": variant["max_batched_tokens"], "kv_tokens": variant["kv_tokens"],
                "drain_limit": duration(240 / self.scale), "command": command}

    def autoscale(self):
        path = self.path / "autoscaler.yaml"
        path.write_text(json.dumps(self.config, indent=1))
        return Program("autoscale", "-c", str(path))

    def serving(self):
        backends = self.gateway.admin("/tailrace/v1/backends")["backends"]
        return [b["name"] for b in backends if b["healthy"] and not b["draining"]]

    def replicas(self):
        """Processes that there are, by variant: those that start, serve and drain."""
        counts = dict.fromkeys(self.variants, 0)
        for replica in self.registry():
            if replica["process"]:
                counts[replica["name"].rsplit("-", 1)[0]] += 1
        return counts

    def registry(self):
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.path / "replicas" / "replicas.json").read_text())["replicas"]
        return []

    def decisions(self):
        path = self.path / "decisions.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for replica in self.registry():
            if replica["process"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(replica["process"]["pid"], signal.SIGKILL)
        self.children.close()


class Watch(threading.Thread):
    """Counts replicas ten times a second and, between, measures by how much the machine wakes a sleeper too late."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.samples, self.late_ms, self.ended = stack, [], [], threading.Event()

    def run(self):
        while not self.ended.is_set():
            self.samples.append((time.monotonic(), self.stack.replicas()))
            for _ in range(int(100 / LATE_MS)):
                begun = time.monotonic()
                time.sleep(LATE_MS / 1e3)
                self.late_ms.append(1e3 * (time.monotonic() - begun) - LATE_MS)

    def end(self):
        self.ended.set()
        self.join()

    def replica_s(self, from_s, to_s):
        """Integrals over a stretch of monotonic time, by variant."""
        out = dict.fromkeys(self.stack.variants, 0.0)
        for (at_s, counts), (next_s, _) in zip(self.samples, self.samples[1:]):
            length_s = max(0.0, min(next_s, to_s) - max(at_s, from_s))
            for name, count in counts.items():
                out[name] += count * length_s
        return out


def send(stack, requests, csv_path):
    """Open loop; the rows of the client's report, in the scenario's time, and the CPU seconds that it took."""
    command = [BIN, "load", "--url", stack.gateway.url, "--model", MODEL, "--requests", str(requests), "--send-lengths",
               "--time-scale", str(stack.scale), "--csv", str(csv_path)]
    before = os.times().children_user + os.times().children_system
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(csv_path, newline="") as file:
        rows = list(csv.DictReader(file))
    return rows, os.times().children_user + os.times().children_system - before


def met(row, plan):
    """Whether a request met both targets: its own time to the first token, its own mean time between tokens."""
    if row["error"] or not row["ttft_s"]:
        return False
    return 1e3 * float(row["ttft_s"]) <= plan["ttft_ms"] and 1e3 * float(row["itl_mean_s"] or 0) <= plan["itl_ms"]


def goodput(rows, plan, from_s, to_s):
    """Of the requests that were to be sent in [from_s, to_s)."""
    within = [row for row in rows if from_s <= float(row["intended_s"]) < to_s]
    return sum(met(row, plan) for row in within) / len(within)


def run(folder, plan, requests, scale, warm_up_s):
    """One run; what came of it, in the scenario's time."""
    with Stack(folder, plan, scale) as stack, stack.autoscale() as autoscaler:
        least = sum(v["min"] for v in plan["variants"])
        wait_until(lambda: len(stack.serving()) >= least, 60 + 2 * plan["startup_s"] / scale, autoscaler.logs)
        watch = Watch(stack)
        watch.start()
        begun, begun_unix = time.monotonic(), time.time()
        rows, client_cpu_s = send(stack, requests, pathlib.Path(folder) / "requests.csv")
        ended = time.monotonic()
        watch.end()

        def replica_s(from_s, to_s):
            parts = watch.replica_s(begun + (warm_up_s + from_s) / scale, begun + (warm_up_s + to_s) / scale)
            return {name: scale * seconds for name, seconds in parts.items()}
        costs = {v["name"]: v["cost"] for v in plan["variants"]}
        segments = []
        for segment in plan["segments"]:
            from_s, to_s = segment["from_s"], segment["to_s"]
            parts = replica_s(from_s, to_s)
            segments.append({**segment, "goodput": goodput(rows, plan, warm_up_s + from_s, warm_up_s + to_s),
                             "replica_s": sum(parts.values()), "parts": parts,
                             "cost_s": sum(costs[name] * s for name, s in parts.items())})
        last_s = plan["segments"][-1]["to_s"]
        scored = [row for row in rows if float(row["intended_s"]) >= warm_up_s]
        decisions = [d for d in stack.decisions() if d["time_s"] >= begun_unix + warm_up_s / scale]
        lag = stack.prometheus.value(f"max(max_over_time(tailrace_emulator_lag_seconds_max[{int(ended - begun) + 60}s]))")
        result = {
            "segments": segments, "offered": len(scored), "failed": sum(bool(row["error"]) for row in scored),
            "goodput": goodput(rows, plan, warm_up_s, warm_up_s + last_s),
            "replica_s": sum(s["replica_s"] for s in segments), "cost_s": sum(s["cost_s"] for s in segments),
            "most": max(sum(counts.values()) for _, counts in watch.samples),
            "ups": sum(d["action"] == "up" for d in decisions), "downs": sum(d["action"] == "down" for d in decisions),
            "cycles": len({d["cycle"] for d in decisions}),
            "tokens_per_s": max(tokens_per_s(rows, plan, s, warm_up_s) for s in plan["segments"]) * scale,
            "sent_late_ms": 1e3 * percentile([float(r["sent_s"]) - float(r["intended_s"]) for r in scored], 0.99) / scale,
            "woken_late_ms": [percentile(watch.late_ms, p) for p in (0.5, 0.99, 0.999)],
            "engine_late_ms": 1e3 * (lag or 0),
            "cpu": {"gateway": stack.gateway.cpu_seconds() / (ended - begun), "client": client_cpu_s / (ended - begun),
                    "autoscaler": autoscaler.cpu_seconds() / (ended - begun)},
            "load_average": os.getloadavg()[1], "wall_s": ended - begun}
        (pathlib.Path(folder) / "autoscaler.log").write_text(autoscaler.logs())
        assert autoscaler.stop() == 0
        return result


def tokens_per_s(rows, plan, segment, warm_up_s):
    """Answers' tokens of the requests of a segment, by its length."""
    tokens = sum(int(row["output_tokens"]) for row in rows
                 if segment["from_s"] <= float(row["intended_s"]) - warm_up_s < segment["to_s"])
    return tokens / (segment["to_s"] - segment["from_s"])


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def preface(plan, scale, seeds):
    first, second = plan["variants"]
    minutes = [(s["to_s"] - s["from_s"]) / 60 for s in plan["segments"]]
    return f"""# The autoscaler with real processes

`make autoscaler-real SEEDS={seeds}` writes this page. All parts are processes of their own on 127.0.0.1, as an operator would start them:
`tailrace serve`; Debian's `prometheus`, which scrapes the gateway and every port that an engine may listen on; `tailrace
autoscale` with `source: prometheus`, which starts and ends `tailrace engine` and registers it with the gateway; and `tailrace
load`, which sends each request at its time and measures from that time.

Everything runs {scale:g} times faster than the times on this page: the engines' milliseconds, targets, cycle, windows, start-up
and scrapes are divided by {scale:g}. Two things cannot be set and stay as they are: the four minutes of arrivals
and five of lengths that the autoscaler remembers, and the half second between two looks at a process.

- **Load.** {plan['base_rate']:g} requests/s for {minutes[0]:g} minutes, a ramp to {plan['peak_rate']:g} in {minutes[1]:g}, a plateau of {minutes[2]:g}, a fall to {plan['base_rate']:g} in {minutes[3]:g}, a lull of {minutes[4]:g}, after {WARM_UP_S // 60} minutes
  of the base load that do not count. Poisson arrivals; answers log-t (ν 3.5, mean 140 tokens, cut at 1024), prompts
  log-normal with a mean of 128. It is the [simulated scenario](autoscaler-scenario.md) with fewer tokens, so that two cores carry
  gateway, client and engines, and with a shorter plateau and lull.
- **Variants.** `{first['name']}` (preset {first['preset']}, cost {first['cost']:g}, at most {first['max']} replicas) and `{second['name']}` ({second['preset']}, cost {second['cost']:g}, at most
  {second['max']}), {first['slots']} sequences each, at least one of each. A process is there for {plan['startup_s']:g} s before it serves.
- **Targets.** P99 of TTFT {plan['ttft_ms']:g} ms, of ITL {plan['itl_ms']:g} ms. Goodput is the share of all requests that were due whose own TTFT and own mean
  time between tokens are within both.
- **Cycle.** Every {plan['cycle_s']:g} s; Prometheus scrapes every {SCRAPE_S} s. The analyzer's settings are those of the simulated scenario.
- **Clairvoyant.** As in simulation: the cheapest mix that keeps the targets at the highest rate from now to {plan['startup_s']:g} s ahead,
  where what a mix keeps was measured in the simulator with these engines and lengths (`build/bin/autoscaler_scenario --real
  --table`). Replica-seconds count every process from its start to its end.
"""


def simulated(seeds):
    """The table of the same scenario in simulation."""
    done = subprocess.run([PLAN, "--real", "--seeds", str(seeds)], capture_output=True, text=True)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("|"))


def report(plan, results):
    """Tables and verdicts; returns how many limits were missed."""
    names = [s["name"] for s in plan["segments"]]
    least = {key: sum(s["clairvoyant"][key] for s in plan["segments"]) for key in ("replica_s", "cost_s")}
    print("\n| run | " + " | ".join(names) + " | whole | replica-seconds | cost |")
    print("|---|" + "---|" * (len(names) + 3))
    for seed, r in results:
        row = " | ".join(f"{100 * s['goodput']:.2f}" for s in r["segments"])
        print(f"| {seed} | {row} | {100 * r['goodput']:.2f} | {r['replica_s'] / least['replica_s']:.3f} | "
              f"{r['cost_s'] / least['cost_s']:.3f} |")
    print("\nGoodput in %; replica-seconds and cost as multiples of the clairvoyant's. Replicas, as means of each segment:\n")
    print("| run | " + " | ".join(names) + " | most |")
    print("|---|" + "---|" * (len(names) + 1))
    lengths = [s["to_s"] - s["from_s"] for s in plan["segments"]]
    row = " | ".join(f"{s['clairvoyant']['replica_s'] / length:.2f}" for s, length in zip(plan["segments"], lengths))
    print(f"| clairvoyant | {row} | {max(s['clairvoyant']['replica_s'] / n for s, n in zip(plan['segments'], lengths)):.0f} |")
    for seed, r in results:
        row = " | ".join(f"{s['replica_s'] / n:.2f}" for s, n in zip(r["segments"], lengths))
        print(f"| {seed} | {row} | {r['most']} |")
    print("\nThe machine and what was asked of it:\n")
    print("| run | requests | failed | tokens/s, most | sent late, P99 | woken late, P50, P99, P99.9 | engine late, most | "
          "cores: gateway, client, autoscaler | load average, 5 min | increases, decreases | wall time |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for seed, r in results:
        woken = ", ".join(f"{ms:.2f}" for ms in r["woken_late_ms"])
        cores = ", ".join(f"{c:.2f}" for c in r["cpu"].values())
        print(f"| {seed} | {r['offered']} | {r['failed']} | {r['tokens_per_s']:.0f} | {r['sent_late_ms']:.2f} ms | {woken} ms | "
              f"{r['engine_late_ms']:.0f} ms | {cores} | {r['load_average']:.1f} | {r['ups']}, {r['downs']} in {r['cycles']} cycles | {r['wall_s']:.0f} s |")
    print("""
Milliseconds, tokens/s and cores of this table alone are of the machine's own clock. "Sent late": the client after a request's
time. "Woken late": how much later than asked a process woke that only slept. "Engine late": the most that an emulated engine was
behind its clock. A load average above 2 says that other work was on the machine.
""")
    worst = min(r["goodput"] for _, r in results)
    replicas = max(r["replica_s"] for _, r in results) / least["replica_s"]
    missed = 0
    for holds, text in ((worst >= GOODPUT_MIN, f"goodput of the whole at least {100 * GOODPUT_MIN:g} %, worst {100 * worst:.2f} %"),
                        (replicas <= REPLICAS_MAX, f"replica-seconds at most {REPLICAS_MAX:g} times the clairvoyant's, worst {replicas:.3f}")):
        print(f"- {text}: {'holds' if holds else '**missed**'}")
        missed += not holds
    print("\n## The same in simulation\n")
    print(f"`build/bin/autoscaler_scenario --real --seeds {len(results)}`: the same loop, the same engines and lengths, other arrivals, metrics that are never\n"
          "late, and no minutes before it begins.\n")
    print(simulated(len(results)))
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=4, help="scenario's seconds in one real second")
    parser.add_argument("--seeds", default="1", help="of the requests, with commas: a run for each")
    parser.add_argument("--keep", help="folder for all that a run leaves: logs, decisions, requests")
    args = parser.parse_args()
    if not shutil.which("prometheus"):
        print("autoscaler-real needs Debian's prometheus in PATH (tools/setup installs it)", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing that was started stays
    results = []
    for seed in args.seeds.split(","):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(args.keep) / seed if args.keep else \
                pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-real-")))
            folder.mkdir(parents=True, exist_ok=True)
            requests = folder / "requests.jsonl"
            made = subprocess.run([PLAN, "--plan", requests, "--warm-up", str(WARM_UP_S), "--seed", seed],
                                  capture_output=True, text=True, check=True)
            plan = json.loads(made.stdout)
            results.append((seed, run(folder, plan, requests, args.scale, WARM_UP_S)))
            if args.keep:
                (folder / "result.json").write_text(json.dumps(results[-1][1], indent=1))
    print(preface(plan, args.scale, args.seeds))
    print(f"On a machine with {os.cpu_count()} cores ({cpu_name()}):")
    return 1 if report(plan, results) else 0


if __name__ == "__main__":
    sys.exit(main())
