"""Hostile clients, engines and operators: one clear answer each, nothing leaks, the next request succeeds."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from harness import BIN, Engine, FakeEngine, Gateway, backend, chat, chunk, free_port, http, raw_request, read_body, read_head, sse_head, wait_until

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
OK_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CHAT = json.dumps(chat(max_tokens=3)).encode()


def answer_ok(connection, head, body):
    connection.sendall(OK_ANSWER)


def exchange(port, data, timeout=10):
    """Everything that a server answers to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as sock:
        with contextlib.suppress(ConnectionError):  # it may close before it has read everything
            sock.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while more := sock.recv(65536):
                answer += more
        return answer


def statuses(answer):
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]


def post(path="/v1/chat/completions", fields=b"", body=CHAT, framing=None, version=b"HTTP/1.1", method=b"POST", host=b"host: t\r\n", close=True):
    framing = b"content-length: %d\r\n" % len(body) if framing is None else framing
    return (method + b" " + path.encode("latin-1") + b" " + version + b"\r\n" + host + framing + fields +
            (b"connection: close\r\n" if close else b"") + b"\r\n" + body)


CHUNKED = b"transfer-encoding: chunked\r\n"
ODD_REQUESTS = {
    "as it should be": (post(), [200]),
    "HTTP/1.0": (post(version=b"HTTP/1.0"), [200]),
    "HTTP/0.9": (b"GET /\r\n\r\n", [400]),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505]),
    "no Host": (post(host=b""), [400]),
    "two Hosts": (post(host=b"host: a\r\nhost: b\r\n"), [400]),
    "CONNECT": (post("t:80", method=b"CONNECT"), [404]),
    "as for a proxy": (post("http://t/v1/chat/completions"), [200]),
    "HEAD": (post("/v1/models", method=b"HEAD", body=b""), [200]),
    "OPTIONS *": (post("*", method=b"OPTIONS"), [404]),
    "PUT": (post(method=b"PUT"), [405]),
    "long method": (post(method=b"A" * 20000), [405]),
    "encoded slash": (post("/v1/chat%2fcompletions"), [400]),
    "trailing slash": (post("/v1/chat/completions/"), [400]),
    "dot segments": (post("/v1/../metrics"), [400]),
    "NUL in the path": (post("/v1/\0"), [400]),
    "bare LF": (b"POST /v1/chat/completions HTTP/1.1\nhost: t\n\n", [400]),
    "bare CR": (post(fields=b"x: a\rb\r\n"), [400]),
    "folded line": (post(fields=b"x: a\r\n b\r\n"), [400]),
    "blank before the colon": (post(fields=b"x : a\r\n"), [400]),
    "101 headers": (post(fields=b"".join(b"x%d: a\r\n" % i for i in range(101))), [431]),
    "40 kB of header": (post(fields=b"x: " + b"a" * 40000 + b"\r\n"), [431]),
    "one byte a chunk": (post(framing=CHUNKED, body=b"".join(chunk(b"%c" % c) for c in CHAT) + b"0\r\n\r\n"), [200]),
    "extensions and trailers": (post(framing=CHUNKED, body=b"%x;a=b\r\n%s\r\n0\r\nx: y\r\n\r\n" % (len(CHAT), CHAT)), [200]),
    "chunk size over 64 bits": (post(framing=CHUNKED, body=b"1" + b"0" * 16 + b"\r\nabc"), [400]),
    "negative chunk size": (post(framing=CHUNKED, body=b"-1\r\n"), [400]),
    "endless chunk extension": (post(framing=CHUNKED, body=b"1;" + b"a" * 100000), [400]),
    "endless trailers": (post(framing=CHUNKED, body=b"0\r\n" + b"x: y\r\n" * 20000), [400]),
    "both framings": (post(framing=b"content-length: 5\r\n" + CHUNKED), [400]),
    "gzip, chunked": (post(framing=b"transfer-encoding: gzip, chunked\r\n"), [400]),
    "negative length": (post(framing=b"content-length: -1\r\n"), [400]),
    "two lengths": (post(framing=b"content-length: 5\r\ncontent-length: 6\r\n"), [400]),
    "huge length": (post(framing=b"content-length: 1000000000000000000\r\n"), [413]),
    "no body": (post(body=b""), [400]),
    "deep arrays": (post(body=b'{"model":"m","messages":' + b"[" * 100000), [400]),
    "deep objects": (post(body=b'{"a":' * 100000), [400]),
    "giant n": (post(body=b'{"model":"m","n":1e300}'), [400]),
    "priority": (post(fields=b"x-tailrace-priority: 1e3\r\n"), [400]),
    "deadline": (post(fields=b"x-tailrace-deadline-ms: nan\r\n"), [400]),
    "law, not accepted here": (post(fields=b"x-tailrace-length-law: nonsense\r\n"), [200]),
    "empty lines before": (b"\r\n" * 1000 + post(), [200]),
    "pipelined": (post(close=False) * 2 + post(), [200, 200, 200]),
    "after an error": (post(body=b"{" + b" " * 10, close=False) + post(), [400, 200]),
    "after an unknown model": (post(body=CHAT.replace(b'"m"', b'"z"'), close=False) + post(), [404, 200]),
    "a body that GET does not want": (post("/healthz", method=b"GET", close=False) + post(), [200, 200]),
}


