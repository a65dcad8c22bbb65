"""What arrives and what happens: the gateway's contract for bad input, full queues and failing engines, over real sockets."""
import json
import socket
import time

import pytest

from harness import Engine, FakeEngine, Gateway, backend, chat, chunk, http, raw_request, read_body, read_head, sse_head, wait_until

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
WHOLE = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()


def whole(connection, head, body):
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(WHOLE) + WHOLE)


def status(code, extra=b""):
    return lambda connection, head, body: connection.sendall(
        b"HTTP/1.1 %d X\r\n%scontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}" % (code, extra))


def post(gateway, body, path="/v1/chat/completions", headers=None):
    code, data = http(gateway.url + path, "POST", body, headers)
    return code, data


def error_of(data):
    error = json.loads(data)["error"]
    assert error["message"] and error["type"]
    return error["message"]


@pytest.fixture(scope="module")
def echo():
    """An engine that answers at once, and a gateway before it."""
    with FakeEngine(whole) as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        yield engine, gateway.wait_ready()


@pytest.mark.parametrize("body, word", [
    (b"{", "JSON"), (b"", "JSON"), (b"[]", "object"), (b'{"model":5,"messages":[]}', "model"), (b'{"model":"m","stream":"yes"}', "stream"),
    (b'{"model":"m","n":"two"}', "n"), (b"{\"model\":\"m\",\"x\":" + b"[" * 100 + b"]" * 100 + b"}", ""),
    (b'{"model":"m","x":NaN}', "JSON"), (b'{"model":"m","x":"\xff"}', ""),
])
def test_malformed_or_mistyped_bodies_are_400(echo, body, word):
    code, data = post(echo[1], body)
    assert code == 400, data
    assert word.lower() in error_of(data).lower()


@pytest.mark.parametrize("limit", ["null", "0", "-5", "9223372036854775808", "1e400", "1.5", '"7"'])
def test_limits_pass_unchanged(echo, limit):
    engine, gateway = echo
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":%s }' % limit.encode()
    code, data = post(gateway, body)
    if limit in ('"7"', "1e400") and code == 400:
        return  # not a number that JSON can carry
    assert (code, data) == (200, WHOLE)
    assert engine.requests[-1][1] == body


def test_unknown_model_is_404(echo):
    code, data = post(echo[1], chat(model="nope"))
    assert code == 404 and "nope" in error_of(data)


def raw(gateway, data):
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as sock:
        sock.sendall(data)
        head, rest = read_head(sock)
        read_body(sock, head, rest)
        return int(head.split()[1]), head, sock.recv(10) == b"" if "connection: close" in head.lower() else None


