"""`tailrace simulate` through the command line: its outputs, its errors, and what it leaves behind."""
import csv
import html.parser
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from harness import BIN

EXPERIMENT = """
name: small <test>
seeds: 2
workload: {load: 1.3, requests: 400}
fleet: {engine: {max_num_seqs: 8}}
predictor: {kind: noisy-law, r2_mu: 0.8, r2_sigma: 0.7}
grid: {policy.name: [fcfs, tie], workload.load: [0.7, 1.3]}
slo: {ttft: 2s}
"""


def simulate(*args, **kwargs):
    return subprocess.run([BIN, "simulate", *map(str, args)], capture_output=True, timeout=120, **kwargs)


def refused(done):
    assert done.returncode == 2, done
    assert done.stdout == b""
    message = done.stderr.decode()
    assert message.startswith("tailrace simulate: "), message
    return message


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_json_is_one_document_and_nothing_else(experiment):
    done = simulate(experiment, "--json")
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    result = json.loads(done.stdout)
    assert result["name"] == "small <test>" and result["baseline"] == "fcfs"
    assert [cell["settings"] for cell in result["cells"]] == [
        {"policy.name": p, "workload.load": load} for p in ("fcfs", "tie") for load in ("0.7", "1.3")]
    for cell in result["cells"]:
        assert len(cell["runs"]) == 2
        for run in cell["runs"]:
            assert run["offered"] == run["completed"] == 400 and run["measured"] == 360
            assert run["metrics"]["ttft_s.p50"] <= run["metrics"]["ttft_s.p99"] <= run["metrics"]["ttft_s.max"]
            assert run["load"] == pytest.approx(float(cell["settings"]["workload.load"]), rel=0.25)
            assert 0 <= run["metrics"]["goodput"] <= 1
            assert run["metrics"]["recomputed_tokens"] == 0
    assert len(result["maximum_rates"]) == 1
    assert result["cells"][3]["against_baseline"]["cell"] == 1
    assert result["cells"][3]["against_baseline"]["ratios"]["per_token_s.mean"]["mean"] < 1


