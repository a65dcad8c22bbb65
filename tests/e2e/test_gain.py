"""Ordering by given length laws through real sockets beats arrival order. (`make gain` measures by how much.)"""
import subprocess
import sys

from harness import BIN, ROOT


def test_tie_beats_arrival_order_on_the_committed_workload():
    # One seed, and a bar well below the 3.1 of an idle machine: others may use this one.
    done = subprocess.run([sys.executable, ROOT / "bench/scheduling_gain", "--tailrace", BIN, "--seeds", "1", "--time-scale", "20",
                           "--ignore-busy", "--min-ratio", "1.5"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
