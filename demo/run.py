#!/usr/bin/env python3
"""The demo: does ordering by predicted length help, on this machine, with a real model?

Starts an engine with four slots and tailrace in front of it, lets the predictor learn from other prompts, then sends the same
requests in rounds fcfs, tie, fcfs, tie at 1.5 times what the engine can serve, and prints both side by side (docs/demo.md).
tools/demo installs what is needed and runs this; it uses nothing but Python's standard library.
"""
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import time

import client
import console
import measures
import processes
import prompts
import report

SLOTS = 4
POLICIES = ("fcfs", "tie")
ROUNDS = ("fcfs", "tie", "fcfs", "tie")
LOAD_FACTOR = 1.5
DEFAULT_SECONDS = 300
WARM_UP_SHARE = 0.28
# The predictor's own test of calibration comes on top; its usual 100 answers would take a small machine too long.
MIN_SAMPLES = 40
REQUEST_TIMEOUT_S = 300
FAILED_SHARE_MAX = 0.1
# About ten times as fast as the model on two cores, so that a short run has enough requests to say something.
EMULATED_ENGINE = ["--alpha", "2", "--beta", "0.25", "--gamma", "0", "--knee", "0", "--max-batched-tokens", "512", "--kv-tokens", "16384"]


@dataclasses.dataclass(frozen=True)
class Settings:
    tailrace: pathlib.Path
    emulated: bool
    model_python: str  # the interpreter that has the model's packages
    seconds: float
    seed: int
    report_folder: pathlib.Path
    stay: bool  # leave everything running at the end


def settings_from(environment, interactive):
    root = pathlib.Path(__file__).resolve().parents[1]

    def number(name, default, least):
        text = environment.get(name) or str(default)
        try:
            value = float(text)
        except ValueError:
            value = None
        if value is None or not least <= value < 1e6:
            raise processes.DemoError(f"{name} is {text!r}; it must be a number, at least {least}", f"for example: {name}=60 make demo")
        return value

    engine = environment.get("DEMO_ENGINE") or "model"
    if engine not in ("model", "emulator"):
        raise processes.DemoError(f"DEMO_ENGINE is {engine!r}; it must be model or emulator", "for example: DEMO_ENGINE=emulator make demo")
    return Settings(
        tailrace=pathlib.Path(environment.get("TAILRACE_BIN") or root / "build" / "tailrace"), emulated=engine == "emulator",
        model_python=environment.get("DEMO_PYTHON") or str(root / ".cache/demo-venv/bin/python"),
        seconds=number("DEMO_SECONDS", DEFAULT_SECONDS, 10), seed=int(number("DEMO_SEED", 1, 0)),
        report_folder=pathlib.Path(environment.get("DEMO_REPORT") or root / "demo-report"),
        stay=interactive and not environment.get("CI") and not environment.get("DEMO_SECONDS"))