def test_the_settings_in_force_are_told_and_lead_to_the_same_run(experiment, tmp_path):
    """Those of the file, of flags, and those that nobody gave: they alone make the experiment again."""
    options = ["--set", "fleet.engine.alpha_ms=7", "--json"]
    result = json.loads(simulate(experiment, *options).stdout)
    shared = result["in_force"]
    assert shared["fleet.engine.max_num_seqs"] == "8" and shared["fleet.engine.alpha_ms"] == "7"
    assert shared["fleet.engine.beta_ms"] == "0.0205", "the preset's"
    assert shared["predictor.kind"] == "noisy-law" and shared["predictor.delay"] == "0"
    assert shared["slo.ttft"] == "2s" and shared["slo.itl"] == "off" and shared["workload.rate"] is None
    assert "policy.name" not in shared and "workload.load" not in shared
    for cell in result["cells"]:
        assert cell["in_force"] == {key: cell["settings"][key] for key in ("policy.name", "workload.load")}
    again = tmp_path / "again.yaml"
    lines = [f"{key}: {json.dumps(value)}" for key, value in shared.items()
             if value is not None and key not in ("seeds", "compare", "baseline")]
    again.write_text("\n".join(lines) + "\nseeds: 2\ngrid: {policy.name: [fcfs, tie], workload.load: [0.7, 1.3]}\n")
    done = simulate(again, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == result


def test_what_an_arm_changes_is_told(tmp_path):
    path = tmp_path / "arms.yaml"
    path.write_text("workload: {rate: 5, requests: 50, classes: {chat: {share: 2, lengths: {cap: 99}}}}\n"
                    "arms: {one: {}, two: {policy.name: tie, fleet.engines: 2, fleet.preset: a100-8b}}\n")
    page = tmp_path / "page.html"
    result = json.loads(simulate(path, "--json", "--html", page).stdout)
    one, two = (cell["in_force"] for cell in result["cells"])
    assert (one["policy.name"], two["policy.name"]) == ("fcfs", "tie")
    assert (one["fleet.engine.alpha_ms"], two["fleet.engine.alpha_ms"]) == ("6", "10")
    shared = result["in_force"]
    assert shared["workload.classes.chat.share"] == "2" and shared["workload.classes.chat.lengths.cap"] == "99"
    assert shared["workload.classes.chat.lengths.nu"] == shared["workload.lengths.nu"]
    text = page.read_text()
    assert "Settings in force" in text and "workload.classes.chat.lengths.cap" in text and "a100-8b" in text


def test_reports_are_utf8_whatever_bytes_name_a_trace(tmp_path):
    trace = os.fsencode(tmp_path) + b"/\xff\xfe.jsonl"
    with open(trace, "w") as file:
        for second in range(10):
            file.write(json.dumps({"arrival_s": second, "prompt_tokens": 9, "output_tokens": 9}) + "\n")
    page = tmp_path / "page.html"
    done = subprocess.run([BIN, "simulate", "--trace", trace, "--json", "--html", page], capture_output=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode())["in_force"]["workload.trace.files"].endswith("/??.jsonl]")
    assert "/??.jsonl" in page.read_text(encoding="utf-8")


def test_settings_in_reports_are_bounded(tmp_path):
    path = tmp_path / "many.yaml"
    classes = "\n".join(f"    class-{i}: {{share: 1}}" for i in range(300))
    path.write_text(f"name: {'n' * 60}\nworkload:\n  rate: 5\n  requests: 20\n  classes:\n{classes}\n")
    result = json.loads(simulate(path, "--json").stdout)
    assert len(result["in_force"]) == 500


def test_same_bytes_on_one_thread_and_two(experiment, tmp_path):
    outputs = []
    for jobs in (1, 2):
        files = [tmp_path / f"{jobs}.csv", tmp_path / f"{jobs}.html"]
        done = simulate(experiment, "--json", "--jobs", jobs, "--csv", files[0], "--html", files[1])
        assert done.returncode == 0, done.stderr
        outputs.append([done.stdout] + [file.read_bytes() for file in files])
    assert outputs[0] == outputs[1]


def test_csv_has_every_request_once(experiment, tmp_path):
    path = tmp_path / "requests.csv"
    assert simulate(experiment, "--csv", path).returncode == 0
    assert os.listdir(tmp_path) and not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 2 * 400
    assert list(rows[0])[:4] == ["policy.name", "workload.load", "seed", "id"]
    assert len({(r["policy.name"], r["workload.load"], r["seed"], r["id"]) for r in rows}) == len(rows)
    for row in rows:
        assert row["end"] == "completed"
        times = [float(row[key]) for key in ("arrival_s", "dispatched_s", "admitted_s", "first_token_s", "finished_s")]
        assert times == sorted(times)


def test_csv_goes_through_a_link_and_into_a_pipe(experiment, tmp_path):
    (tmp_path / "there").mkdir()
    for link, target in (("dangling", "there/new.csv"), ("link", "there/old.csv")):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "there" / "old.csv").write_text("old")
    for link in ("dangling", "link"):
        assert simulate(experiment, "--csv", tmp_path / link).returncode == 0
        assert (tmp_path / link).is_symlink()
    whole = (tmp_path / "there" / "new.csv").read_bytes()
    assert whole.count(b"\n") == 4 * 2 * 400 + 1 and (tmp_path / "there" / "old.csv").read_bytes() == whole
    assert sorted(os.listdir(tmp_path / "there")) == ["new.csv", "old.csv"]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    # Into a file: what nobody reads would fill the reader's own pipe, and stop both.
    with open(tmp_path / "read", "wb") as out, subprocess.Popen(["cat", tmp_path / "pipe"], stdout=out) as reader:
        assert simulate(experiment, "--csv", tmp_path / "to-pipe").returncode == 0
        assert reader.wait(30) == 0
    assert (tmp_path / "read").read_bytes() == whole
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "to-pipe").is_symlink()


def test_csv_on_standard_output_comes_before_the_text(experiment, tmp_path):
    # The way of /dev/stdout, which is such a link, without touching the machine's own.
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with open(tmp_path / "both", "wb") as both:
        done = subprocess.run([BIN, "simulate", experiment, "--csv", tmp_path / "stdout"], stdout=both, timeout=120)
    assert done.returncode == 0 and (tmp_path / "stdout").is_symlink()
    text = (tmp_path / "both").read_text()
    assert text.startswith("policy.name,workload.load,seed,id,") and text.index(",completed,") < text.index("s/token")


