"""Streams pass byte for byte over real sockets, however they are split into packets. (Unit tests try every split.)"""
import random

import pytest

from harness import ROOT, FakeEngine, Gateway, backend, chat, chunk, raw_request, read_body, read_head, sse_head

OURS = sorted((ROOT / "tests/gateway/streams").glob("*.sse"))


class Player:
    """Plays one recording, cut where told, with a pause of nothing: TCP_NODELAY makes each piece a packet."""

    def __init__(self):
        self.pieces = []
        self.content_type = b"text/event-stream"

    def __call__(self, connection, head, body):
        connection.sendall(sse_head().replace(b"text/event-stream", self.content_type))
        for piece in self.pieces:
            connection.sendall(chunk(piece))
        connection.sendall(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def stage():
    player = Player()
    with FakeEngine(player) as engine, Gateway({"backends": [backend(engine)]}) as gateway:
        yield player, engine, gateway.wait_ready()


def relayed(gateway, usage_asked):
    more = {"stream_options": {"include_usage": True}} if usage_asked else {}
    with raw_request(gateway.port, chat(stream=True, **more)) as sock:
        head, rest = read_head(sock)
        assert head.split()[1] == "200", head
        return head, read_body(sock, head, rest)


def cuts(data, rng):
    yield [data]
    yield [data[i:i + 1] for i in range(min(len(data), 600))] + ([data[600:]] if len(data) > 600 else [])
    for _ in range(6):
        points = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, 25)))
        yield [data[a:b] for a, b in zip([0, *points], [*points, len(data)])]


def test_our_recordings(stage):
    player, engine, gateway = stage
    assert OURS, "tests/gateway/streams holds no recording"
    rng = random.Random(1)
    for path in OURS:
        data = path.read_bytes()
        for pieces in cuts(data, rng):
            player.pieces = pieces
            head, body = relayed(gateway, usage_asked=True)
            assert body == data, path.name
            assert "x-accel-buffering: no" in head.lower() and "cache-control" in head.lower()


def test_public_recordings(stage, shared):
    player, engine, gateway = stage
    recordings = sorted((shared / "data/wire_fixtures/sse").glob("*.sse"))
    if not recordings:
        pytest.skip("no recorded streams beside the reference data")
    rng = random.Random(2)
    for path in recordings:
        data = path.read_bytes()
        for pieces in cuts(data, rng):
            player.pieces = pieces
            assert relayed(gateway, usage_asked=True)[1] == data, path.name


def test_only_the_usage_event_that_we_caused_is_dropped(stage):
    player, engine, gateway = stage
    event = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"\xe4\xbd\xa0\xf0\x9f\x98\x80"}}],"usage":null}\n\n'
    usage = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    done = b"data: [DONE]\n\n"
    rng = random.Random(3)
    stream = event * 3 + usage + done
    for pieces in cuts(stream, rng):
        player.pieces = pieces
        assert relayed(gateway, usage_asked=False)[1] == event * 3 + done
        assert b'"include_usage":true' in engine.requests[-1][1].replace(b" ", b"")
        assert relayed(gateway, usage_asked=True)[1] == stream


def test_a_stream_of_another_type_is_not_touched(stage):
    player, engine, gateway = stage
    player.content_type = b"application/octet-stream"
    player.pieces = [bytes(range(256)) * 40]
    assert relayed(gateway, usage_asked=False)[1] == bytes(range(256)) * 40
    player.content_type = b"text/event-stream"
