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
import stack

POLICIES = ("fcfs", "tie")
ROUNDS = ("fcfs", "tie", "fcfs", "tie")
LOAD_FACTOR = 1.5
DEFAULT_SECONDS = 320
# The warm-up takes its share of the time, and goes on up to the larger one while the predictor is not calibrated.
WARM_UP_SHARE, WARM_UP_SHARE_MAX = 0.33, 0.5
REQUEST_TIMEOUT_S = 300
FAILED_SHARE_MAX = 0.1


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


# The warm-up.


@dataclasses.dataclass(frozen=True)
class WarmUp:
    answers: dict  # kind → [client.Answer]
    calibrated: bool
    seconds: float

    @property
    def count(self):
        return sum(map(len, self.answers.values()))


def warm_up(servers, screen):
    """Teaches the predictor with prompts that are not measured, and sees how fast the engine is."""
    settings = servers.settings
    asked = prompts.requests("warm-up", prompts.available("warm-up"), settings.seed)
    kinds = {request.name: request.kind for request in asked}
    bodies = [(request.name, request.body(servers.model, settings.seed, settings.emulated)) for request in asked]
    model_file = servers.start_gateway("gateway-warm-up", "fcfs")
    began = time.monotonic()

    def calibrated():
        return servers.admin("predict", "POST", bodies[0][1])["calibrated"]

    def enough(answers):
        servers.check()
        elapsed = time.monotonic() - began
        share = elapsed / settings.seconds
        longer = share >= WARM_UP_SHARE and not calibrated()
        screen.progress(f"{len(answers)} answers, {elapsed:.0f} of {settings.seconds * WARM_UP_SHARE:.0f} s"
                        + (": longer, since the predictor is not calibrated yet" if longer else ""))
        return share >= WARM_UP_SHARE_MAX or (share >= WARM_UP_SHARE and not longer)

    answers = client.keep_in_flight(servers.port, bodies, stack.SLOTS, REQUEST_TIMEOUT_S, enough)
    check_failures(servers, [answer.error for answer in answers])
    known = calibrated()
    servers.gateway.stop()  # this writes what was learned
    if not model_file.exists():
        raise servers.gateway.failure("kept nothing of what it learned", stack.REPORT_IT)
    shutil.copyfile(model_file, servers.learned)
    by_kind = {}
    for answer in answers:
        if not answer.error:
            by_kind.setdefault(kinds[answer.name], []).append(answer)
    return WarmUp(by_kind, known, time.monotonic() - began)


def check_failures(servers, errors):
    failed = [error for error in errors if error]
    if not errors or len(failed) > FAILED_SHARE_MAX * len(errors):
        raise servers.gateway.failure(f"or the engine failed {len(failed)} of {len(errors)} requests ({failed[0] if failed else 'none'})",
                                      "try again with less running on the machine, or DEMO_ENGINE=emulator make demo")


# The measured rounds.


@dataclasses.dataclass(frozen=True)
class Plan:
    """The same for all rounds."""
    kinds: dict  # request → kind
    file: pathlib.Path  # the requests, as `tailrace load` reads them
    capacity_per_s: float
    expected_s: float  # of one round

    @property
    def rate_per_s(self):
        return LOAD_FACTOR * self.capacity_per_s


def plan_rounds(servers, warmed):
    settings = servers.settings
    service_s = {kind: statistics.fmean(a.end_to_end_s for a in answers) for kind, answers in warmed.answers.items()}
    capacity = measures.capacity(service_s, prompts.MIX, stack.SLOTS)
    # When the queue is empty the last long answers still run.
    tail_s = max(a.end_to_end_s for answers in warmed.answers.values() for a in answers) / 2
    seconds = settings.seconds - warmed.seconds
    count = measures.requests_that_fit(seconds, len(ROUNDS), capacity, tail_s, prompts.available("measured"))
    asked = prompts.requests("measured", count, settings.seed)
    path = servers.folder / "requests.jsonl"
    with open(path, "w") as file:
        for request in asked:
            file.write(json.dumps({"id": request.name, "prompt": request.prompt, "max_tokens": prompts.ANSWER_TOKENS_MAX,
                                   "output_tokens": request.emulated_tokens, "fields": {"temperature": 0, "seed": settings.seed}}) + "\n")
    return Plan({request.name: request.kind for request in asked}, path, capacity, count / capacity + tail_s)


def load_command(servers, plan, rows_file):
    command = [servers.settings.tailrace, "load", "--url", f"http://127.0.0.1:{servers.port}", "--model", servers.model,
               "--requests", plan.file, "--rate", f"{plan.rate_per_s:.6f}", "--seed", servers.settings.seed, "--timeout", REQUEST_TIMEOUT_S,
               "--json", "--csv", rows_file]
    return [*command, "--send-lengths"] if servers.settings.emulated else command


def measure_round(servers, screen, name, plan):
    """Sends the plan's requests to the gateway that runs; returns the rows of `tailrace load`, one per request."""
    rows_file = servers.folder / f"{name}.csv"
    load = servers.children.start(f"load-{name}", load_command(servers, plan, rows_file))
    began = time.monotonic()
    while load.running():
        elapsed = time.monotonic() - began
        servers.check()
        if elapsed > 5 * plan.expected_s + 60:
            raise load.failure(f"was not over after {elapsed:.0f} s", "the machine is too busy; try again with less running on it")
        waiting, running = servers.waiting_and_running()
        screen.progress(f"{waiting} requests wait, {running} run, {elapsed:.0f} of about {plan.expected_s:.0f} s")
        time.sleep(0.2)
    load.check_ended_well(stack.REPORT_IT)
    with open(rows_file, newline="") as file:
        return list(csv.DictReader(file))