def test_no_output_takes_the_place_of_another_or_of_an_input(experiment, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"arrival_s": 0, "prompt_tokens": 5, "output_tokens": 7}\n')
    twin = tmp_path / "twin"
    assert "--html: " in refused(simulate(experiment, "--csv", twin, "--html", f"{tmp_path}/./twin"))
    assert not twin.exists()
    twin.symlink_to(experiment)
    for flag in ("--csv", "--html"):
        for path in (experiment, twin):
            before = pathlib.Path(experiment).read_bytes()
            assert "is read from" in refused(simulate(experiment, flag, path))
            assert pathlib.Path(experiment).read_bytes() == before
        assert "is read from" in refused(simulate("--trace", trace, flag, trace))
    for command in (["evaluate", trace, "--html", trace], ["fit", trace, "--plot", "a", "--out", trace],
                    ["load", "--requests", trace, "--url", "http://127.0.0.1:1", "--csv", trace]):
        done = subprocess.run([BIN, *map(str, command)], capture_output=True, timeout=60)
        assert done.returncode == 2 and trace.read_text().startswith('{"arrival_s"'), (command, done.stderr)


def test_an_empty_value_is_not_one_left_out(experiment):
    for flag in ("--csv", "--html", "--seed", "--seeds", "--policy"):
        done = simulate(experiment, flag, "")
        assert done.returncode == 2 and b"is empty" in done.stderr, (flag, done.stderr)


def test_page_is_well_formed_and_offline(experiment, tmp_path):
    path = tmp_path / "report.html"
    assert simulate(experiment, "--html", path).returncode == 0
    text = path.read_text()

    class Reader(html.parser.HTMLParser):
        tags = []
        links = []

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)
            self.links += [v for k, v in attrs if k in ("src", "href") and v]

    reader = Reader()
    reader.feed(text)
    assert "script" not in reader.tags and not reader.links
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert "small &lt;test&gt;" in text and "<test>" not in text
    assert reader.tags.count("svg") >= 1 + 3 + 3 + 2 + 1


