"""`tailrace capacity`: one analysis cycle on recorded metrics, through the command line."""
import json
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
