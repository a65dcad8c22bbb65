"""`tailrace autoscale` with real engine processes on this machine: decide, explain, reload, end."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from harness import BIN, Program, http, wait_until


def free_ports(count):
    """The first of `count` free ports in a row."""
    for first in range(21000, 60000, 37):
        try:
            sockets = []
            for port in range(first, first + count):
                sock = socket.socket()
                sockets.append(sock)
                sock.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for sock in sockets:
                sock.close()
    raise AssertionError("no free ports")


class Setup:
    """An autoscaler.yaml in a folder of its own; its replicas end with it."""

    def __init__(self, **more):
        self.folder = tempfile.TemporaryDirectory(prefix="tailrace-e2e-")
        self.path = pathlib.Path(self.folder.name)
        self.config = {
            "interval": "500ms",
            "database": str(self.path / "autoscaler.db"),
            "metrics": {"listen": "127.0.0.1:0"},
            "decision_log": {"file": str(self.path / "decisions.log")},
            "observe": {"window": "5s"},
            "variants": {"small": {"model": "m", "accelerator": "cpu", "min": 1, "max": 2, "first_port": free_ports(2),
                                   "command": [BIN, "engine", "--port", "{port}", "--model", "{model}"]}},
            **more}
        self.write()

    def write(self):
        (self.path / "autoscaler.yaml").write_text(json.dumps(self.config))

    def args(self, *more):
        return ["autoscale", "-c", str(self.path / "autoscaler.yaml"), *more]

    def run(self, *more):
        return subprocess.run([BIN, *self.args(*more)], capture_output=True, text=True, timeout=60)

    def lines(self):
        log = self.path / "decisions.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def replicas(self):
        registry = self.path / "tailrace-replicas" / "replicas.json"
        return json.loads(registry.read_text())["replicas"] if registry.exists() else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines():
            port = str(self.config["variants"]["small"]["first_port"])
            pid, _, command = line.strip().partition(" ")
            if command.startswith(BIN) and f"--port {port[:-1]}" in command:
                subprocess.run(["kill", pid])
        self.folder.cleanup()


def test_a_dry_run_before_anything_runs_changes_nothing_and_says_so():
    with Setup() as setup:
        done = setup.run("--once", "--dry-run")
        assert done.returncode == 1, done.stderr  # no metrics: it could not decide
        assert "dry run: nothing is changed" in done.stdout
        assert "small" in done.stdout and "default/m" in done.stdout
        assert not (setup.path / "autoscaler.db").exists()
        assert setup.lines() == []
        document = json.loads(setup.run("--once", "--dry-run", "--json").stdout)
        assert document["dry_run"] is True
        assert [v["variant"] for m in document["models"] for v in m["variants"]] == ["small"]


def test_it_keeps_the_minimum_running_tells_why_and_leaves_replicas_when_it_ends():
    with Setup() as setup:
        with Program(*setup.args()) as program:
            url = f"http://127.0.0.1:{program.ports['metrics']}"
            wait_until(lambda: http(url + "/readyz")[0] == 200, 20, program.logs)
            assert http(url + "/healthz") == (200, b"ok\n")
            port = setup.config["variants"]["small"]["first_port"]
            wait_until(lambda: http(f"http://127.0.0.1:{port}/health")[0] == 200, 20, program.logs)

            def current():
                status, body = http(url + "/tailrace/v1/decisions")
                variants = [v for m in json.loads(body)["models"] for v in m["variants"]] if status == 200 else []
                return variants[0]["current"] if variants else 0
            wait_until(lambda: current() == 1, 20, program.logs)
            assert b"tailrace_" in http(url + "/metrics")[1]
            shown = subprocess.run([BIN, "explain", "--decision", "--autoscaler", url], capture_output=True, text=True, timeout=20)
            assert shown.returncode == 0, shown.stderr
            assert "small" in shown.stdout and "1 serve" in shown.stdout
            # SIGHUP reads the file again; replicas stay.
            setup.config["interval"] = "300ms"
            setup.write()
            program.process.send_signal(signal.SIGHUP)
            wait_until(lambda: program.logs().count("event=listening") + program.logs().count("listening metrics") >= 2
                       or program.logs().count("listening") >= 2, 20, program.logs)
            assert http(f"http://127.0.0.1:{port}/health")[0] == 200
            assert program.stop() == 0, program.logs()
        assert http(f"http://127.0.0.1:{port}/health")[0] == 200
        lines = setup.lines()
        ids = [line["id"] for line in lines]
        assert len(ids) == len(set(ids)) > 0
        for line in lines:
            assert {"id", "variant", "desired", "reason", "slo", "parameters", "inputs", "binding", "outcome"} <= line.keys()
        database = str(setup.path / "autoscaler.db")
        shown = subprocess.run([BIN, "explain", "--decision", "small", "--autoscaler", database], capture_output=True, text=True, timeout=20)
        assert shown.returncode == 0 and "small" in shown.stdout, shown.stderr
        shown = subprocess.run([BIN, "explain", "--decision", "large", "--autoscaler", database], capture_output=True, text=True, timeout=20)
        assert shown.returncode == 2 and "no variant" in shown.stderr


def test_a_second_one_on_the_same_database_is_refused_and_a_dry_run_beside_it_is_not():
    with Setup() as setup, Program(*setup.args()) as program:
        second = setup.run("--once")
        assert second.returncode == 1 and "another autoscaler uses it" in second.stderr
        assert setup.run("--once", "--dry-run").returncode in (0, 1)
        assert program.stop() == 0


@pytest.mark.parametrize("change, words", [
    ({"intervall": "5s"}, "intervall"),
    ({"interval": "5"}, "interval"),
    ({"variants": {}}, "variants: has none"),
    ({"metrics": {"listen": "nowhere"}}, "host:port"),
])
def test_a_bad_file_is_refused_with_place_and_remedy(change, words):
    with Setup() as setup:
        good, setup.config = setup.config, {**setup.config, **change}
        setup.write()
        for command in (setup.run("--once"), subprocess.run([BIN, "check", str(setup.path / "autoscaler.yaml")], capture_output=True, text=True, timeout=20)):
            assert command.returncode == 2
            assert words in command.stderr
        setup.config = good


def test_once_that_a_signal_ends_has_failed_and_says_so_and_a_hang_up_does_not_end_it():
    with Setup(interval="60s") as setup:
        process = subprocess.Popen([BIN, *setup.args("--once", "--dry-run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = process.stderr.readline()  # it waits for the second reading
        assert "second_look" in said
        process.send_signal(signal.SIGHUP)
        assert "signal_ignored" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
        assert process.returncode == 1
        assert output == ""
        assert "ended by a signal before it had decided" in errors


def test_once_with_two_documents_for_standard_output_is_refused():
    with Setup(decision_log={"file": "-"}) as setup:
        done = setup.run("--once", "--json")
        assert done.returncode == 2 and done.stdout == ""
        assert "decision_log.file" in done.stderr
        document = json.loads(setup.run("--once", "--json", "--dry-run").stdout)  # which writes no log
        assert document["dry_run"] is True


def test_a_file_that_cannot_be_launched_leaves_the_old_one_in_force():
    with Setup() as setup, Program(*setup.args()) as program, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        setup.config["metrics"] = {"listen": f"127.0.0.1:{taken.getsockname()[1]}"}
        setup.write()
        program.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the old one is in force again" in program.logs(), 20, program.logs)
        wait_until(lambda: program.logs().count("event=cycle ") > 0
                   and program.logs().rindex("event=cycle ") > program.logs().index("in force again"), 20, program.logs)
        assert "metrics.listen" in program.logs()
        assert program.stop() == 0, program.logs()


def test_a_database_that_is_gone_for_good_does_not_end_it_at_a_reload():
    with tempfile.TemporaryDirectory(prefix="tailrace-e2e-") as elsewhere, \
            Setup(database=elsewhere + "/kept/autoscaler.db", processes={"folder": elsewhere + "/replicas"}) as setup:
        kept = pathlib.Path(elsewhere) / "kept"
        kept.mkdir()
        with Program(*setup.args()) as program:
            wait_until(lambda: "event=cycle " in program.logs(), 20, program.logs)
            shutil.rmtree(kept)
            kept.write_text("in the way of its folder")
            program.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "event=database" in program.logs(), 20, program.logs)
            after = program.logs().index("event=database")
            wait_until(lambda: program.logs().count("event=cycle ", after) >= 2, 20, program.logs)
            assert "removed or replaced while in use" in program.logs()[after:]
            assert program.stop() == 0, program.logs()


def test_a_pipe_in_place_of_its_file_does_not_hold_it_up():
    with Setup() as setup, Program(*setup.args()) as program:
        (setup.path / "autoscaler.yaml").unlink()
        os.mkfifo(setup.path / "autoscaler.yaml")
        program.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "is no regular file" in program.logs(), 20, program.logs)
        after = len(program.logs())
        wait_until(lambda: program.logs().count("event=cycle ", after) >= 2, 20, program.logs)
        assert program.stop() == 0, program.logs()


@pytest.mark.parametrize("path", ["", "processes.token_file", "prometheus.token_file", "prometheus.ca_file",
                                  "prometheus.client_certificate_file", "kubernetes.kubeconfig"])
def test_a_pipe_as_a_file_that_is_read_at_start_is_named_instead_of_waited_for(path):
    with Setup() as setup:
        pipe = setup.path / "pipe"
        os.mkfifo(pipe)
        section, _, key = path.rpartition(".")
        if section == "prometheus":
            beside = {"client_key_file": __file__} if "certificate" in key else {}
            setup.config.update(source="prometheus", prometheus={"url": "https://127.0.0.1:1", key: str(pipe), **beside})
        elif section:
            setup.config[section] = {key: str(pipe)}
        config = setup.config
        if section == "kubernetes":
            config = {"platform": "kubernetes", **{k: v for k, v in config.items() if k != "variants"}}
        (setup.path / "autoscaler.yaml").write_text(json.dumps(config))
        config = setup.args()[2] if path else str(pipe)
        done = subprocess.run([BIN, "autoscale", "-c", config, "--once"], capture_output=True, text=True, timeout=20)
        assert done.returncode == (1 if path == "prometheus.token_file" else 2) and str(pipe) in done.stderr and "no regular file" in done.stderr, done


def test_a_named_pipe_as_decision_log_is_refused():
    with Setup() as setup:
        os.mkfifo(setup.path / "decisions.log")
        done = setup.run("--once")
        assert done.returncode == 2 and "named pipe" in done.stderr