def samples_of(servers, rows, kinds):
    """The rows as samples, and the share of requests whose place the predictor decided."""
    samples, decided = [], 0
    for row in rows:
        median, decides = servers.explained(row["request_id"])
        decided += decides
        end_to_end_s, between_s = float(row["e2e_s"]), float(row["itl_mean_s"] or 0) or None
        samples.append(measures.Sample(row["id"], kinds[row["id"]], max(1, int(row["output_tokens"])), float(row["ttft_s"] or end_to_end_s),
                                       end_to_end_s, between_s, median, row["error"]))
    return samples, decided / len(rows)


def measure_rounds(servers, screen, plan):
    """[(policy, samples)] of all rounds, and the share of places that the predictor decided in those of the second policy."""
    rounds, decided = [], []
    for number, policy in enumerate(ROUNDS, 1):
        screen.step(f"round {number} of {len(ROUNDS)}: {policy}")
        # A fresh one: a predictor that has already seen these prompts answered would be too good.
        servers.gateway.stop()
        name = f"round-{number}-{policy}"
        servers.start_gateway(f"gateway-{name}", policy)
        samples, share = samples_of(servers, measure_round(servers, screen, name, plan), plan.kinds)
        check_failures(servers, [sample.error for sample in samples])
        rounds.append((policy, samples))
        if policy == POLICIES[1]:
            decided.append(share)
        good = [sample for sample in samples if not sample.error]
        screen.step(f"  mean time per output token {report.figure(statistics.fmean(s.per_token_s for s in good))}, "
                    f"to first token {report.figure(statistics.fmean(s.ttft_s for s in good))}")
    return rounds, statistics.fmean(decided)


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


def result_of(servers, warmed, plan, rounds, decided_share):
    """The whole result as one document."""
    settings, first = servers.settings, [s for s in rounds[0][1] if not s.error]
    # The first round: its predictions were made before any measured prompt had been answered in an earlier one.
    known = [s for s in first if s.predicted_median is not None]
    correlation = measures.rank_correlation([s.predicted_median for s in known], [s.output_tokens for s in known])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "machine": machine(),
        "seed": settings.seed, "seconds": settings.seconds,
        "engine": {"emulated": settings.emulated, "model": servers.model, "description": servers.description, "slots": stack.SLOTS},
        "load": {"factor": LOAD_FACTOR, "capacity_per_s": plan.capacity_per_s, "rate_per_s": plan.rate_per_s},
        "predictor": {"warm_up_answers": warmed.count, "calibrated_after_warm_up": warmed.calibrated, "decided_share": decided_share,
                      "rank_correlation": correlation},
        "histogram": measures.histogram([s.output_tokens for s in first], prompts.ANSWER_TOKENS_MAX),
        **report.compare(rounds, POLICIES, settings.seed),
    }


# The whole.


def stay_until_interrupted(servers, screen):
    body = json.dumps({"model": servers.model, "max_tokens": 60, "stream": True,
                       "messages": [{"role": "user", "content": "What is the capital of Iceland?"}]})
    screen.line(f"\nThe gateway (policy {ROUNDS[-1]}) and the engine keep running until Ctrl-C. Try:\n\n"
                f"  curl -N http://127.0.0.1:{servers.port}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n\n"
                f"  curl http://127.0.0.1:{servers.admin_port}/tailrace/v1/queue\n")
    try:
        while True:
            servers.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        screen.line("\nstopped")


def run(settings, children, screen):
    servers = stack.Stack(settings, children)
    screen.step("starting the engine: " + ("tailrace engine, emulated" if settings.emulated else "SmolLM2-135M-Instruct on llama.cpp"))
    servers.start_engine()
    screen.step(f"the predictor learns from other prompts for about {settings.seconds * WARM_UP_SHARE:.0f} s, {stack.SLOTS} at a time")
    warmed = warm_up(servers, screen)
    plan = plan_rounds(servers, warmed)
    screen.step(f"{warmed.count} answers learned from: the predictor is {'calibrated' if warmed.calibrated else 'NOT calibrated yet'}; "
                f"the engine serves {plan.capacity_per_s:.2f} requests/s of this mix")
    screen.step(f"{len(ROUNDS)} rounds of {len(plan.kinds)} requests, about {plan.expected_s:.0f} s each")
    rounds, decided_share = measure_rounds(servers, screen, plan)
    result = result_of(servers, warmed, plan, rounds, decided_share)
    report.write(settings.report_folder, result, rounds)
    screen.line("\n" + report.text(result))
    screen.step(f"written: {settings.report_folder}/report.md, report.json, requests.csv")
    if settings.stay:
        stay_until_interrupted(servers, screen)


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
        except BrokenPipeError:  # the reader of our output has gone, as in `make demo | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the stopping
            children.stop()


if __name__ == "__main__":
    sys.exit(main())
