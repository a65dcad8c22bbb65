"""`tailrace capacity`: one analysis cycle on recorded metrics, through the command line."""
import json
import os
import pathlib
import subprocess

import pytest

from harness import BIN

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/capacity"
METRICS = EXAMPLES / "metrics.csv"
CONFIG = EXAMPLES / "config.yaml"
HEADER = "time_s,namespace,model,variant,pod,rate,input,output,ttft_ms,itl_ms"


def capacity(*args, stdin=None):
    return subprocess.run([BIN, "capacity", *map(str, args)], capture_output=True, text=True,
                          timeout=60, input=stdin)


def test_the_example_decides_and_explains():
    done = capacity(METRICS, "--config", CONFIG, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["config_problems"] == []
    assert [m["model"] for m in document["models"]] == ["llama-8b", "coder-8b"]
    text = capacity(METRICS, "--config", CONFIG).stdout
    for word in ("llama-h100", "llama-a100", "coder-h100", "desired", "SLO", "alpha"):
        assert word in text, text


def test_same_input_same_bytes_and_a_pipe_does_as_well():
    first = capacity(METRICS, "--config", CONFIG, "--json").stdout
    assert first == capacity("-", "--config", CONFIG, "--json", stdin=METRICS.read_text()).stdout


def test_what_was_learnt_is_kept(tmp_path):
    state = tmp_path / "state.json"
    assert capacity(METRICS, "--config", CONFIG, "--state", state).returncode == 0
    last = [line for line in METRICS.read_text().splitlines() if line.startswith(("time_s", "1140"))]
    alone = capacity("-", "--config", CONFIG, "--state", state, "--json",
                     stdin="\n".join(last) + "\n")
    assert alone.returncode == 0, alone.stderr


def test_without_a_default_entry_replicas_are_held(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("kind: ConfigMap\ndata: {}\n")
    done = capacity(METRICS, "--config", config)
    assert done.returncode == 3
    assert "no `default` entry" in done.stdout
    assert " up " not in done.stdout and " down " not in done.stdout


def test_a_wrong_entry_holds_its_own_model_and_is_named(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("default: {}\nbad: {model_id: coder-8b, namespace: prod, sloMultiplier: 1}\n")
    done = capacity(METRICS, "--config", config, "--json")
    assert done.returncode == 3
    assert "sloMultiplier" in done.stderr and "number above 1" in done.stderr
    document = json.loads(done.stdout)
    assert document["config_problems"][0]["entry"] == "bad"


@pytest.mark.parametrize("entry, words", [
    ("{targetTTFT: -5, targetITL: 20}", ['default.targetTTFT: "-5" is not a number of milliseconds']),
    ("{targetTTFT: 500, targetITL: nan}", ['default.targetITL: "nan" is not a number of milliseconds']),
    ("{targetTTFT: 500}", ["default.targetTTFT: is 500 ms, but targetITL is missing"]),
    ("{targetTTFT: 500, targetITL: 0}", ["but targetITL is 0; set both"]),
    ("{targetTTFT: 1e308, targetITL: 20}", ['default.targetTTFT: "1e308"']),
    ("{sloMultiplier: 1}", ['default.sloMultiplier: "1" is not a number above 1']),
    ("{totalGpus: [H100=-5], quotas: {prod: {gpus: [H100=1]}}}", ["default.totalGpus[0]", "KIND=NUMBER"]),
    ("{percentile: 99, latencyModel: chain}", ["default.percentile: needs latencyModel corrected"]),
    ("7", ["default: must be a mapping"]),
])
def test_a_wrong_default_is_bad_input(tmp_path, entry, words):
    config = tmp_path / "config.yaml"
    config.write_text(f"default: {entry}\n")
    done = capacity(METRICS, "--config", config, "--json")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_each_problem_of_an_entry_has_a_line_of_its_own(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("default: {}\nbad: {model_id: coder-8b, namespace: prod, sloMultiplier: 1, colour: red}\n")
    done = capacity(METRICS, "--config", config)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 2 and all(line.startswith("tailrace capacity: ") for line in lines), lines
    assert "\\x0a" not in done.stderr


def test_every_sizing_says_whether_its_rate_is_to_be_trusted():
    seen = set()
    for args in ([], ["--ttft", "250", "--itl", "60"], ["--percentile", "99", "--ttft", "400", "--itl", "200"]):
        document = json.loads(capacity(METRICS, "--config", CONFIG, *args, "--json").stdout)
        for model in document["models"]:
            for one in model["variants"]:
                sizing = one["sizing"]
                if sizing is None or one["evidence"] != "sized":
                    continue
                doubtful = sizing["rate_out_of_range"]
                assert doubtful in (None, "near-saturation", "prefill-dominated", "memory-bound")
                assert (doubtful is not None) == ("simulate to be sure" in sizing["reason"]), sizing
                seen.add(doubtful)
    assert None in seen and len(seen) > 1, seen


def test_the_interval_is_about_the_targets_that_decide():
    document = json.loads(capacity(METRICS, "--config", CONFIG, "--json").stdout)
    sized = [d for m in document["models"] for d in m["variants"] if d["parameters"]["rate_low_per_s"]]
    assert sized
    for one in sized:
        p = one["parameters"]
        assert p["rate_low_per_s"] <= one["sizing"]["rate_per_s"] <= p["rate_high_per_s"], one


def test_a_pipe_is_no_state(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = capacity(METRICS, "--config", CONFIG, "--state", tmp_path / "pipe")
    assert done.returncode == 2 and "no regular file" in done.stderr, done.stderr


@pytest.mark.parametrize("args", [["FOLDER"], [METRICS, "--config", "FOLDER"], [METRICS, "--state", "FOLDER"]])
def test_a_folder_is_no_input(tmp_path, args):
    done = capacity(*[tmp_path if arg == "FOLDER" else arg for arg in args])
    assert done.returncode == 2 and "it is a folder; give a file" in done.stderr, done.stderr


@pytest.mark.parametrize("args", [["FILE/x"], [METRICS, "--config", "FILE/x"], [METRICS, "--state", "FILE/x"],
                                  [METRICS, "--state", ""], [METRICS, "--config", ""], ["n" * 300]])
def test_a_path_that_leads_nowhere_is_bad_input(tmp_path, args):
    (tmp_path / "file").write_text("")
    done = capacity(*[str(arg).replace("FILE", str(tmp_path / "file")) for arg in args])
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("rows, words", [
    ("", "no rows"),
    ("0,ns,m,v,p,fast,1,1,1,1", "line 2: column rate: \"fast\" is not a number"),
    ("0,ns,m,v,p,1,1,1,1", "line 2"),
    ("60,ns,m,v,p,1,1,1,1,1\n0,ns,m,v,p,1,1,1,1,1", "line 3: column time_s: 0 comes after 60"),
    ("0,,m,v,p,1,1,1,1,1", "column namespace: empty"),
])
def test_bad_rows_are_one_clear_error(rows, words):
    done = capacity("-", stdin=f"{HEADER}\n{rows}\n")
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("args, words", [
    (["--ttft", "500"], "--ttft: is 500 ms, but --itl is missing"),
    (["--slo-multiplier", "nan"], "--slo-multiplier: "),
    (["--estimator", "magic"], "--estimator: "),
    (["--model", "magic"], "--model: "),
    (["--percentile", "99", "--model", "chain"], "percentile"),
    (["--gpus", "H100"], "KIND=NUMBER"),
    (["--published", "--model", "chain"], "--published"),
    (["--optimizer", "magic"], "--optimizer"),
])
def test_bad_flags_are_one_clear_error(args, words):
    done = capacity(METRICS, *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_the_published_modes_run_and_never_grow():
    done = capacity(METRICS, "--published", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert " up " not in capacity(METRICS, "--published").stdout


WIDE = HEADER + ",accelerator,current,running,gateway_queue"


def rows(time_s, pods, current=2, variant="v", queue=0):
    """One variant's rows at one time: pod -> (rate, ttft), a rate, or None for empty cells."""
    lines = []
    for pod, cells in pods.items():
        if cells is None:
            lines.append(f"{time_s},ns,m,{variant},{pod},,,,,,H100,{current},,{queue}")
            continue
        rate, ttft = cells if isinstance(cells, tuple) else (cells, 40 + cells)
        if rate == 0:
            lines.append(f"{time_s},ns,m,{variant},{pod},0,,,,,H100,{current},0,{queue}")
            continue
        ttft = "" if ttft is None else ttft
        lines.append(f"{time_s},ns,m,{variant},{pod},{rate},512,160,{ttft},{9 + 0.4 * rate},H100,{current},,{queue}")
    return lines


# A fleet of two that could do with one: it learns for ten minutes, then the last cycle decides.
PAST = [line for t in range(10) for line in rows(60 * t, {"a": 3 + t % 4, "b": 3 + (t + 2) % 5})]
SLO = ("--ttft", "400", "--itl", "30")


def decided(last, *args, config=None, tmp_path=None):
    if config is not None:
        path = tmp_path / "config.yaml"
        path.write_text(config)
        args += ("--config", path)
    done = capacity("-", *args, "--json", stdin="\n".join([WIDE, *PAST, *last]) + "\n")
    assert done.returncode in (0, 3), done.stderr
    model = json.loads(done.stdout)["models"][0]
    return model, model["variants"]


def test_a_fleet_of_two_that_could_do_with_one_shrinks():
    model, (v,) = decided(rows(600, {"a": 3, "b": 3}), *SLO)
    assert (v["current"], v["desired"], model["notes"]) == (2, 1, [])


def test_a_pod_without_a_row_holds_its_variant_and_the_decision_says_so():
    model, (v,) = decided(rows(600, {"a": 3}), *SLO)
    assert (v["action"], v["desired"]) == ("hold", 2)
    assert model["notes"] == ["1 of 2 replicas of v reported a rate: demand is at least what they report, "
                              "so nothing is given back"]


def test_a_lost_scrape_is_no_lost_pod_where_nobody_says_how_many_there_are():
    model, (v,) = decided(rows(600, {"a": 3}, current=""), *SLO)
    assert (v["current"], v["action"], v["desired"]) == (2, "hold", 2)
    assert "1 of 2 replicas" in model["notes"][0]


def test_empty_cells_are_unknown_and_hold():
    model, (v,) = decided(rows(600, {"a": None, "b": None}), *SLO)
    assert (v["evidence"], v["action"], v["desired"]) == ("unknown", "hold", 2)
    assert "2 of 2 pods did not report" in model["failure"]


def test_no_row_at_all_holds_too():
    other = rows(600, {"c": 3}, current=1, variant="w")
    model, variants = decided(other, *SLO)
    assert [(v["variant"], v["action"]) for v in variants] == [("v", "hold"), ("w", "hold")]
    assert any("v is not understood (no metrics" in note for note in model["notes"])


def test_idle_is_known_and_unknown_is_not_idle():
    _, (idle,) = decided(rows(600, {"a": 0, "b": 0}), *SLO)
    assert (idle["demand_per_s"], idle["desired"]) == (0, 1)
    _, (half,) = decided(rows(600, {"a": 0, "b": None}), *SLO)
    assert (half["evidence"], half["desired"]) == ("unknown", 2)


def test_a_pod_without_a_ttft_does_not_pull_the_mean_down():
    both = rows(0, {"a": (4, 50), "b": (4, 50)})
    one = rows(0, {"a": (4, 50), "b": (4, None)})
    slos = []
    for text in (both, one):
        done = capacity("-", "--estimator", "kalman", "--model", "chain", "--json",
                        stdin="\n".join([WIDE, *text]) + "\n")
        slos.append(json.loads(done.stdout)["models"][0]["slo"])
    assert slos[0]["source"] == slos[1]["source"]
    assert slos[0]["ttft_ms"] == slos[1]["ttft_ms"]


ZERO = """default: {scaleToZero: true, retention: 5m, targetTTFT: 400, targetITL: 30}
"""


def test_scale_to_zero_needs_the_whole_retention_to_be_known_idle(tmp_path):
    def idle(until, gap=None):
        return [line for t in range(600, until + 1, 60)
                for line in rows(t, {"a": None if t == gap else 0, "b": 0})]

    model, (v,) = decided(idle(840), config=ZERO, tmp_path=tmp_path)
    assert v["desired"] == 1, "four minutes"
    assert model["notes"] == ["scale to zero after 300 s without a request: known to be idle for 240 s"]
    _, (v,) = decided(idle(900), config=ZERO, tmp_path=tmp_path)
    assert (v["desired"], v["steps"][-1]["rule"]) == (0, "scale to zero")
    _, (v,) = decided(idle(900, gap=780), config=ZERO, tmp_path=tmp_path)
    assert v["desired"] > 0, "one pod said nothing for a minute"
    queued = idle(840) + rows(900, {"a": 0, "b": 0}, queue=3)
    _, (v,) = decided(queued, config=ZERO, tmp_path=tmp_path)
    assert v["desired"] > 0, "requests wait in front"


def test_a_replay_shows_every_cycle_and_its_windows(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("default:\n  targetTTFT: 400\n  targetITL: 30\n  stabilisation: {downWindow: 3m}\n")
    calm = [line for t in range(10, 15) for line in rows(60 * t, {"a": 3, "b": 3})]
    text = "\n".join([WIDE, *PAST, *calm]) + "\n"
    done = capacity("-", "--config", config, "--every-cycle", "--json", stdin=text)
    assert done.returncode == 0, done.stderr
    cycles = [json.loads(line) for line in done.stdout.splitlines()]
    assert [c["time_s"] for c in cycles] == [60 * t for t in range(15)]
    rules = [[step["rule"] for step in c["models"][0]["variants"][0]["steps"]] for c in cycles]
    assert any("down window" in r for r in rules)
    assert cycles[-1]["models"][0]["variants"][0]["desired"] == 1, "the window has passed"
    last = capacity("-", "--config", config, "--json", stdin=text)
    assert json.loads(last.stdout)["models"] == cycles[-1]["models"], "the same state leads to the last"
    table = capacity("-", "--config", config, "--every-cycle", stdin=text).stdout
    assert table.count("because") == 15 and "at 840 s" in table
    assert "Windows: 180 s down, 0 s up; at most 4 or 100 % more in 60 s, any number fewer." in table


def test_gpus_of_the_configuration_count_those_in_use(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("default: {targetTTFT: 300, targetITL: 20, totalGpus: [H100=6, A100=4], "
                      "quotas: {prod: {gpus: [H100=6, A100=4]}}}\n")
    done = capacity(METRICS, "--config", config, "--json")
    document = json.loads(done.stdout)
    assert document["fleet"]["total_gpus"] == {"A100": 4, "H100": 6}
    assert document["fleet"]["quotas"]["prod"]["H100"] == 6
    h100 = document["models"][0]["variants"][0]
    assert (h100["desired"], h100["steps"][-1]["rule"]) == (2, "limit"), "six of six are in use"
    free = capacity(METRICS, "--config", config, "--gpus", "H100=1", "--json")
    assert json.loads(free.stdout)["models"][0]["variants"][0]["desired"] == 3


def test_roles_are_columns_of_the_variant_and_shown():
    text = METRICS.read_text().splitlines()
    lines = [text[0] + ",role"] + [line + (",prefill" if "h100" in line else ",decode") for line in text[1:]]
    done = capacity("-", "--config", CONFIG, stdin="\n".join(lines) + "\n")
    assert "llama-h100 on H100, prefill:" in done.stdout and "  decode: " in done.stdout
    lines[1] = lines[1].replace(",prefill", ",chief")
    wrong = capacity("-", stdin="\n".join(lines) + "\n")
    assert wrong.returncode == 2
    assert 'line 2: column role: "chief" is no role; use both, prefill or decode' in wrong.stderr


def test_what_holds_a_model_is_said_once():
    done = capacity(METRICS, "--published")
    for line in ("alpha 20.8954", "alpha 28.1749"):
        assert done.stdout.count(line) <= 1, done.stdout


def test_greedy_without_gpus_is_one_clear_error():
    done = capacity(METRICS, "--optimizer", "greedy")
    assert done.returncode == 2 and "totalGpus" in done.stderr and done.stdout == ""


def test_keys_are_printed_without_a_file():
    done = capacity("--keys")
    assert done.returncode == 0 and "`stabilisation.downWindow`" in done.stdout
    assert capacity().returncode == 2