class Demo:
    """One run. Every process it starts is in `children`, which the caller stops whatever happens."""

    def __init__(self, settings, children, screen):
        self.settings, self.children, self.screen = settings, children, screen
        self.folder = children.folder
        self.model_name = "emulated" if settings.emulated else "smollm2-135m-instruct"
        self.learned = self.folder / "learned.bin"
        self.engine = self.gateway = self.engine_port = self.port = self.admin_port = self.calibrated = None

    # Servers.

    def start_engine(self):
        if self.settings.emulated:
            command = [self.settings.tailrace, "engine", "--port", "0", "--model", self.model_name, "--max-num-seqs", SLOTS,
                       "--drain-timeout", 1, *EMULATED_ENGINE]
            self.description = f"EMULATED (tailrace engine, {SLOTS} slots; no language model)"
        else:
            threads = len(os.sched_getaffinity(0))
            command = [self.settings.model_python, pathlib.Path(__file__).with_name("model_server.py"), "--slots", SLOTS, "--threads", threads]
            self.description = f"SmolLM2-135M-Instruct (4-bit) on llama.cpp's server, {SLOTS} slots, {threads} threads, processor only"
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        self.engine, ports = self.children.start_server(
            "engine", command, remedy="try the emulator instead: DEMO_ENGINE=emulator make demo", environment=environment)
        self.engine_port = ports["port"]
        self.await_ok(self.engine, f"http://127.0.0.1:{self.engine_port}/health", "try the emulator instead: DEMO_ENGINE=emulator make demo")

    def start_gateway(self, name, policy):
        """A fresh gateway that knows what `self.learned` holds, so that no round profits from what another one taught."""
        model_file = self.folder / f"{name}.model"
        if self.learned.exists():
            shutil.copyfile(self.learned, model_file)
        config = {
            "listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"},
            "backends": [{"name": "demo", "url": f"http://127.0.0.1:{self.engine_port}", "models": [self.model_name], "slots": SLOTS}],
            "schedule": {"policy": policy}, "drain": {"limit": "2s"},
            "predict": {"mode": "on", "min_samples": MIN_SAMPLES, "model_file": str(model_file)},
        }
        config_file = self.folder / f"{name}.yaml"
        config_file.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML
        remedy = "if this repeats, report it with the log above"
        self.gateway, ports = self.children.start_server(name, [self.settings.tailrace, "serve", "-c", config_file], remedy)
        self.port, self.admin_port = ports["public"], ports["admin"]
        self.await_ok(self.gateway, f"http://127.0.0.1:{self.port}/readyz", remedy)
        return model_file

    def await_ok(self, child, url, remedy, patience_s=30):
        deadline = time.monotonic() + patience_s
        while client.fetch(url, timeout_s=2)[0] != 200:
            child.check(remedy)
            if time.monotonic() > deadline:
                raise child.failure(f"was not ready within {patience_s} s", remedy)
            time.sleep(0.05)

    def admin(self, path, method="GET", document=None):
        """A question to the gateway's admin API."""
        status, body = client.fetch(f"http://127.0.0.1:{self.admin_port}/tailrace/v1/{path}", method, document)
        if status != 200:
            raise self.gateway.failure(f"answered {status} to {method} {path}: {body}", "if this repeats, report it")
        return body

    # Phases.

    def warm_up(self):
        """Teaches the predictor with prompts that are not measured; returns the answers by kind."""
        seconds = self.settings.seconds * WARM_UP_SHARE
        asked = prompts.requests("warm-up", prompts.available("warm-up"), self.settings.seed)
        kinds = {request.name: request.kind for request in asked}
        bodies = [(request.name, request.body(self.model_name, self.settings.seed, self.settings.emulated)) for request in asked]
        model_file = self.start_gateway("gateway-warm-up", "fcfs")
        began = time.monotonic()

        def show(answers):
            self.engine.check("try again; on a machine with little memory close other programs first")
            self.gateway.check("if this repeats, report it with the log above")
            self.screen.progress(f"{len(answers)} answers, {time.monotonic() - began:.0f} of {seconds:.0f} s")

        answers = client.keep_in_flight(self.port, bodies, SLOTS, began + seconds, REQUEST_TIMEOUT_S, show)
        good = [answer for answer in answers if not answer.error]
        if len(good) < max(1, len(answers) * (1 - FAILED_SHARE_MAX)):
            first = next(answer.error for answer in answers if answer.error)
            raise self.gateway.failure(f"or the engine failed {len(answers) - len(good)} of {len(answers)} warm-up requests ({first})",
                                       "look at the engine's log, or try DEMO_ENGINE=emulator make demo")
        self.calibrated = self.admin("predict", "POST", bodies[0][1])["calibrated"]
        self.gateway.stop()  # this writes what was learned
        if model_file.exists():
            shutil.copyfile(model_file, self.learned)
        by_kind = {}
        for answer in good:
            by_kind.setdefault(kinds[answer.name], []).append(answer)
        return by_kind

    def measure_round(self, number, policy, requests_file, count, rate, expected_s):
        """One round; returns its rows of `tailrace load` with what the gateway predicted."""
        name = f"round-{number}-{policy}"
        self.start_gateway(f"gateway-{name}", policy)
        rows_file, summary_file = self.folder / f"{name}.csv", self.folder / f"{name}.json"
        command = [self.settings.tailrace, "load", "--url", f"http://127.0.0.1:{self.port}", "--model", self.model_name, "--requests", requests_file,
                   "--rate", f"{rate:.6f}", "--seed", self.settings.seed, "--json", "--csv", rows_file, "--timeout", REQUEST_TIMEOUT_S]
        if self.settings.emulated:
            command.append("--send-lengths")
        with open(summary_file, "wb") as summary:
            load = self.children.start(f"load-{name}", command, stdout=summary)
        began = time.monotonic()
        while load.running():
            elapsed = time.monotonic() - began
            self.engine.check("try again; on a machine with little memory close other programs first")
            if elapsed > 5 * expected_s + 60:
                raise load.failure(f"was not over after {elapsed:.0f} s", "the machine is too busy; try again with less running on it")
            pool = next(iter(self.admin("queue")["pools"]), {"waiting": 0, "running": 0})
            self.screen.progress(f"{count} requests: {pool['waiting']} wait, {pool['running']} run, {elapsed:.0f} of about {expected_s:.0f} s")
            time.sleep(0.2)
        if load.process.returncode != 0:
            raise load.failure(f"ended with status {load.process.returncode}", "if this repeats, report it with the log above")
        with open(rows_file, newline="") as file:
            return list(csv.DictReader(file))

    def explained(self, row):
        """(predicted median, whether it decided the order) of a finished request."""
        if not row["request_id"]:
            return None, False
        law = self.admin(f"explain/{row['request_id']}").get("law") or {}
        return law.get("p50"), bool(law.get("decides_order"))

    def samples(self, rows, kinds):
        """The round's rows as samples, and the share whose place the predictor decided."""
        result, decided = [], 0
        for row in rows:
            median, decides = self.explained(row)
            decided += decides
            result.append(measures.Sample(row["id"], kinds[row["id"]], max(1, int(row["output_tokens"])), float(row["ttft_s"] or row["e2e_s"]),
                                          float(row["e2e_s"]), float(row["itl_mean_s"] or 0) or None, median, row["error"]))
        return result, decided / len(rows)