@pytest.fixture(scope="module")
def front():
    with FakeEngine(answer_ok) as engine, Gateway({"backends": [backend(engine)], "logging": {"level": "debug", "format": "json"},
                                                   "timeouts": {"head": "1s", "body": "1s", "keep_alive": "2s"}}) as gateway:
        yield gateway.wait_ready()


def all_is_well(gateway, files=None):
    """Nothing waits or runs, no descriptor is left, and a request is answered."""
    assert gateway.process.poll() is None, gateway.logs()[-3000:]
    wait_until(lambda: all(p["running"] == 0 and p["waiting"] == 0 for p in gateway.admin("/tailrace/v1/queue")["pools"]), 10, gateway.logs)
    if files is not None:
        wait_until(lambda: gateway.open_files() <= files + 4, 10, lambda: f"{gateway.open_files()} files open, {files} before")
    assert http(gateway.url + "/healthz")[0] == 200


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_an_odd_request_gets_one_clear_answer(front, name):
    data, expected = ODD_REQUESTS[name]
    answer = exchange(front.port, data)
    assert statuses(answer) == expected, answer[:600]
    if expected[0] >= 400 and b"\r\n\r\n" in answer and len(expected) == 1:
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["message"]
    all_is_well(front)


def test_slow_and_broken_uploads_end(front):
    files = front.open_files()
    assert statuses(exchange(front.port, b"POST /v1")) == [408]
    assert statuses(exchange(front.port, post(framing=b"content-length: 5000\r\n"))) == [408]
    assert exchange(front.port, b"") == b""
    for _ in range(20):
        socket.create_connection(("127.0.0.1", front.port)).sendall(post(framing=b"content-length: 5000\r\n"))
    all_is_well(front, files)


def test_names_from_outside_stay_data(front):
    """Tenants, models, ids and paths that try to be header lines, log lines, labels or broken text."""
    nasty = 'a"\nlevel=error event=fake \x1b[31m\u2028' + "é" * 100
    for i in range(200):
        exchange(front.port, post(fields=b"x-tailrace-tenant: \xff\xfe%d\r\nx-request-id: id%d\r\n" % (i, i),
                                  body=json.dumps(chat(model=f"{nasty}{i}")).encode()))
    shown = subprocess.run([BIN, "explain", "--admin", front.admin_url, "id7"], capture_output=True, timeout=20)
    assert shown.returncode == 0 and b"event=fake" in shown.stdout and b"\x1b" not in shown.stdout
    head = exchange(front.port, post(fields=b'x-request-id: a%0d%0aset-cookie: "x\r\n'))
    assert b"set-cookie" not in head.split(b"\r\n\r\n")[0]
    assert http(front.admin_url + "/tailrace/v1/explain/id7")[0] == 200
    json.loads(http(front.admin_url + "/tailrace/v1/explain/id7")[1])
    exposition = http(front.admin_url + "/metrics")[1]
    assert b"fake" not in exposition and len(exposition) < 100_000
    for line in pathlib.Path(front.log_path).read_bytes().splitlines():
        json.loads(line)  # each is one document, and valid UTF-8
    all_is_well(front)