def test_ambiguous_framing_and_large_heads(echo):
    gateway = echo[1]
    post_line = b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\n"
    code, _, closed = raw(gateway, post_line + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
    assert (code, closed) == (400, True)
    code, _, closed = raw(gateway, post_line + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef")
    assert (code, closed) == (400, True)
    code, _, _ = raw(gateway, post_line + b"transfer-encoding: chunkedx\r\n\r\n0\r\n\r\n")
    assert code in (400, 501)
    code, _, _ = raw(gateway, post_line + b"x: " + b"a" * 40_000 + b"\r\n\r\n")
    assert code == 431
    code, _, _ = raw(gateway, post_line + b"content-length: 40000000\r\n\r\n")
    assert code == 413
    assert post(gateway, chat())[0] == 200, "later requests succeed"


def test_queue_full_is_429_with_retry_after():
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine, \
            Gateway({"backends": [backend(engine, slots=1)], "schedule": {"queued_jobs_max": 1}}) as gateway:
        gateway.wait_ready()
        running, waiting = raw_request(gateway.port, chat()), None
        wait_until(lambda: len(engine.requests) == 1)
        waiting = raw_request(gateway.port, chat())
        wait_until(lambda: gateway.pool()["waiting"] == 1)
        with raw_request(gateway.port, chat()) as third:
            head, rest = read_head(third)
            assert head.split()[1] == "429" and "retry-after:" in head.lower()
            error_of(read_body(third, head, rest))
        running.close()
        waiting.close()


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_engine_keeps_the_job_in_its_place(code):
    answers = iter([status(code), status(code), whole])
    with FakeEngine(lambda *a: next(answers)(*a)) as engine, Gateway({"backends": [backend(engine, slots=1)]}) as gateway:
        gateway.wait_ready()
        assert post(gateway, chat())[0] == 200
        assert len(engine.requests) == 3


def test_a_busy_engines_answer_is_relayed_after_the_waiting_limit():
    with FakeEngine(status(503)) as engine, \
            Gateway({"backends": [backend(engine, slots=1)], "timeouts": {"queue": "500ms"}}) as gateway:
        gateway.wait_ready()
        began = time.monotonic()
        with raw_request(gateway.port, chat()) as sock:
            head, _ = read_head(sock)
        assert head.split()[1] == "503" and "retry-after:" in head.lower()
        assert 0.3 < time.monotonic() - began < 10


def test_an_engine_that_dies_before_the_first_byte():
    with FakeEngine(lambda *a: "close") as dying:
        with Gateway({"backends": [backend(dying)]}) as gateway:
            gateway.wait_ready()
            code, data = post(gateway, chat())
            assert code == 502 and error_of(data)
            assert gateway.pool()["running"] == 0
        with FakeEngine(whole) as healthy, Gateway({"backends": [backend(dying, "a"), backend(healthy, "b")]}) as gateway:
            gateway.wait_ready()
            for _ in range(8):
                assert post(gateway, chat()) == (200, WHOLE)


def test_an_engine_that_dies_after_the_first_byte():
    def script(connection, head, body):
        connection.sendall(sse_head() + chunk(EVENT))
        time.sleep(0.05)
        return "close"

    with FakeEngine(script) as dying, FakeEngine(whole) as other, \
            Gateway({"backends": [backend(dying, "a", slots=100), backend(other, "b", slots=1, models=["other"])]}) as gateway:
        gateway.wait_ready()
        with raw_request(gateway.port, chat(stream=True)) as sock:
            head, rest = read_head(sock)
            body = read_body(sock, head, rest)
        assert body.startswith(EVENT) and body.count(b'"content"') == 1
        assert b"[DONE]" not in body
        last = [line for line in body.split(b"\n") if line.startswith(b"data:")][-1]
        assert json.loads(last[5:])["error"]["message"]
        assert len(dying.requests) == 1, "a request that had begun to answer was sent again"


def test_an_engine_that_never_answers_is_504_and_frees_its_slot():
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine, \
            Gateway({"backends": [backend(engine, slots=1)], "timeouts": {"first_byte": "500ms"}}) as gateway:
        gateway.wait_ready()
        code, data = post(gateway, chat())
        assert code == 504 and error_of(data)
        wait_until(lambda: gateway.pool()["running"] == 0)
        wait_until(lambda: len(engine.closed_at) == 1)


def test_draining_finishes_streams_and_refuses_new_work():
    def script(connection, head, body):
        connection.sendall(sse_head())
        for _ in range(20):
            connection.sendall(chunk(EVENT))
            time.sleep(0.05)
        connection.sendall(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    with FakeEngine(script) as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        gateway.wait_ready()
        sock = raw_request(gateway.port, chat(stream=True))
        head, rest = read_head(sock)
        gateway.process.terminate()
        wait_until(lambda: http(gateway.url + "/readyz")[0] in (503, 0))
        late = http(gateway.url + "/v1/chat/completions", "POST", chat())[0]
        assert late in (503, 0)
        body = read_body(sock, head, rest)
        assert body.count(EVENT) == 20 and body.endswith(b"data: [DONE]\n\n")
        assert gateway.stop() == 0


def test_n_samples_take_n_slots():
    with FakeEngine(lambda c, h, b: engine.wait_for_close(c)) as engine, Gateway({"backends": [backend(engine, slots=3)]}) as gateway:
        gateway.wait_ready()
        code, data = post(gateway, chat(n=4))
        assert code == 400 and "4" in error_of(data)
        two = raw_request(gateway.port, chat(n=2))
        wait_until(lambda: len(engine.requests) == 1)
        another = raw_request(gateway.port, chat(n=2))
        wait_until(lambda: gateway.pool()["waiting"] == 1)
        two.close()
        wait_until(lambda: len(engine.requests) == 2)
        another.close()


def test_a_32_megabyte_body_passes_and_a_larger_one_does_not(echo):
    engine, gateway = echo
    image = "data:image/png;base64," + "A" * (20 << 20)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": image}}]}]}).encode()
    assert post(gateway, body) == (200, WHOLE)
    assert engine.requests[-1][1] == body
    engine.requests.clear()
    code, _ = post(gateway, b" " * (33 << 20))
    assert code in (413, 0)  # the connection may be closed while the client still sends


def test_the_upstream_key_is_ours_and_stays_out_of_logs(tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text("sk-upstream-secret\n")
    with FakeEngine(whole) as engine, \
            Gateway({"backends": [backend(engine, api_key_file=str(key_file))], "logging": {"level": "debug"}}) as gateway:
        gateway.wait_ready()
        assert http(gateway.url + "/v1/chat/completions", "POST", chat("a private prompt"), {"authorization": "Bearer sk-client"})[0] == 200
        assert "authorization: bearer sk-upstream-secret" in engine.requests[-1][0].lower()
        logs = gateway.logs()
        for secret in ("sk-upstream-secret", "sk-client", "a private prompt"):
            assert secret not in logs
