"""Sends one request as a client would, and keeps a few of them in flight: the warm-up and small questions to the servers.

The measured rounds are sent by `tailrace load`, which has no interpreter between the wire and the clock.
"""
import dataclasses
import http.client
import json
import threading
import time
import urllib.error
import urllib.request


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back. Times in seconds from sending; `error` is empty if all went well."""
    name: str
    ttft_s: float
    end_to_end_s: float
    output_tokens: int
    predicted_median: float | None
    error: str = ""


def fetch(url, method="GET", document=None, timeout_s=10):
    """One small exchange in JSON: (status, parsed body or text). Status 0: nobody answered."""
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    except (OSError, http.client.HTTPException):
        return 0, ""
    try:
        return status, json.loads(body)
    except ValueError:
        return status, body.decode(errors="replace")


def ask(port, name, body, timeout_s):
    """One streamed chat completion. Never raises for what the server or the network does."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    first = tokens = predicted = None
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            said = response.read(300).decode(errors="replace")
            return Answer(name, 0, time.monotonic() - began, 0, None, f"status {response.status}: {said}")
        predicted = response.getheader("x-tailrace-predicted-p50")
        for line in response:
            event = line.strip()
            if not event.startswith(b"data:") or event == b"data: [DONE]":
                continue
            document = json.loads(event[5:])
            if first is None and any(choice.get("delta", {}).get("content") for choice in document.get("choices", [])):
                first = time.monotonic() - began
            tokens = (document.get("usage") or {}).get("completion_tokens", tokens)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(name, 0, time.monotonic() - began, 0, None, f"{type(error).__name__}: {error}")
    finally:
        connection.close()
    ended = time.monotonic() - began
    if not tokens:
        return Answer(name, 0, ended, 0, None, "the stream ended without a usage count")
    return Answer(name, first or ended, ended, tokens, float(predicted) if predicted else None)


def keep_in_flight(port, bodies, concurrency, timeout_s, enough):
    """Asks `bodies` ((name, body) pairs) with `concurrency` at a time; starts no new one once `enough(answers so far)` is true.

    Returns the answers. `enough` is called in the calling thread about twice a second.
    """
    waiting, answers, lock = list(reversed(bodies)), [], threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                name, body = waiting.pop()
            answer = ask(port, name, body, timeout_s)
            with lock:
                answers.append(answer)

    # Daemons: Ctrl-C need not wait for answers under way.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.5) if threads[0].is_alive() else time.sleep(0.25)
        with lock:
            so_far = list(answers)
        if enough(so_far):
            with lock:
                waiting.clear()
    return answers