def write_requests(path, requests, settings):
    with open(path, "w") as file:
        for request in requests:
            file.write(json.dumps({"id": request.name, "prompt": request.prompt, "max_tokens": prompts.ANSWER_TOKENS_MAX,
                                   "output_tokens": request.emulated_tokens, "fields": {"temperature": 0, "seed": settings.seed}}) + "\n")


def machine():
    """Processor and system in a few words."""
    cpu = platform.machine()
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux") if os.path.exists("/etc/os-release") else "Linux"
    return f"{len(os.sched_getaffinity(0))} cores of {cpu}, {release}"


def measure_all(demo, by_kind):
    """All rounds; returns (result document, [(round, policy, sample)])."""
    settings, screen = demo.settings, demo.screen
    service_s = {kind: statistics.fmean(a.end_to_end_s for a in answers) for kind, answers in by_kind.items()}
    capacity = measures.capacity(service_s, prompts.MIX, SLOTS)
    tail_s = max(a.end_to_end_s for answers in by_kind.values() for a in answers) / 2
    seconds = settings.seconds * (1 - WARM_UP_SHARE)
    count = measures.requests_that_fit(seconds, len(ROUNDS), capacity, tail_s, prompts.available("measured"))
    expected_s = count / capacity + tail_s
    asked = prompts.requests("measured", count, settings.seed)
    kinds = {request.name: request.kind for request in asked}
    requests_file = demo.folder / "requests.jsonl"
    write_requests(requests_file, asked, settings)
    warm_up_answers = sum(map(len, by_kind.values()))
    screen.step(f"{warm_up_answers} answers learned from: the predictor is {'calibrated' if demo.calibrated else 'NOT calibrated yet'}; the engine serves {capacity:.2f} requests/s of this mix. "
                f"Now {len(ROUNDS)} rounds of {count} requests, about {expected_s:.0f} s each")
    rounds, decided = [], []
    for number, policy in enumerate(ROUNDS, 1):
        screen.step(f"round {number} of {len(ROUNDS)}: {policy}")
        if number > 1:
            demo.gateway.stop()
        rows = demo.measure_round(number, policy, requests_file, count, LOAD_FACTOR * capacity, expected_s)
        samples, share = demo.samples(rows, kinds)
        check_failures(demo, samples)
        rounds.append((policy, samples))
        if policy == POLICIES[1]:
            decided.append(share)
        good = [s for s in samples if not s.error]
        screen.step(f"  mean time per output token {report.figure(statistics.fmean(s.per_token_s for s in good))}, "
                    f"to first token {report.figure(statistics.fmean(s.ttft_s for s in good))}")
    result = compare(demo, rounds, {"factor": LOAD_FACTOR, "capacity_per_s": capacity, "rate_per_s": LOAD_FACTOR * capacity},
                     {"warm_up_answers": warm_up_answers, "calibrated_after_warm_up": demo.calibrated, "decided_share": statistics.fmean(decided)})
    return result, [(number, policy, s) for number, (policy, samples) in enumerate(rounds, 1) for s in samples]


