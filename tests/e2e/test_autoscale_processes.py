"""`tailrace autoscale` on one machine: engines come with load, go without, and outlive the autoscaler."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import harness
from harness import BIN, Gateway, Program, http

SLO = {"default": {"targetTTFT": 400, "targetITL": 30, "transientDelay": "2s",
                   "stabilisation": {"downWindow": "6s"}}}


def wait_until(condition, timeout, explain):
    harness.wait_until(condition, timeout, explain, interval=0.1)


def free_ports(count):
    """The first of `count` neighbouring ports that nobody uses."""
    for first in range(20000, 30000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
    raise AssertionError("no free ports")


class Machine:
    """A gateway without engines, and the file of an autoscaler that brings them."""

    def __init__(self, command=None, **variant):
        self.folder = tempfile.TemporaryDirectory(prefix="tailrace-e2e-")
        self.path = pathlib.Path(self.folder.name)
        self.gateway = Gateway({"backends": [], "predict": {"mode": "off"}, "health": {"interval": "200ms"}})
        (self.path / "slo.yaml").write_text(json.dumps(SLO))
        command = command or [BIN, "engine", "--preset", "a100-8b", "--max-num-seqs", "4", "--model", "{model}",
                              "--port", "{port}"]
        self.config = {
            "interval": "1s", "database": str(self.path / "autoscaler.db"), "settings": {"file": str(self.path / "slo.yaml")},
            "observe": {"window": "5s"}, "scrape": {"gateway": self.gateway.admin_url + "/metrics"},
            "metrics": {"listen": "127.0.0.1:0"},
            "processes": {"gateway": self.gateway.admin_url, "folder": str(self.path / "replicas")},
            "variants": {"small": {"model": "emulated", "accelerator": "CPU", "min": 1, "max": 3, "slots": 4,
                                   "first_port": free_ports(3), "drain_limit": "10s", "command": command, **variant}},
        }

    def autoscale(self):
        path = self.path / "autoscaler.yaml"
        path.write_text(json.dumps(self.config, indent=1))
        return Program("autoscale", "-c", str(path))

    def registry(self):
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.path / "replicas" / "replicas.json").read_text())["replicas"]
        return []

    def pids(self):
        return {r["name"]: r["process"]["pid"] for r in self.registry() if r["process"]}

    def backends(self):
        return {b["name"]: b for b in self.gateway.admin("/tailrace/v1/backends")["backends"]}

    def serving(self):
        return [name for name, b in self.backends().items() if b["healthy"] and not b["draining"]]

    def ask(self):
        body = {"model": "emulated", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
        return http(self.gateway.url + "/v1/chat/completions", "POST", body)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids().values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.gateway.__exit__()
        self.folder.cleanup()


def test_engines_come_with_load_serve_and_go_when_it_is_gone():
    with Machine() as machine, machine.autoscale() as autoscaler:
        wait_until(lambda: machine.serving() == ["small-0"], 40, autoscaler.logs)
        assert machine.ask() == 200
        load = subprocess.Popen([BIN, "load", "--url", machine.gateway.url, "--synthetic", "heavy-tail", "--send-lengths",
                                 "--rate", "8", "--duration", "40"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: len(machine.serving()) >= 2, 60, autoscaler.logs)
        finally:
            load.wait(120)
        wait_until(lambda: machine.serving() == ["small-0"] or len(machine.pids()) == 1, 120, autoscaler.logs)
        wait_until(lambda: len(machine.pids()) == 1, 60, autoscaler.logs)
        assert machine.ask() == 200
        assert autoscaler.stop() == 0
        assert len(machine.pids()) == 1, "engines outlive it"


def test_an_autoscaler_that_was_killed_finds_its_engines_and_starts_none_twice():
    with Machine(min=2) as machine:
        with machine.autoscale() as autoscaler:
            wait_until(lambda: len(machine.serving()) == 2, 40, autoscaler.logs)
            before = machine.pids()
            autoscaler.kill()
        assert machine.ask() == 200
        with machine.autoscale() as autoscaler:
            wait_until(lambda: autoscaler.logs().count("replica_adopted") == 2, 30, autoscaler.logs)
            time.sleep(4)
            assert machine.pids() == before
            assert "replica_started" not in autoscaler.logs()
            assert sorted(machine.serving()) == ["small-0", "small-1"]


def test_an_engine_that_is_killed_is_replaced():
    with Machine() as machine, machine.autoscale() as autoscaler:
        wait_until(lambda: machine.serving() == ["small-0"], 40, autoscaler.logs)
        pid = machine.pids()["small-0"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.pids().get("small-0", pid) != pid and machine.serving() == ["small-0"], 40, autoscaler.logs)
        assert machine.ask() == 200


def test_a_gateway_that_forgot_its_engines_is_told_again():
    with Machine() as machine, machine.autoscale() as autoscaler:
        wait_until(lambda: machine.serving() == ["small-0"], 40, autoscaler.logs)
        machine.gateway.admin("/tailrace/v1/backends/small-0", "DELETE")
        wait_until(lambda: machine.serving() == ["small-0"], 40, autoscaler.logs)


@pytest.mark.parametrize("command, why", [
    (["tailrace-no-such-engine", "{port}"], "tailrace-no-such-engine"),
    (["sh", "-c", "echo out of memory >&2; exit 7", "{port}"], "out of memory"),
])
def test_a_command_that_fails_is_said_and_tried_ever_more_rarely(command, why):
    with Machine(command=command) as machine, machine.autoscale() as autoscaler:
        wait_until(lambda: autoscaler.logs().count("replica_failed") >= 3, 40, autoscaler.logs)
        assert why in autoscaler.logs()
        so_far = autoscaler.logs().count("replica_failed")
        time.sleep(5)
        assert autoscaler.logs().count("replica_failed") <= so_far + 2, "pauses grow"
        assert autoscaler.process.poll() is None
