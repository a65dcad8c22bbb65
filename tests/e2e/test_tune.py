"""`tailrace tune`: one line for each time, the published filter's replay, and hostile recordings."""
import csv
import http.server
import io
import json
import math
import subprocess
import sys
import threading
import urllib.parse

import pytest

from harness import BIN, ROOT

sys.path.insert(0, str(ROOT / "tests/data"))
import make_observations as recordings  # noqa: E402

HEADER = "time_s,pod,rate,input,output,ttft_ms,itl_ms\n"
SAWTOOTH = ROOT / "tests/data/granite_sawtooth.csv"
FIELDS = {"time_s", "alpha", "beta", "gamma", "identified", "condition", "nis", "accepted", "rate", "rate_low", "rate_high", "reason"}


def tune(*args, stdin=None):
    return subprocess.run([BIN, "tune", *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120)


def lines(*args, stdin=None):
    done = tune(*args, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    documents = [json.loads(line, parse_constant=lambda name: pytest.fail(name)) for line in done.stdout.splitlines()]
    for document in documents:
        assert FIELDS <= set(document)
        assert document["reason"]
        for name, value in document.items():
            assert not isinstance(value, float) or math.isfinite(value), (name, document)
    return documents


def text(server, loads):
    file = io.StringIO()
    recordings.write(file, server, loads)
    return file.getvalue()


def kalman(server, loads):
    return lines("-", "--estimator", "kalman", "--max-batch", server["max_batch"], stdin=text(server, loads))


@pytest.mark.parametrize("server, loads, counts, rate", [
    (recordings.QWEN, recordings.constant(0.05), (0, 40, 0), 0.21),
    (recordings.QWEN, recordings.constant(0.10), (0, 40, 0), 0.20),
    (recordings.QWEN, recordings.constant(0.30), (0, 0, 40), None),
    (recordings.QWEN, recordings.constant(0.50), (0, 0, 40), None),
    (recordings.QWEN, recordings.ramp(), (1, 25, 55), 0.25),
    (recordings.LLAMA, recordings.constant(0.05), (0, 40, 0), 0.17),
    (recordings.LLAMA, recordings.constant(0.10), (0, 40, 0), 0.17),
    (recordings.LLAMA, recordings.constant(0.30), (0, 0, 40), None),
    (recordings.LLAMA, recordings.sawtooth(), (0, 16, 64), 0.17),
    (recordings.GRANITE, recordings.constant(0.05), (40, 0, 0), 1.20),
    (recordings.GRANITE, recordings.constant(0.30), (0, 40, 0), 0.86),
    (recordings.GRANITE, recordings.sawtooth(), (79, 1, 0), 1.00),
])
def test_kalman_repeats_the_published_filter_cycle_by_cycle(server, loads, counts, rate):
    documents = kalman(server, loads)
    assert [d["time_s"] for d in documents] == [60 * (k + 1) for k in range(len(loads))]
    accepted = sum(d["accepted"] for d in documents)
    rejected = sum(not d["accepted"] and d["nis"] is not None for d in documents)
    assert (accepted, rejected, len(documents) - accepted - rejected) == counts
    last = documents[-1]
    if rate is None:
        assert last["alpha"] is None and last["rate"] is None
        assert all(d["reason"].startswith("not created") for d in documents)
    else:
        learnt = recordings.saturation_rate(server, (last["alpha"], last["beta"], last["gamma"]))
        assert learnt / recordings.saturation_rate(server) == pytest.approx(rate, abs=0.005)


def test_the_shipped_recording_is_what_its_generator_writes():
    assert SAWTOOTH.read_text() == text(recordings.GRANITE, recordings.sawtooth())


def test_the_table_has_a_row_for_each_time():
    done = tune(SAWTOOTH, "--estimator", "kalman", "--max-batch", 64)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 81
    assert "rejected: NIS 7.59596 is not below 7.378" in done.stdout.splitlines()[1]


def test_windowed_is_the_default_and_reports_from_the_first_row():
    documents = lines(SAWTOOTH, "--max-batch", 64, "--iterations", "output+1")
    assert len(documents) == 80
    assert all(d["alpha"] > 0 and d["beta"] > 0 and d["gamma"] > 0 for d in documents)
    assert all(d["rate_low"] <= d["rate"] <= d["rate_high"] for d in documents if d["rate_low"] is not None)
    assert documents == lines(SAWTOOTH, "--max-batch", 64, "--iterations", "output+1", "--estimator", "windowed")


def test_a_state_saved_half_way_goes_on_as_if_it_had_never_stopped(tmp_path):
    rows = SAWTOOTH.read_text().splitlines(keepends=True)
    for estimator in ("kalman", "windowed"):
        whole = lines(SAWTOOTH, "--estimator", estimator, "--max-batch", 64)
        state = tmp_path / f"{estimator}.json"
        first = lines("-", "--estimator", estimator, "--max-batch", 64, "--save", state, stdin="".join(rows[:41]))
        second = lines("-", "--estimator", estimator, "--max-batch", 64, "--load", state, stdin=rows[0] + "".join(rows[41:]))
        assert first + second == whole


def test_a_state_of_the_other_estimator_or_a_damaged_one_is_refused(tmp_path):
    state = tmp_path / "state.json"
    assert tune(SAWTOOTH, "--estimator", "kalman", "--max-batch", 64, "--save", state).returncode == 0
    other = tune(SAWTOOTH, "--estimator", "windowed", "--load", state)
    assert other.returncode == 2 and other.stdout == "" and "kalman" in other.stderr, other.stderr
    state.write_text(state.read_text()[:100])
    damaged = tune(SAWTOOTH, "--estimator", "kalman", "--load", state)
    assert damaged.returncode == 2 and str(state) in damaged.stderr, damaged.stderr
    absent = tune(SAWTOOTH, "--load", tmp_path / "absent.json")
    assert absent.returncode == 2 and "absent.json" in absent.stderr, absent.stderr


@pytest.mark.parametrize("args, words", [
    (["--estimator", "magic"], ["--estimator", "kalman", "windowed"]),
    (["--estimator", "kalman", "--model", "magic"], ["--model", "chain"]),
    (["--model", "chain"], ["--model", "--estimator kalman"]),
    (["--max-batch", "0"], ["--max-batch", "0"]),
    (["--max-batch", "many"], ["--max-batch", "many"]),
    (["--max-batch", "9223372036854775807"], ["--max-batch"]),
    (["--max-queue", "-1"], ["--max-queue", "-1"]),
    (["--kv-tokens", "-5"], ["--kv-tokens", "-5"]),
    (["--ttft", "-1"], ["--ttft", "-1"]),
    (["--itl", "nan"], ["--itl", "nan"]),
    (["--knee-tokens", "1e300"], ["--knee-tokens"]),
    (["--iterations", "three"], ["--iterations", "three"]),
    (["--save", "/nowhere/at/all"], ["--save", "/nowhere"]),
    (["--save", ""], ["--save: is empty"]),
])
def test_a_bad_flag_is_one_clear_error(args, words):
    done = tune(SAWTOOTH, *args, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("content, words", [
    ("", ["empty", "first line"]),
    ("time_s,pod\n1,a\n", ["header", "rate"]),
    (HEADER, ["no row", "observation"]),
    (HEADER.strip() + ",batch\n60,a,1,100,50,20,8,3\n", ["header", "batch"]),
    (HEADER.strip() + ",rate\n60,a,1,100,50,20,8,3\n", ["rate"]),
    (HEADER + "60,a,1,100,50,20,8\n60,a,one,100,50,20,8\n", ["line 3", "rate", "one"]),
    (HEADER + "soon,a,1,100,50,20,8\n", ["line 2", "time_s", "soon"]),
    (HEADER + "60,a,1,100,50,20,8\n59,a,1,100,50,20,8\n", ["line 3", "time_s", "59", "sort"]),
    (HEADER + "60,a,1,100,50,20\n", ["line 2"]),
    (HEADER + "60,\"a,1,100,50,20,8\n", ["line"]),
    (HEADER + "60,a,1,100,50,20,8\n" + "9" * 2_000_000 + "\n", ["line"]),
    (HEADER + "60,a,1,100,50,20,8\x00\n", ["line 2", "itl_ms"]),
])
def test_a_bad_file_is_one_clear_error_with_its_place(content, words, tmp_path):
    file = tmp_path / "metrics.csv"
    file.write_text(content)
    for estimator in ("kalman", "windowed"):
        done = tune(file, "--estimator", estimator, "--json")
        assert done.returncode == 2, done.stdout
        assert "metrics.csv" in done.stderr
        assert all(word in done.stderr for word in words), done.stderr
        assert len(done.stderr.strip().splitlines()) == 1 and len(done.stderr) < 2_000


def test_bytes_that_are_no_text_and_files_that_are_none(tmp_path):
    file = tmp_path / "metrics.csv"
    file.write_bytes(bytes(range(256)) * 50)
    for path in (file, tmp_path, tmp_path / "absent.csv"):
        done = tune(path, "--json")
        assert done.returncode in (1, 2) and done.stdout == "" and done.stderr, path


def test_rows_that_cannot_teach_are_lines_that_move_nothing():
    values = ["", "nan", "0", "-1", "inf", "-inf", "1e308", "1e-308", "5e-324", "1e9", "1e18"]
    good = ["1.5", "1000", "200", "40", "9"]
    rows = [",".join(good)]
    for column in range(5):
        rows += [",".join(good[:column] + [value] + good[column + 1:]) for value in values]
    rows += [",".join([value] * 5) for value in values]
    content = HEADER + "".join(f"{60 * k},pod,{row}\n" for k, row in enumerate(rows))
    for estimator in ("kalman", "windowed"):
        for extra in ([], ["--ttft", "500", "--itl", "50"], ["--max-batch", "1"], ["--kv-tokens", "1"]):
            documents = lines("-", "--estimator", estimator, *extra, stdin=content)
            assert len(documents) == len(rows)
            for row, before, after in zip(rows[1:], documents, documents[1:]):
                numbers = [float(cell or "nan") for cell in row.split(",")]
                if not all(math.isfinite(number) and number > 0 for number in numbers):
                    assert not after["accepted"], row
                    assert [after[p] for p in ("alpha", "beta", "gamma")] == [before[p] for p in ("alpha", "beta", "gamma")], row


def test_what_a_pod_is_called_steers_no_terminal():
    for json_flag in (["--json"], []):
        done = tune("-", "--estimator", "kalman", *json_flag, stdin=HEADER + "60,\x1b[31mp\u202e,,,,,\n")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_many_pods_and_many_cycles_in_bounded_time():
    content = HEADER + "".join(f"{60 * cycle},pod-{pod},{0.1 + 0.01 * pod},2048,1024,44,12.7\n"
                               for cycle in range(20) for pod in range(100))
    assert len(lines("-", "--estimator", "kalman", "--max-batch", 64, stdin=content)) == 20
    done = tune("-", "--estimator", "kalman", "--json", stdin=HEADER + "60,,1,1,1,1,1\n" * 100_001)
    assert done.returncode == 2 and "100000 rows" in done.stderr


def test_a_recording_from_prometheus_is_one_that_tune_reads():
    asked = []

    class Prometheus(http.server.BaseHTTPRequestHandler):
        """Two pods, the second idle; TTFT, ITL and lengths of the granite replica; no prefix cache."""

        def do_GET(self):
            query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
            expression, end = query["query"][0], int(query["end"][0])
            asked.append(expression)
            known = {"request_prompt_tokens": "2048", "generation_tokens_sum": "1024", "time_to_first": "44.1", "inter_token": "12.9",
                     "increase": "6", "num_requests": "3", "prefix_cache": "NaN", "generation_tokens_count": "0.12"}
            value = next(v for k, v in known.items() if k in expression)
            values = lambda v: [[end - 60, v], [end, v]]  # noqa: E731
            body = json.dumps({"status": "success", "data": {"result": [
                {"metric": {"pod": "p1"}, "values": values(value)},
                {"metric": {"pod": "p2"}, "values": values("0")}]}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run([sys.executable, ROOT / "tools/record-metrics", f"http://127.0.0.1:{server.server_port}", "--model", "m",
                               "--labels", 'namespace="prod"', "--hours", "0.1"], capture_output=True, text=True, timeout=60)
    finally:
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert len(asked) == 9 and all('model_name="m",namespace="prod"' in q and "60s" in q or "waiting" in q for q in asked), asked
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["pod"] for row in rows] == ["p1", "p1"]
    assert float(rows[0]["ttft_ms"]) == 44.1 and float(rows[0]["output"]) == 1024 and rows[0]["prefix_hit"] == ""
    assert len(lines("-", "--max-batch", 64, stdin=done.stdout)) == 2


def test_a_recorder_that_gets_nothing_says_why_in_one_line():
    class Prometheus(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if self.path.startswith("/elsewhere") else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": {"result": []}}).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        for url, words in [(base, 'no pod with {model_name="m"}'), (base + "/elsewhere", "answers 404"), ("nowhere", "address of Prometheus")]:
            done = subprocess.run([sys.executable, ROOT / "tools/record-metrics", url, "--model", "m"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and done.stdout == ""
            assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    finally:
        server.shutdown()
