"""`kill -9` of `tailrace autoscale` at any moment: no engine twice, none orphaned, every order ends once."""
import collections
import contextlib
import json
import pathlib
import random
import sqlite3
import subprocess
import threading
import time

from harness import BIN
from machine import Machine, wait_until

KILLS = 16


def engines_of(machine):
    """Living processes that an autoscaler of this machine has started, by the replica's name."""
    prefix = f"TAILRACE_REPLICA={machine.path}/replicas/".encode()
    found = collections.defaultdict(list)
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # A zombie's environment is empty: only the living are found.
            for pair in (folder / "environ").read_bytes().split(b"\0"):
                if pair.startswith(prefix):
                    found[pair[len(prefix):].decode()].append(int(folder.name))
    return dict(found)


class Pulses:
    """Load that comes for two seconds and goes for three, until it is told to end."""

    def __init__(self, url):
        self.command = [BIN, "load", "--url", url, "--synthetic", "heavy-tail:mu=3.6,cap=256", "--send-lengths",
                        "--count", "60", "--rate", "30", "--duration", "2", "--timeout", "20"]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.ended.is_set():
            subprocess.run(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            self.ended.wait(3)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def log_lines(machine):
    return [json.loads(line) for line in (machine.path / "decisions.jsonl").read_text().splitlines()]


def orders(machine):
    with contextlib.closing(sqlite3.connect(machine.path / "autoscaler.db")) as database:
        return database.execute("SELECT id, closed, logged, line FROM orders ORDER BY rowid").fetchall()


def wait_for_a_moment(autoscaler, chance, number):
    """Any moment; but every second time one while an order is carried out, if one comes soon."""
    if number % 2 == 0:
        return time.sleep(chance.uniform(0, 3))
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if any(event in autoscaler.logs() for event in ("replica_started", "replica_draining", "replica_kept")):
            return time.sleep(chance.uniform(0, 0.02))
        time.sleep(0.001)
    return None


def test_a_kill_at_any_moment_starts_nothing_twice_orphans_nothing_and_leaves_no_order_open():
    chance = random.Random(7)
    with Machine(max=4, drain_limit="2s") as machine:
        machine.config.update({
            "interval": "500ms", "observe": {"window": "2s"},
            "decision_log": {"file": str(machine.path / "decisions.jsonl"), "bytes_max": "64 MiB"},
        })
        machine.slo({"downWindow": "1s"}, transientDelay="0s")
        variant = machine.config["variants"]["small"]
        with Pulses(machine.gateway.url):
            for number in range(KILLS):
                # Load alone moves replicas where the machine is quick enough; the minimum always does.
                variant["min"] = chance.randint(1, 3)
                with machine.autoscale() as autoscaler:
                    wait_for_a_moment(autoscaler, chance, number)
                    autoscaler.kill()
                for name, pids in engines_of(machine).items():
                    assert len(pids) == 1, f"{name} runs twice: {pids}"
        variant["min"] = 2
        with machine.autoscale() as autoscaler:
            wait_until(lambda: len(machine.serving()) == 2 and len(engines_of(machine)) == 2, 30, autoscaler.logs)
            time.sleep(1.5)  # three more cycles, for what is not settled
            assert engines_of(machine) == {name: [pid] for name, pid in machine.pids().items()}, "twice, or orphaned"
            assert sorted(machine.serving()) == sorted(machine.backends()) == sorted(machine.pids())
            assert autoscaler.stop() == 0
        running = engines_of(machine)

        journal = orders(machine)
        assert len(journal) >= KILLS // 2, "too few orders for this to say anything"
        assert [id for id, closed, logged, _ in journal if not (closed and logged)] == []
        lines = log_lines(machine)
        times = collections.Counter(line["id"] for line in lines)
        assert [id for id, count in times.items() if count > 1] == []
        assert [id for id, *_ in journal if id not in times] == []
        for line in lines:
            outcome = line["outcome"]
            assert outcome["done"] or outcome["message"], line["id"]
            if outcome["done"] and "restart" not in outcome["message"]:
                assert f": {line['desired']} wanted" in outcome["message"], f"said to be done: {line['id']}"
        assert lines[-1]["desired"] == len(running)