@pytest.mark.parametrize("text, message", [
    ("workload: {rate: x, requests: 5}", ":1: workload.rate: \"x\" is not a number"),
    ("polcy: {}", "unknown key \"polcy\"; did you mean \"policy\"?"),
    ("workload: {rate: 1, requests: 5}\npolicy: {name: nope}", "\"nope\" is unknown; use fcfs"),
    ("a: [", "not valid YAML"),
])
def test_bad_files_are_named_with_line_and_remedy(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert message in refused(simulate(path))


def recording(path, rows=2500, output=lambda i: 1 + i * 37 % 211):
    path.write_text("".join(f'{{"arrival_s":{i * 0.01:.2f},"prompt_tokens":{20 + i * 13 % 97},"output_tokens":{output(i)}}}\n'
                            for i in range(rows)))
    return path


def test_a_recording_shows_no_policy_its_lengths_unless_a_predictor_does(tmp_path):
    trace = recording(tmp_path / "own.jsonl")
    flags = ("--trace", trace, "--policy", "fcfs,tie,mean,sjf", "--load", "1.5", "--set", "fleet.engine.max_num_seqs=16", "--json")
    unknown = json.loads(simulate(*flags).stdout)
    means = [cell["metrics"]["e2e_s.mean"]["mean"] for cell in unknown["cells"]]
    assert means == [means[0]] * 4
    assert unknown["cells"][0]["lengths"]["at_cap"] == 0
    known = json.loads(simulate(*flags, "--predictor", "noisy-law", "--set", "predictor.tau=0.6").stdout)
    for cell in known["cells"][1:]:
        assert cell["runs"][0]["foretold"] == 2500 and cell["warnings"] == []
        assert cell["metrics"]["tau"]["mean"] == pytest.approx(0.6, abs=0.08)
        assert cell["metrics"]["e2e_s.mean"]["mean"] < 0.9 * means[0]
    assert "oracle-law needs the law" in refused(simulate(*flags, "--predictor", "oracle-law"))


def test_files_are_relative_to_the_experiment_and_flags_to_the_shell(tmp_path):
    folder = tmp_path / "experiments"
    folder.mkdir()
    recording(folder / "own.jsonl", rows=50)
    path = folder / "x.yaml"
    path.write_text("workload: {maximum_rate: off, trace: {files: own.jsonl}}")
    assert simulate(path).returncode == 0
    assert b"50 requests" in simulate(path).stdout
    other = os.path.relpath(recording(tmp_path / "other.jsonl", rows=60))
    assert b"60 requests" in simulate(path, "--trace", other).stdout
    path.write_text("workload: {maximum_rate: off, trace: {files: none.jsonl}}")
    assert str(folder / "none.jsonl") in refused(simulate(path))


def test_says_what_is_wrong_in_the_users_words(tmp_path):
    trace = recording(tmp_path / "own.jsonl")
    assert "looks like a trace" in refused(simulate(trace)) and "--trace" in refused(simulate(trace))
    assert "--load: workload.load:" in refused(simulate("--trace", trace, "--load", "x"))
    assert "set kv_blocks" in refused(simulate("--trace", trace, "--set", "fleet.engine.kv_tokens=1000"))
    small = simulate("--trace", trace, "--set", "fleet.engine.kv_blocks=2", "--set", "fleet.engine.watermark_blocks=0")
    assert re.search("[1-9][0-9]* were refused, being longer than an engine holds", refused(small))


def test_a_load_that_did_not_come_is_said(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("""
workload: {load: 1, requests: 300, sessions: {turns: 8, think: 5m}}
fleet: {engine: {max_num_seqs: 8}}
""")
    done = simulate(path)
    assert done.returncode == 0 and b"load 1.00 was asked for and" in done.stdout, done.stdout
    cell = json.loads(simulate(path, "--json").stdout)["cells"][0]
    assert cell["load_requested"] == 1 and cell["runs"][0]["load"] < 0.9 and "load" in cell["warnings"][0]


def test_bad_flags_are_bad_usage(tmp_path, experiment):
    assert "give an experiment file or --trace" in refused(simulate())
    assert "cannot open" in refused(simulate(tmp_path / "none.yaml")).replace("No such file", "cannot open")
    assert "fcfs, " in refused(simulate("--trace", "x", "--policy", "nope"))
    assert "--html" in refused(simulate(experiment, "--html", tmp_path / "no" / "x.html"))
    assert simulate(experiment, "--jobs", "0").returncode == 2


def test_a_trace_needs_no_file(tmp_path):
    trace = tmp_path / "it's a trace.jsonl"
    trace.write_text("".join(json.dumps({"arrival_s": i * 0.1, "prompt_tokens": 20, "output_tokens": 5 + i % 50}) + "\n"
                             for i in range(300)))
    done = simulate("--trace", trace, "--policy", "fcfs,tie", "--load", "0.8", "--json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [cell["settings"]["policy.name"] for cell in cells] == ["fcfs", "tie"]
    assert cells[0]["runs"][0]["load"] == pytest.approx(0.8, rel=0.02)


def test_rows_without_an_answer_are_counted(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:00:{i % 60:02}.{i // 60:07},20,{0 if i in (3, 7) else 9}\n" for i in range(60)))
    done = simulate("--trace", trace, "--speed", "1")
    assert done.returncode == 0, done.stderr
    assert b"58 requests\ntrace: left out 2 rows without an answer\n" in done.stdout
    (cell,) = json.loads(simulate("--trace", trace, "--json").stdout)["cells"]
    assert cell["lengths"]["dropped_rows"] == 2 and cell["runs"][0]["offered"] == 58


def test_a_trace_that_can_be_read_only_once_is_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for trace, what in (("-", "standard input"), (pipe, "no regular file"), (tmp_path, "no regular file")):
        message = refused(simulate("--trace", trace, stdin=subprocess.DEVNULL))
        assert f'workload.trace.files: "{trace}" is {what}, and every run reads it anew; save it to a file' in message


def test_predictions_are_judged(experiment):
    done = simulate(experiment)
    assert b"Predictions: order of lengths" in done.stdout
    cells = json.loads(simulate(experiment, "--json", "--set", "predictor.kind=oracle-law").stdout)["cells"]
    for cell in cells:
        assert cell["metrics"]["within_50"]["mean"] == pytest.approx(0.5, abs=0.06)
        assert cell["metrics"]["within_90"]["mean"] == pytest.approx(0.9, abs=0.04)
    lawless = simulate(experiment, "--set", "predictor.kind=none")
    assert b"Predictions" not in lawless.stdout


def test_a_profile_is_found_beside_the_experiment(tmp_path):
    (tmp_path / "ours.yaml").write_text("preset: a100-8b\nmax_num_seqs: 3\n")
    path = tmp_path / "experiment.yaml"
    path.write_text("workload: {load: 0.5, requests: 200}\nfleet: {profile: ours.yaml}\n")
    assert simulate(path, cwd="/").returncode == 0
    (tmp_path / "ours.yaml").write_text("max_num_seqs: many\n")
    assert "experiment.yaml:2: fleet.profile: \"ours.yaml\" is no profile: " in refused(simulate(path))


@pytest.fixture
def long_experiment(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text("seeds: 900\nworkload: {rate: 40, requests: 20000}\nfleet: {engine: {max_num_seqs: 32}}\n")
    return path


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_midway_leaves_nothing(tmp_path, long_experiment, how):
    before = sorted(os.listdir(tmp_path))
    process = subprocess.Popen([BIN, "simulate", long_experiment, "--csv", tmp_path / "x.csv", "--html", tmp_path / "x.html"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(how)
    out, _ = process.communicate(timeout=10)
    assert process.returncode != 0 and out == b""
    assert sorted(os.listdir(tmp_path)) == before


def test_progress_is_shown_on_a_terminal(long_experiment):
    terminal, theirs = pty.openpty()
    process = subprocess.Popen([BIN, "simulate", long_experiment], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    try:
        shown = b""
        deadline = time.monotonic() + 30
        while b"requests" not in shown and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096)
        assert re.search(rb"\r\x1b\[K(maximum rates|workloads|runs) \[[#.]{30}\] \d+/\d+, \d+ requests", shown), shown
        assert process.poll() is None
    finally:
        process.kill()
        out, _ = process.communicate(timeout=10)
        os.close(terminal)
    assert out == b""


def test_progress_is_not_written_to_a_file(long_experiment, tmp_path):
    with open(tmp_path / "errors", "wb") as errors:
        process = subprocess.Popen([BIN, "simulate", long_experiment], stdout=subprocess.DEVNULL, stderr=errors)
        time.sleep(3.5)  # a terminal sees it after two
        running = process.poll() is None
        process.kill()
        process.wait(timeout=10)
    assert running
    assert (tmp_path / "errors").read_bytes() == b""


def test_refused_requests_are_shown_and_not_called_stable(tmp_path):
    experiment = tmp_path / "refusing.yaml"
    experiment.write_text("workload: {rate: 5, requests: 1000, maximum_rate: off}\n"
                          "fleet: {engine: {max_model_len: 600}}\n")
    page = tmp_path / "page.html"
    done = simulate(experiment, "--html", page)
    assert done.returncode == 0, done.stderr
    for shown in (done.stdout.decode(), page.read_text()):
        assert "refused" in shown and "refusing" in shown and "stable" not in shown
    run = json.loads(simulate(experiment, "--json").stdout)["cells"][0]["runs"][0]
    assert run["metrics"]["refused"] == run["refused"] / 1000 > 0


def test_what_nobody_met_is_unknown(tmp_path):
    experiment = tmp_path / "nobody.yaml"
    experiment.write_text("workload: {rate: 5, duration: 1ms, maximum_rate: off}\n")
    done = simulate(experiment)
    assert done.returncode == 0, done.stderr
    assert b"no request came" in done.stdout and b"unknown" in done.stdout and b"stable" not in done.stdout
    cell = json.loads(simulate(experiment, "--json").stdout)["cells"][0]
    assert cell["lengths"]["mean"] is None and cell["verdict"] == "unknown"
    assert set(cell["runs"][0]["metrics"].values()) == {None}


def test_an_empty_list_of_seeds_is_refused(experiment):
    assert "seeds: is empty; name at least one" in refused(simulate(experiment, "--set", "seeds=[]"))
