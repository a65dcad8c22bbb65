"""The demo from beginning to end with the emulated engine, for a short time, and what it leaves behind when it ends early."""
import json
import os
import pathlib
import signal
import subprocess
import sys

from harness import BIN, ROOT, wait_until


def start(folder, **environment):
    folder.joinpath("tmp").mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEMO_")}
    return subprocess.Popen(
        [sys.executable, str(ROOT / "demo" / "run.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**inherited, "TAILRACE_BIN": BIN, "DEMO_ENGINE": "emulator", "DEMO_SECONDS": "16", "DEMO_REPORT": str(folder / "report"),
             "TMPDIR": str(folder / "tmp"), **environment})


def left_over(folder):
    """Processes whose command line names the run's own temporary folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder / "tmp") in command:
                found.append(command)
    return found


def test_the_demo_measures_both_orders_and_reports(tmp_path):
    demo = start(tmp_path)
    output, _ = demo.communicate(timeout=150)
    assert demo.returncode == 0, output
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["rounds"] == ["fcfs", "tie", "fcfs", "tie"] and report["engine"]["emulated"]
    assert report["requests_per_round"] >= 8 and report["failed"] == 0
    assert report["equal_lengths_share"] == 1, "the emulator answers each request equally long in every round"
    assert report["ratio"]["low"] <= report["ratio"]["ratio"] <= report["ratio"]["high"]
    assert report["predictor"]["rank_correlation"] > 0.5
    rows = (tmp_path / "report" / "requests.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * report["requests_per_round"]
    assert "EMULATED" in output and "fcfs / tie" in output and (tmp_path / "report" / "report.md").read_text() in output
    assert left_over(tmp_path) == [] and os.listdir(tmp_path / "tmp") == []


def test_an_interrupted_demo_leaves_nothing_running(tmp_path):
    demo = start(tmp_path, DEMO_SECONDS="60")
    wait_until(lambda: any(" serve " in command for command in left_over(tmp_path)), timeout=30)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 130 and "interrupted" in output
    assert left_over(tmp_path) == [] and os.listdir(tmp_path / "tmp") == []


def test_a_killed_demo_leaves_nothing_running(tmp_path):
    demo = start(tmp_path, DEMO_SECONDS="60")
    wait_until(lambda: any(" serve " in command for command in left_over(tmp_path)), timeout=30)
    demo.kill()
    demo.communicate(timeout=30)
    wait_until(lambda: left_over(tmp_path) == [], timeout=20)


def test_a_missing_program_is_one_clear_error(tmp_path):
    demo = start(tmp_path, TAILRACE_BIN=str(tmp_path / "absent"))
    output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 1 and "could not be started" in output and "make build" in output
