"""The official OpenAI clients, streaming and not, through the gateway to the emulated engine."""
import json
import subprocess

import pytest
from openai import NotFoundError, OpenAI

from harness import ROOT, Engine, Gateway, backend


@pytest.fixture(scope="module")
def gateway():
    with Engine("--model", "m", "--time-scale", "20") as engine, Gateway({"backends": [backend(engine)]}) as running:
        yield running.wait_ready()


def test_python_client_streams_and_does_not(gateway):
    client = OpenAI(base_url=gateway.url + "/v1", api_key="unused")
    assert [m.id for m in client.models.list()] == ["m"]
    messages = [{"role": "user", "content": "Tell me about rivers."}]
    whole = client.chat.completions.create(model="m", messages=messages, max_tokens=50)
    assert whole.choices[0].message.content
    assert 1 <= whole.usage.completion_tokens <= 50

    parts, usages = [], []
    for event in client.chat.completions.create(model="m", messages=messages, max_tokens=50, stream=True):
        assert event.choices, "the usage event that the gateway asked for reached a client that did not"
        parts.append(event.choices[0].delta.content or "")
        usages.append(event.usage)
    assert "".join(parts) == whole.choices[0].message.content
    assert not any(usages)

    asked = list(client.chat.completions.create(model="m", messages=messages, max_tokens=50, stream=True, stream_options={"include_usage": True}))
    assert asked[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_python_client_completions_and_errors(gateway):
    client = OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0)
    answer = client.completions.create(model="m", prompt="Once upon a time", max_tokens=20)
    assert answer.choices[0].text
    with pytest.raises(NotFoundError) as error:
        client.chat.completions.create(model="unknown", messages=[{"role": "user", "content": "x"}])
    assert "unknown" in str(error.value)


def test_response_headers_say_what_happened(gateway):
    client = OpenAI(base_url=gateway.url + "/v1", api_key="unused")
    raw = client.chat.completions.with_raw_response.create(model="m", messages=[{"role": "user", "content": "x"}], max_tokens=5)
    assert raw.headers["x-tailrace-request-id"]
    assert raw.headers["x-tailrace-backend"] == "a"
    assert float(raw.headers["x-tailrace-queue-ms"]) >= 0


def test_javascript_client_streams_and_does_not(gateway):
    done = subprocess.run(["node", "client.mjs", gateway.url + "/v1"], cwd=ROOT / "tests/e2e/js", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["whole"] and result["whole"] == result["streamed"]
    assert result["usageEvents"] == 0
    assert result["askedUsage"] == result["wholeUsage"]
