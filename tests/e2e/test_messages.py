"""What people are told: probes, wrong methods, and why a request did not succeed."""
import json
import os
import socket
import subprocess

import pytest

from harness import BIN, Engine, Gateway, backend, chat, http, raw_request, read_head, wait_until


@pytest.fixture(scope="module")
def front():
    with Engine("--model", "m", "--time-scale", "50") as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        yield gateway.wait_ready()


def run(*args, **environment):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=30, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def test_health_is_readiness_so_that_a_gateway_can_stand_before_a_gateway(front):
    with Gateway({"backends": [{"name": "inner", "url": front.url, "models": ["m"], "slots": 2}]}) as outer:
        outer.wait_ready()
        code, body = http(outer.url + "/v1/chat/completions", "POST",
                          {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]})
        assert code == 200 and json.loads(body)["usage"]["completion_tokens"] == 2
    with Gateway({"backends": []}) as empty:
        assert http(empty.url + "/health")[0] == http(empty.url + "/readyz")[0] == 503
        assert http(empty.url + "/healthz")[0] == 200


PIPED = "backends: [{name: a, url: 'http://127.0.0.1:1', models: [m], slots: 1%s}]\nlisten: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0%s}\n"


@pytest.mark.parametrize("config", ["", PIPED % (", api_key_file: PIPE", ""), PIPED % ("", ", token_file: PIPE"),
                                    PIPED % ("", "") + "predict: {model_file: PIPE}\n"])
def test_a_pipe_as_a_file_that_is_read_at_start_is_named_instead_of_waited_for(tmp_path, config):
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / ("gateway.yaml" if config else "pipe")
    if config:
        path.write_text(config.replace("PIPE", str(tmp_path / "pipe")))
    for command in (["serve", "-c"], ["check"], ["predict", "--text", "x", "--model", "m", "--config"]):
        code, _, message = run(*command, str(path))
        assert code == 2 and str(tmp_path / "pipe") in message and "regular file" in message, (command, message)


def test_a_pipe_as_an_engines_profile_is_named_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    code, _, message = run("engine", "--model", "m", "--preset", str(tmp_path / "pipe.yaml"))
    assert code == 2 and "pipe.yaml" in message and "regular file" in message, message


def test_a_wrong_method_is_told_the_right_one(front):
    for path, method, allowed in [("/v1/chat/completions", b"GET", "allow: post"), ("/v1/models", b"DELETE", "allow: get, head")]:
        with socket.create_connection(("127.0.0.1", front.port), timeout=10) as sock:
            sock.sendall(method + b" " + path.encode() + b" HTTP/1.1\r\nhost: t\r\n\r\n")
            head, _ = read_head(sock)
        assert head.split()[1] == "405" and allowed in head.lower(), head


def test_log_and_explain_say_why_a_request_was_refused(front):
    http(front.url + "/v1/chat/completions", "POST", {"model": "nope", "messages": []}, {"x-request-id": "unknown-model"})
    wanted = 'no backend serves the model "nope"'
    code, shown, _ = run("explain", "--admin", front.admin_url, "unknown-model")
    assert code == 0 and wanted in shown and "engine's side" not in shown, shown
    assert front.admin("/tailrace/v1/explain/unknown-model")["error"] == wanted
    wait_until(lambda: 'error="no backend serves' in front.logs())
    assert 'event=policy_in_force policy=fcfs configured=tie reason="' in front.logs()
    http(front.url + "/v1/chat/completions", "POST", {"model": "m"}, {"x-request-id": "no-messages"})
    code, shown, _ = run("explain", "--admin", front.admin_url, "no-messages")
    assert code == 0 and "The engine itself answered" in shown, shown


def test_explain_says_that_an_engine_is_awaited():
    with Gateway({"backends": [], "models": {"m": {"awaited": True}}}) as gateway:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as sock:
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nx-request-id: early\r\n"
                         b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            wait_until(lambda: "early waits for an engine" in run("explain", "--admin", gateway.admin_url, "early")[1])
            shown = run("explain", "--admin", gateway.admin_url, "early")[1]
    assert "No engine serves m; one is awaited." in shown and "max_tokens" not in shown, shown


def test_explain_says_where_a_token_goes():
    with Gateway({"backends": [], "admin": {"token_env": "SECRET"}}, env={"SECRET": "s"}) as gateway:
        code, _, message = run("explain", "--admin", gateway.admin_url, "x")
        assert code == 1 and "TAILRACE_ADMIN_TOKEN" in message and "--token-env" in message
        code, _, message = run("explain", "--admin", gateway.admin_url, "x", TAILRACE_ADMIN_TOKEN="s")
        assert code == 1 and 'no request with id "x"' in message


def test_load_shows_what_the_first_failure_said(front):
    args = ["load", "--url", front.url, "--model", "nope", "--synthetic", "heavy-tail", "--count", "2", "--rate", "100"]
    code, shown, _ = run(*args)
    assert code == 1 and r'failed http_404: 2; the first: "no backend serves the model \"nope\""' in shown, shown
    code, shown, _ = run(*args, "--json")
    assert code == 1 and json.loads(shown)["first_errors"] == {"http_404": 'no backend serves the model "nope"'}


def test_version_and_check_need_no_arguments(tmp_path):
    assert run("--version")[:2] == run("version")[:2]
    done = subprocess.run([BIN, "check"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode == 2 and "tailrace.yaml" in done.stderr
    (tmp_path / "tailrace.yaml").write_text("backends: []\n")
    assert subprocess.run([BIN, "check"], capture_output=True, timeout=20, cwd=tmp_path).returncode == 0


def test_a_stream_that_a_drain_cuts_says_so_in_the_log():
    with Engine("--model", "m") as engine, \
            Gateway({"backends": [backend(engine)], "drain": {"limit": "100ms"}}) as gateway:
        gateway.wait_ready()
        with raw_request(gateway.port, chat(stream=True, max_tokens=5000, emulator_output_tokens=5000)) as sock:
            read_head(sock)
            assert gateway.stop() == 1
        assert 'error="cut: the gateway is shutting down"' in gateway.logs()