def test_idle_connections_cost_little_and_end(front):
    files, rss = front.open_files(), front.rss_kb()
    socks = [socket.create_connection(("127.0.0.1", front.port)) for _ in range(800)]
    for sock in socks[::2]:
        sock.sendall(b"POST /v1/chat")
    assert http(front.url + "/healthz")[0] == 200
    assert front.rss_kb() - rss < 800 * 32
    wait_until(lambda: front.open_files() <= files + 4, 10, lambda: str(front.open_files()))
    for sock in socks:
        sock.close()
    all_is_well(front, files)


def test_bodies_that_never_end_are_bounded_together():
    def flood(path, framing, piece):
        sock = socket.create_connection(("127.0.0.1", gateway.port), timeout=2)
        with contextlib.suppress(OSError):
            sock.sendall(post(path, framing=framing, body=b""))
            for _ in range(15):
                sock.sendall(piece)
        return sock

    blob = b" " * (1 << 20)
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine, \
            Gateway({"backends": [backend(engine, slots=1)], "schedule": {"queued_bytes_max": "48MiB"},
                     "limits": {"body_bytes_max": "16MiB"}}) as gateway:
        gateway.wait_ready()
        files, rss = gateway.open_files(), gateway.rss_kb()
        socks = [flood("/v1/chat/completions", CHUNKED, chunk(blob)) for _ in range(12)]
        assert gateway.rss_kb() - rss < 3 * 48 * 1024, "180 MB were offered"
        for sock in socks:
            sock.close()
        all_is_well(gateway, files)
        # Lengths that are only announced refuse nobody.
        socks = [flood("/v1/embeddings", b"content-length: %d\r\n" % (16 << 20), b"") for _ in range(12)]
        assert http(gateway.url + "/v1/chat/completions", "POST", {"model": "nope"})[0] == 404
        for sock in socks:
            sock.close()
        all_is_well(gateway, files)


def test_five_hundred_streams_leave_at_once():
    def script(connection, head, body):
        connection.sendall(sse_head() + chunk(EVENT))
        return engine.wait_for_close(connection)

    with FakeEngine(script, backlog=1024) as engine, Gateway({"backends": [backend(engine, slots=600)]}) as gateway:
        gateway.wait_ready()
        files = gateway.open_files()
        socks = [raw_request(gateway.port, chat(stream=True)) for _ in range(500)]
        wait_until(lambda: gateway.pool()["running"] == 500, 20, lambda: str(gateway.pool()))
        for sock in socks:
            sock.close()
        began = time.monotonic()
        assert http(gateway.url + "/healthz")[0] == 200
        assert time.monotonic() - began < 2
        all_is_well(gateway, files)


