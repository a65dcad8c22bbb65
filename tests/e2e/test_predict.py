"""`tailrace predict`: a law for a request that nobody sends, from a running gateway or from what one has learned."""
import json
import os
import subprocess

import pytest

from harness import BIN, Engine, Gateway, backend, http, wait_until

ESSAY = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Write a long essay about the sea"}]}

CITY = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Name a city in one word"}]}


def run(*args, stdin=None, **environment):
    done = subprocess.run([BIN, "predict", *args], capture_output=True, text=True, timeout=30, input=stdin,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def learned_lengths(gateway):
    text = http(gateway.admin_url + "/metrics")[1].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("tailrace_lengths_learned_total"))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A gateway that has learned from some answers and kept it; its file and what it said when it was asked."""
    file = str(tmp_path_factory.mktemp("learned") / "model")
    with Engine("--model", "m", "--time-scale", "50") as engine, \
            Gateway({"backends": [backend(engine)], "predict": {"model_file": file}}) as gateway:
        gateway.wait_ready()
        for request, limit in [(ESSAY, 200), (CITY, 5)] * 20:
            code, _ = http(gateway.url + "/v1/chat/completions", "POST", {**request, "max_tokens": limit})
            assert code == 200
        wait_until(lambda: learned_lengths(gateway) == 40)
        code, shown, message = run("-", "--admin", gateway.admin_url, "--json", stdin=json.dumps(ESSAY))
        assert code == 0, message
        asked = json.loads(shown)
        gateway.stop()
    return file, asked


def test_the_file_says_what_the_gateway_said(learned):
    file, asked = learned
    code, shown, message = run("-", "--model-file", file, "--json", stdin=json.dumps(ESSAY))
    assert code == 0, message
    assert json.loads(shown) == asked
    assert asked["law"]["p50"] <= asked["law"]["p90"] <= asked["cap"] == 500
    assert asked["influences"]
    assert all({"what", "log_shift", "factor"} <= set(i) for i in asked["influences"])
    # It has neither, so neither can have moved anything.
    assert not any("tenant" in i["what"] or "system prompt" in i["what"] for i in asked["influences"])


def test_the_table_says_what_moved_it_by_which_factor(learned):
    file, asked = learned
    code, shown, message = run("-", "--model-file", file, stdin=json.dumps(ESSAY))
    assert code == 0, message
    assert "what moved it (times the typical length)" in shown
    first = asked["influences"][0]
    assert f"{first['factor']:6.2f}  {first['what']}" in shown


def test_a_text_is_asked_like_a_request(learned):
    file, asked = learned
    code, shown, message = run("--text", ESSAY["messages"][0]["content"], "--model", "m", "--max-tokens", "500",
                               "--model-file", file, "--json")
    assert code == 0 and json.loads(shown) == asked, message
    code, shown, _ = run("--text", "Write a long essay about the sea", "--model-file", file)
    assert code == 0 and "half of such answers end by" in shown


@pytest.mark.parametrize("args, stdin, wanted", [
    ([], None, "REQUEST: missing"),
    (["-", "--text", "x"], "{}", "give one of them"),
    (["-", "--model", "m"], "{}", "go with --text"),
    (["--text", "x", "--max-tokens", "0"], None, "--max-tokens"),
    (["/nonexistent/request.json"], None, "/nonexistent/request.json"),
    (["-", "--model-file", "/nonexistent/model"], json.dumps(ESSAY), "/nonexistent/model"),
    (["-", "--model-file", "MODEL"], '{"model": "m", "mesages": []}', "holds no messages, prompt or input"),
    (["-", "--model-file", "MODEL"], "nonsense", "JSON"),
    (["-", "--model-file", "MODEL"], '{"messages": 1}', "messages must be an array"),
    (["-", "--admin", "nonsense://"], "{}", "--admin"),
])
def test_bad_input_is_named_with_its_remedy(learned, args, stdin, wanted):
    code, shown, message = run(*[learned[0] if a == "MODEL" else a for a in args], stdin=stdin)
    assert code == 2 and shown == "" and wanted in message, (code, shown, message)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    file = tmp_path / "model"
    file.write_bytes(b"not a model" * 100)
    code, shown, message = run("--text", "x", "--model-file", str(file))
    assert code == 2 and shown == "" and str(file) in message
    assert "predict.model_file" in message and "delete" not in message


def test_the_examples_in_the_help_work_as_they_stand(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build/tailrace").symlink_to(BIN)
    examples = [line.strip() for line in run("--help")[1].splitlines() if "build/tailrace predict" in line and "Usage" not in line]
    assert len(examples) == 2
    with Engine("--model", "my-model") as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        gateway.wait_ready()
        for example in examples:
            # The one difference: the gateway of this test listens on a port of its own.
            done = subprocess.run(["bash", "-c", f"{example} --admin {gateway.admin_url}"], cwd=tmp_path,
                                  capture_output=True, text=True, timeout=30)
            assert done.returncode == 0, done.stderr
            assert "half of such answers end by" in done.stdout


def test_no_gateway_is_said_so():
    code, shown, message = run("--text", "x", "--admin", "http://127.0.0.1:1")
    assert code == 1 and shown == "" and "is the gateway running" in message