def check_failures(demo, samples):
    failed = [s for s in samples if s.error]
    if len(failed) > FAILED_SHARE_MAX * len(samples):
        raise demo.engine.failure(f"or the gateway failed {len(failed)} of {len(samples)} requests ({failed[0].error})",
                                  "try again with less running on the machine, or DEMO_ENGINE=emulator make demo")


def compare(demo, rounds, load, predictor):
    settings = demo.settings
    # The first round: its predictions were made before any measured prompt had been answered.
    known = [s for s in rounds[0][1] if not s.error and s.predicted_median is not None]
    predictor["rank_correlation"] = measures.rank_correlation([s.predicted_median for s in known], [s.output_tokens for s in known])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "machine": machine(), "seed": settings.seed,
        "seconds": settings.seconds, "engine": {"emulated": settings.emulated, "model": demo.model_name, "description": demo.description},
        "load": load, **report.result_of(rounds, POLICIES, settings.seed), "predictor": predictor,
        "histogram": measures.histogram([s.output_tokens for s in rounds[0][1] if not s.error], prompts.ANSWER_TOKENS_MAX),
    }


def stay_until_interrupted(demo):
    body = json.dumps({"model": demo.model_name, "max_tokens": 60, "stream": True,
                       "messages": [{"role": "user", "content": "What is the capital of Iceland?"}]})
    demo.screen.line(f"\nThe gateway (policy {ROUNDS[-1]}) and the engine keep running until Ctrl-C. Try:\n\n"
                     f"  curl -N http://127.0.0.1:{demo.port}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n\n"
                     f"  curl http://127.0.0.1:{demo.admin_port}/tailrace/v1/queue\n")
    try:
        while True:
            demo.engine.check("start the demo again")
            demo.gateway.check("start the demo again")
            time.sleep(0.5)
    except KeyboardInterrupt:
        demo.screen.line("\nstopped")


def run(settings, children, screen):
    demo = Demo(settings, children, screen)
    screen.step("starting the engine: " + ("tailrace engine, emulated" if settings.emulated else "SmolLM2-135M-Instruct on llama.cpp"))
    demo.start_engine()
    screen.step(f"the predictor learns from other prompts for up to {settings.seconds * WARM_UP_SHARE:.0f} s, {SLOTS} at a time")
    by_kind = demo.warm_up()
    result, samples = measure_all(demo, by_kind)
    report.write(settings.report_folder, result, samples)
    screen.line("\n" + report.text(result))
    screen.step(f"written: {settings.report_folder}/report.md, report.json, requests.csv")
    if settings.stay:
        stay_until_interrupted(demo)


def main():
    screen = console.Console()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
        children = processes.Children(folder)
        try:
            run(settings_from(os.environ, sys.stdout.isatty()), children, screen)
            return 0
        except processes.DemoError as error:
            screen.line(f"\ndemo: {error}\n  What to do: {error.remedy}")
            return 1
        except KeyboardInterrupt:
            screen.line("\ndemo: interrupted; stopping what was started")
            return 130
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the stopping
            children.stop()


if __name__ == "__main__":
    sys.exit(main())
