"""What the end-to-end tests share: processes that announce their ports, a scripted engine, raw HTTP.

Everything listens on 127.0.0.1 with ports that the system picks.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("TAILRACE_BIN", str(ROOT / "build" / "tailrace"))
SHARED = pathlib.Path(os.environ.get("TAILRACE_SHARED", ROOT.parent / "shared"))


class Program:
    """A tailrace subcommand that runs until stopped and writes its ports to a file."""

    def __init__(self, *args, env=None):
        self.folder = tempfile.TemporaryDirectory(prefix="tailrace-e2e-")
        ports_file = os.path.join(self.folder.name, "ports.json")
        self.log_path = os.path.join(self.folder.name, "log")
        self.log = open(self.log_path, "w+b")
        self.process = subprocess.Popen([BIN, *args, "--ports-file", ports_file], stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(env or {})})
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                self.ports = json.loads(pathlib.Path(ports_file).read_text())
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{args} did not start:\n{self.logs()}")
            time.sleep(0.005)

    def logs(self):
        self.log.flush()
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, timeout=20):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop within {timeout} s:\n{self.logs()}")

    def rss_kb(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


class Engine(Program):
    def __init__(self, *args):
        super().__init__("engine", "--port", "0", *args)
        self.port = self.ports["port"]
        self.url = f"http://127.0.0.1:{self.port}"


class Gateway(Program):
    """`tailrace serve` with a configuration given as a dictionary (JSON is YAML)."""

    def __init__(self, config, env=None):
        self.config_folder = tempfile.TemporaryDirectory(prefix="tailrace-e2e-")
        path = os.path.join(self.config_folder.name, "tailrace.yaml")
        merged = {"listen": "127.0.0.1:0", **config}
        merged["admin"] = {"listen": "127.0.0.1:0", **config.get("admin", {})}
        pathlib.Path(path).write_text(json.dumps(merged, indent=1))
        super().__init__("serve", "-c", path, env=env)
        self.port, self.admin_port = self.ports["public"], self.ports["admin"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{self.admin_port}"

    def admin(self, path, method="GET", body=None):
        status, data = http(self.admin_url + path, method, body)
        assert status < 300, (status, data)
        return json.loads(data) if data.startswith((b"{", b"[")) else data.decode()

    def wait_ready(self, timeout=15):
        wait_until(lambda: http(self.url + "/readyz")[0] == 200, timeout, lambda: self.logs())
        return self

    def pool(self, model=None):
        pools = self.admin("/tailrace/v1/queue")["pools"]
        return next(p for p in pools if model is None or p["model"] == model)


def http(url, method="GET", body=None, headers=None, timeout=30):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def wait_until(condition, timeout=10, explain=lambda: "", interval=0.005):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout} s: {explain()}"
        time.sleep(interval)


def free_port():
    """One that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def chat(prompt="hi", model="m", **more):
    return {"model": model, "messages": [{"role": "user", "content": prompt}], **more}


def raw_request(port, body, path="/v1/chat/completions", headers=()):
    """Sends one POST and returns the socket, so that a test can read slowly or leave."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sock = socket.create_connection(("127.0.0.1", port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = [f"POST {path} HTTP/1.1", "host: t", "content-type: application/json", f"content-length: {len(data)}", *headers]
    sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    return sock


def read_head(sock):
    """Reads up to the end of a message head; returns (head text, bytes that came after it)."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            raise ConnectionError(f"closed inside a head: {data!r}")
        data += more
    head, rest = data.split(b"\r\n\r\n", 1)
    return head.decode("latin-1"), rest


def read_body(sock, head, rest):
    """The decoded body of an answer: by length, chunked, or until the end."""
    fields = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in head.split("\r\n")[1:])}
    if fields.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            while b"\r\n" not in rest:
                more = sock.recv(65536)
                if not more:
                    raise ConnectionError("cut inside a chunk size")
                rest += more
            size, rest = rest.split(b"\r\n", 1)
            length = int(size.split(b";")[0], 16)
            while len(rest) < length + 2:
                more = sock.recv(65536)
                if not more:
                    raise ConnectionError("cut inside a chunk")
                rest += more
            body, rest = body + rest[:length], rest[length + 2:]
            if length == 0:
                return body
    if "content-length" in fields:
        while len(rest) < int(fields["content-length"]):
            more = sock.recv(65536)
            if not more:
                raise ConnectionError("cut inside a body")
            rest += more
        return rest
    while more := sock.recv(65536):
        rest += more
    return rest


class FakeEngine:
    """An engine whose every answer is scripted: `script(connection, head, body)` runs in a thread per request.

    GET /health and GET /v1/models are answered by itself. `closed_at` has the times at which gateways closed a connection that
    `wait_for_close` was watching.
    """

    def __init__(self, script, model="m", backlog=128):
        self.script, self.model = script, model
        self.closed_at, self.requests = [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError, ConnectionError, ValueError), connection:
            while True:
                head, rest = read_head(connection)
                line = head.split("\r\n")[0]
                if line.startswith("GET"):
                    answer = json.dumps({"object": "list", "data": [{"id": self.model, "object": "model"}]}).encode() if "/models" in line else b"{}"
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)
                    continue
                fields = {k.strip().lower(): v.strip() for k, v in (x.split(":", 1) for x in head.split("\r\n")[1:])}
                length = int(fields.get("content-length", 0))
                while len(rest) < length:
                    rest += connection.recv(65536)
                self.requests.append((head, rest))
                if self.script(connection, head, rest) == "close":
                    return

    def wait_for_close(self, connection):
        """Blocks until the gateway closes this connection, and notes when."""
        with contextlib.suppress(OSError):
            while connection.recv(65536):
                pass
        self.closed_at.append(time.monotonic())
        return "close"

    def close(self):
        # shutdown wakes the thread that sits in accept(); close alone would leave the port open.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sse_head():
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def backend(engine, name="a", slots=4, models=("m",), **more):
    return {"name": name, "url": engine.url, "models": list(models), "slots": slots, **more}


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))]
