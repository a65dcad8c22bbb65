"""`tailrace autoscale` on one machine: engines come with load, go without, and outlive the autoscaler."""
import contextlib
import os
import signal
import subprocess
import time

import pytest

from harness import BIN
from machine import Machine, wait_until


@contextlib.contextmanager
def load(machine, rate):
    command = [BIN, "load", "--url", machine.gateway.url, "--synthetic", "heavy-tail", "--send-lengths", "--rate", str(rate),
               "--count", str(rate * 90)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the load ended too soon"
    finally:
        process.kill()
        process.wait()


def test_engines_come_with_load_serve_and_go_when_it_is_gone():
    with Machine() as machine, machine.autoscale() as autoscaler:
        wait_until(lambda: machine.serving() == ["small-0"], 40, autoscaler.logs)
        assert machine.ask() == 200
        with load(machine, rate=20):
            wait_until(lambda: len(machine.serving()) >= 2, 60, autoscaler.logs)
        wait_until(lambda: len(machine.pids()) == 1 and len(machine.serving()) == 1, 60, autoscaler.logs)
        assert autoscaler.logs().count("replica_deregistered") == autoscaler.logs().count("replica_stopped") >= 1
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
            time.sleep(2.5)  # two cycles and more
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
        time.sleep(3)  # the third pause is of 4 s
        assert autoscaler.logs().count("replica_failed") <= so_far + 1, "pauses grow"
        assert autoscaler.process.poll() is None


def test_a_request_at_zero_engines_waits_for_the_one_that_it_wakes_and_the_last_one_goes_again():
    with Machine(gateway={"models": {"emulated": {"awaited": True}}}, min=0) as machine:
        machine.slo({}, scaleToZero=True, retention="3s")
        with machine.autoscale() as autoscaler:
            wait_until(lambda: autoscaler.logs().count("event=cycle") >= 4, 30, autoscaler.logs)
            assert machine.pids() == {}, "nobody has asked yet"
            assert machine.ask() == 200
            assert machine.serving() == ["small-0"]
            wait_until(lambda: machine.pids() == {} and machine.serving() == [], 60, autoscaler.logs)
            assert machine.ask() == 200, "and up again"
