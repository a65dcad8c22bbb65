"""What asks an admin listener may meet anybody there; and what is printed may have nowhere to go."""
import http.server
import os
import subprocess
import threading
import time

import pytest

from harness import BIN, ROOT


class Listener:
    """Answers every request with the same bytes, or a byte every `drip` seconds."""

    def __init__(self, body, drip=0.0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                try:
                    for i in range(0, len(body), 1 if drip else len(body)):
                        self.wfile.write(body[i:i + (1 if drip else len(body))])
                        self.wfile.flush()
                        time.sleep(drip)
                except OSError:
                    pass

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def run(*args, timeout=30):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("body", [
    b'{"law":null}', b'{"law":"x"}', b'{"law":[1]}', b'{"law":{},"influences":[1]}',
    b'{"law":{},"influences":[{"what":"x"}]}', b'{"law":{},"influences":[{"what":"x","factor":"y"}]}',
    b'{"law":{"family":7,"mean":{}},"p50":[],"cap":null,"influences":{}}', b"{}", b"[]", b"garbage"])
def test_predict_survives_any_answer(body):
    with Listener(body) as listener:
        code, _, message = run("predict", "--text", "x", "--admin", listener.url)
        assert code in (0, 1), (code, message)


@pytest.mark.parametrize("body", [
    b'{"request_id":"x","place":{}}', b'{"request_id":7,"place":{"position":"y"}}',
    b'{"request_id":"x","law":{"p50":"z"},"notes":{},"policy":7,"error":[]}'])
def test_explain_survives_any_answer(body):
    with Listener(body) as listener:
        code, _, message = run("explain", "x", "--admin", listener.url)
        assert code in (0, 1), (code, message)


def test_an_answer_that_drips_ends():
    with Listener(b'{"law": ' + b" " * 1000, drip=1.0) as listener:
        start = time.monotonic()
        code, _, message = run("predict", "--text", "x", "--admin", listener.url)
        assert code == 1 and "no whole answer" in message and time.monotonic() - start < 25


LENGTHS = '{"id": "a", "lengths": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}'
COMMANDS = [["score", "--mu", "5", "--sigma", "1", "--max-tokens", "100", "--beta", "0.1"], ["fit", "-"], ["fit", "-", "--json"],
            ["version"], ["evaluate", str(ROOT / "tests/data/requests.jsonl"), "--predictor", "global"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:1] + c[2:3]))
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_output_that_goes_nowhere_is_no_success(command, where):
    done = subprocess.run(["sh", "-c", f'exec "$@" {where}', "sh", BIN, *command], input=LENGTHS, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "could not be written" in done.stderr or "cannot" in done.stderr, done.stderr


def test_a_reader_that_has_seen_enough_is_told_nothing():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([BIN, "version"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=30)
    os.close(write)
    assert done.returncode == 1 and done.stderr == ""