J, S = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
HOSTILE_ENGINES = {  # what the engine says before it closes → the status, and a text that the client must see
    "garbage": (b"\0\1\2 garbage\r\n\r\n", 502, b"upstream_failed"),
    "no line end": (b"x" * 100000, 502, b"upstream_failed"),
    "nothing": (b"", 502, b"upstream_failed"),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100000, 502, b"upstream_failed"),
    "endless header": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1000000, 502, b"upstream_failed"),
    "100 Continue without end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 502, b"upstream_failed"),
    "101": (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n", 502, b"upstream_failed"),
    "102 first": (b"HTTP/1.1 102 P\r\n\r\n" + OK_ANSWER, 200, b"{}"),
    "negative length": (J + b"content-length: -1\r\n\r\n{}", 502, b"upstream_failed"),
    "both framings": (J + b"content-length: 5\r\n" + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n\r\n", 502, b"upstream_failed"),
    "bad chunk": (J + CHUNKED + b"\r\nzz\r\n", 502, b"upstream_failed"),
    "status 099": (b"HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n", 502, b"upstream_failed"),
    "a byte too many": (J + b"content-length: 1\r\n\r\n{}{}", 200, b"{"),
    "cut stream": (sse_head() + chunk(EVENT), 200, b"upstream_failed"),
    "no [DONE]": (sse_head() + chunk(EVENT) + b"0\r\n\r\n", 200, b"content"),
    "until the end": (J + b"\r\n{}", 200, b"{}"),
    "gzip all the same": (J + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\0", 200, b"\x1f\x8b"),
    "error in a 200": (J + b'content-length: 25\r\n\r\n{"error":{"message":"x"}}  ', 200, b"error"),
    "fields that are ours": (b"HTTP/1.1 200 OK\r\nx-tailrace-backend: forged\r\nx-tailrace-other: forged\r\ncontent-length: 2\r\n\r\n{}",
                             200, b"x-tailrace-backend: a"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "redirect": (b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n", 302, b""),
    "500 in HTML": (b"HTTP/1.1 500 X\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", 500, b"<html>"),
    "usage beyond all numbers": (sse_head() + chunk(EVENT) + chunk(b'data: {"choices":[],"usage":{"completion_tokens":-9e400}}\n\n') +
                                 chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n", 200, b"[DONE]"),
    "busy for ever": (b"HTTP/1.1 429 T\r\nretry-after: 99999999999999\r\ncontent-length: 0\r\n\r\n", 429, b""),
}


def test_hostile_engines_harm_one_request_each():
    current = [b""]

    def script(connection, head, body):
        connection.sendall(current[0])
        return "close"

    with FakeEngine(script) as engine, Gateway({"backends": [backend(engine, slots=2)], "timeouts": {"queue": "500ms"},
                                                "health": {"interval": "20ms"}}) as gateway:
        gateway.wait_ready()
        for name, (answer, status, text) in {**HOSTILE_ENGINES, "well again": (OK_ANSWER, 200, b"{}")}.items():
            # A failure may have marked the engine ill, and a busy one has to be let alone for a while.
            gateway.admin("/tailrace/v1/backends/a", "DELETE")
            gateway.admin("/tailrace/v1/backends/a", "PUT", {"url": engine.url, "models": ["m"], "slots": 2})
            wait_until(lambda: http(gateway.url + "/readyz")[0] == 200, 5, gateway.logs)
            current[0] = answer
            got = exchange(gateway.port, post(body=json.dumps(chat(stream=True)).encode()))
            assert statuses(got)[:1] == [status], (name, got[:500])
            assert text in got and b"forged" not in got, (name, got[:500])
            all_is_well(gateway)


@pytest.mark.parametrize("begin,piece", [(J + b"\r\n", b"z" * 65536), (S + b"\r\n", b": ping\n\n" * 1000), (S + b"\r\ndata: ", b"a" * 65536),
                                         (S + b"\r\nid: ", b"a" * 65536), (S + b"\r\n", b"event: x\n" * 5000)],
                         ids=["body", "comments", "one data line", "one field line", "fields"])
def test_an_answer_without_end_costs_no_memory(begin, piece):
    def script(connection, head, body):
        connection.sendall(begin)
        for _ in range((48 << 20) // len(piece)):
            connection.sendall(piece)
        return "close"

    with FakeEngine(script) as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        gateway.wait_ready()
        rss = gateway.rss_kb()
        with raw_request(gateway.port, chat(stream=True)) as sock:
            received = 0
            while received < 40 << 20:
                more = sock.recv(1 << 20)
                assert more, gateway.logs()
                received += len(more)
        assert gateway.rss_kb() - rss < 24 * 1024
        all_is_well(gateway)


def test_secrets_and_prompts_stay_inside():
    with Engine("--model", "m", "--time-scale", "50") as engine, \
            Gateway({"backends": [{**backend(engine), "api_key_env": "ENGINE_KEY"}], "admin": {"token_env": "ADMIN_TOKEN"},
                     "logging": {"level": "debug"}}, env={"ENGINE_KEY": "sk-SECRET-engine", "ADMIN_TOKEN": "SECRET-token"}) as gateway:
        gateway.wait_ready()
        key = {"authorization": "Bearer sk-SECRET-client", "x-request-id": "known"}
        assert http(gateway.url + "/v1/chat/completions?key=SECRET-query", "POST", chat("SECRET-prompt", max_tokens=3), key)[0] == 200
        for body in (b'{"model":"m","messages":"SECRET-prompt"}', b'{"model":"m","messages":[SECRET-prompt'):
            status, answer = http(gateway.url + "/v1/chat/completions", "POST", body, key)
            assert status == 400 and b"SECRET" not in answer
        http(gateway.url + "/v1/embeddings?key=SECRET-query", "POST", {"model": "m", "input": "SECRET-prompt"}, key)
        for token in ("", "Bearer", "Bearer ", "Bearer SECRET-toke", "Bearer SECRET-tokenx", "Basic SECRET-token", "SECRET-token"):
            for path in ("/metrics", "/tailrace/v1/queue", "/tailrace/v1/explain/known", "/nothing"):
                status, answer = http(gateway.admin_url + path, headers={"authorization": token})
                assert status == 401 and b"SECRET" not in answer
        for path in ("/metrics", "/tailrace/v1/queue", "/tailrace/v1/backends", "/tailrace/v1/explain/known"):
            status, answer = http(gateway.admin_url + path, headers={"authorization": "Bearer SECRET-token"})
            assert status == 200 and b"SECRET" not in answer, answer
        assert "SECRET" not in gateway.logs()


def test_removing_the_last_engine_answers_those_who_wait():
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine, Gateway({"backends": [backend(engine, slots=1)]}) as gateway:
        gateway.wait_ready()
        running = raw_request(gateway.port, chat(stream=True))
        wait_until(lambda: gateway.pool()["running"] == 1)
        waiting = raw_request(gateway.port, chat(stream=True))
        wait_until(lambda: gateway.pool()["waiting"] == 1)
        gateway.admin("/tailrace/v1/backends/a", "DELETE")
        head, rest = read_head(waiting)
        assert " 503 " in head and "retry-after" in head.lower()
        assert b"removed" in read_body(waiting, head, rest)
        running.close()
        wait_until(lambda: gateway.admin("/tailrace/v1/queue")["pools"] == [], 5, gateway.logs)
        waiting.close()


@pytest.mark.parametrize("signals", [[signal.SIGTERM, signal.SIGTERM], [signal.SIGHUP, signal.SIGINT]], ids=["TERM TERM", "HUP INT"])
def test_asked_twice_to_end_it_tells_everyone(signals):
    def script(connection, head, body):
        if b'"stream": true' in body:
            connection.sendall(sse_head() + chunk(EVENT))
        return engine.wait_for_close(connection)

    with FakeEngine(script) as engine, Gateway({"backends": [backend(engine, slots=2)]}) as gateway:
        gateway.wait_ready()
        stream, whole = raw_request(gateway.port, chat(stream=True)), raw_request(gateway.port, chat())
        head, rest = read_head(stream)
        wait_until(lambda: gateway.pool()["running"] == 2)
        waiting = raw_request(gateway.port, chat())
        wait_until(lambda: gateway.pool()["waiting"] == 1)
        gateway.process.send_signal(signals[0])
        wait_until(lambda: "drain_begins" in gateway.logs(), 5, gateway.logs)
        assert gateway.process.poll() is None
        gateway.process.send_signal(signals[1])
        assert gateway.process.wait(10) == 1
        assert b"shutting_down" in read_body(stream, head, rest)
        for sock in (whole, waiting):
            head, rest = read_head(sock)
            assert " 503 " in head and b"draining" in read_body(sock, head, rest)
        for sock in (stream, whole, waiting):
            sock.close()


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, None], ids=["empty", "garbage", "cut short"])
def test_a_damaged_model_file_is_put_aside(tmp_path, content):
    model = tmp_path / "model"
    with FakeEngine(answer_ok) as engine:
        config = {"backends": [backend(engine)], "predict": {"model_file": str(model)}}
        if content is None:
            with Engine("--model", "m", "--time-scale", "50") as real, Gateway({**config, "backends": [backend(real)]}) as gateway:
                gateway.wait_ready()
                assert http(gateway.url + "/v1/chat/completions", "POST", chat(max_tokens=3))[0] == 200
                assert gateway.stop() == 0
            content = model.read_bytes()[:-7]
        model.write_bytes(content)
        with Gateway(config) as gateway:
            gateway.wait_ready()
            assert "model_unusable" in gateway.logs()
            assert (tmp_path / "model.damaged").read_bytes() == content
            assert http(gateway.url + "/v1/chat/completions", "POST", chat())[0] == 200
            assert gateway.stop() == 0


def program(*args, **more):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stderr


SMALL = "backends:\n  - {name: a, url: 'http://127.0.0.1:1', models: [m], slots: 1}\n"
BAD_CONFIGS = {
    "": "backends", "[]": "mapping", "a: b: c": "YAML", "a: &x [*x]": "aliases", "\0": "YAML", "[" * 20000: "key",
    SMALL + "listen: 5\n": "listen", SMALL + "admin: {listen: '0.0.0.0:1'}\n": "admin.listen",
    SMALL + "admin: {listen: '127.example.org:1'}\n": "admin.listen", SMALL + "admin: {token_env: NOT_THERE}\n": "NOT_THERE",
    SMALL + "admin: {token_file: /dev/zero}\n": "token_file", SMALL + SMALL: "twice", SMALL + "schedule: {beta_min: .nan}\n": "beta_min",
    SMALL + "limits: {body_bytes_max: 9999999999999999GiB}\n": "body_bytes_max", SMALL + "predict: {model_file: /}\n": "model_file",
    SMALL + "predict: {model_file: /no/such/folder/x}\n": "model_file", SMALL.replace("127.0.0.1:1", "me:hunter2@h"): "give keys apart",
    SMALL.replace("slots: 1", "slots: 1.5"): "slots",
}


@pytest.mark.parametrize("text", BAD_CONFIGS, ids=range(len(BAD_CONFIGS)))
def test_a_bad_configuration_is_refused_with_one_reason(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    code, message = program("check", str(path))
    assert code == 2 and BAD_CONFIGS[text] in message and "hunter2" not in message, message


def test_programs_name_what_is_wrong_with_their_arguments(tmp_path):
    busy = socket.create_server(("127.0.0.1", 0))
    port = str(busy.getsockname()[1])
    (tmp_path / "busy.yaml").write_text(SMALL + f"listen: 127.0.0.1:{port}\nadmin: {{listen: '127.0.0.1:0'}}\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "trace").write_text("t_s\n1e300\n")
    drawn = ["--synthetic", "heavy-tail", "--count", "2"]
    for args, code, word in [
        (["serve", "-c", str(tmp_path / "busy.yaml")], 1, "in use"), (["engine", "--port", port], 1, "in use"),
        (["engine", "--port", "99999"], 2, "--port"), (["engine", "--time-scale", "nan"], 2, "time scale"), (["engine", "--max-num-seqs", "0"], 2, "max_num_seqs"),
        (["bogus"], 2, '"bogus"'), (["--version"], 0, ""), (["serve", "-c", str(tmp_path / "absent.yaml")], 2, "examples/tailrace.yaml"),
        (["load"], 2, "--requests"), (["load", "--synthetic", "heavy-tail", "--count", "-1", "--rate", "1"], 2, "--count is -1"), (["load", *drawn, "--rate", "0"], 2, "--rate"), (["load", *drawn, "--rate", "nan"], 2, "--rate"),
        (["load", *drawn, "--rate", "inf"], 2, "--rate"), (["load", "--requests", str(tmp_path / "empty"), "--rate", "1"], 2, "no request"),
        (["load", *drawn, "--trace", str(tmp_path / "trace")], 2, "arrival"), (["load", *drawn, "--rate", "5", "--url", "nonsense"], 2, "--url"),
        (["load", *drawn, "--rate", "50", "--url", f"http://127.0.0.1:{free_port()}"], 1, ""),
        (["explain", "a b"], 2, "request-id"), (["explain", "x", "--admin", "nonsense"], 2, "--admin"),
        (["score", "--mu", "nan", "--sigma", "1", "--max-tokens", "9", "--beta", "1"], 2, "--mu"),
        (["score", "--mu", "5", "--sigma", "1", "--nu", "1e300", "--max-tokens", "9", "--beta", "1"], 2, "--nu"),
    ]:
        got, message = program(*args)
        assert got == code and word in message and len(message) < 600, (args, got, message)
    busy.close()


def test_an_interrupted_load_reports_what_it_has():
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine:
        args = [BIN, "load", "--url", engine.url, "--model", "m", "--synthetic", "heavy-tail", "--count", "5", "--rate", "100", "--json"]
        with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            wait_until(lambda: len(engine.requests) == 5, 10)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=10)
        assert process.returncode == 1 and json.loads(out)["failed"] == 5


def test_a_report_into_a_device_leaves_the_device(tmp_path):
    os.symlink("/dev/null", tmp_path / "null")
    with Engine("--model", "m", "--time-scale", "50") as engine:
        code, message = program("load", "--url", engine.url, "--model", "m", "--synthetic", "heavy-tail", "--count", "2", "--rate", "50",
                                "--csv", str(tmp_path / "null"))
        assert code == 0, message
    assert (tmp_path / "null").is_char_device()
