"""A machine with a gateway and no engines, for the tests of `tailrace autoscale`, which brings them."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import tempfile

import harness
from harness import BIN, Gateway, Program, http

SLO = {"default": {"targetTTFT": 400, "targetITL": 30, "transientDelay": "2s",
                   "stabilisation": {"downWindow": "3s"}}}


def wait_until(condition, timeout, explain):
    harness.wait_until(condition, timeout, explain, interval=0.1)


def free_ports(count):
    """The first of `count` neighbouring ports that nobody uses."""
    start = 20000 + os.getpid() * 16 % 10000  # of tests that run at the same time each begins elsewhere
    for first in range(start, start + 2000, count):
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

    def __init__(self, command=None, gateway=None, **variant):
        self.folder = tempfile.TemporaryDirectory(prefix="tailrace-e2e-")
        self.path = pathlib.Path(self.folder.name)
        self.gateway = Gateway({"backends": [], "predict": {"mode": "off"}, "health": {"interval": "200ms"}, **(gateway or {})})
        self.slo({})
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

    def slo(self, stabilisation, **more):
        """Writes the settings, with these instead of the usual ones."""
        usual = SLO["default"]
        merged = {**usual, **more, "stabilisation": {**usual["stabilisation"], **stabilisation}}
        (self.path / "slo.yaml").write_text(json.dumps({"default": merged}))

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
