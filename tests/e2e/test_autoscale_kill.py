"""kill -9 at any step of the autoscaler's cycle: no order is lost, none is doubled.

The gateway that replicas are registered with answers slowly, so that the steps of a cycle are long enough to be hit; the
moments are drawn by a fixed seed, and some follow what the journal shows.
"""
import contextlib
import json
import random
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import Program, http, wait_until
from test_autoscale import Setup


class SlowGateway:
    """An admin listener that takes its time, and remembers who is registered."""

    def __init__(self, delay):
        gateway = self
        self.backends = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                time.sleep(delay)
                name = self.path.rsplit("/", 1)[-1]
                if self.command == "PUT":
                    gateway.backends[name] = json.loads(body)
                if self.command == "DELETE":
                    gateway.backends.pop(name, None)
                backends = [{"name": n, **b, "active": 0} for n, b in gateway.backends.items()]
                data = json.dumps({"backends": backends}).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_PUT = do_DELETE = reply

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def orders(setup):
    """What the journal says of each order: id → (closed, logged)."""
    path = setup.path / "autoscaler.db"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)) as database:
        return {row[0]: row[1:] for row in database.execute("SELECT id, closed, logged FROM orders")}
    return {}


def test_killed_at_every_step_it_loses_and_doubles_no_order():
    chance = random.Random(6)
    with SlowGateway(0.05) as gateway, Setup(processes={"gateway": gateway.url}) as setup:
        variant = setup.config["variants"]["small"]
        kills = 0
        for round_ in range(24):
            # The bounds move, so that each round has an order to give.
            variant["min"] = variant["max"] = 1 + round_ % 2
            setup.write()
            before = set(orders(setup))
            program = Program(*setup.args())
            with program:
                if round_ % 3 == 0:  # as soon as an order is open, or closed and not logged
                    deadline = time.monotonic() + 2
                    while time.monotonic() < deadline:
                        if any(oid not in before and not logged for oid, (_, logged) in orders(setup).items()):
                            break
                        time.sleep(0.001)
                else:
                    time.sleep(chance.uniform(0.0, 1.2))
                program.kill()
                kills += 1
        variant["min"] = variant["max"] = 2
        setup.write()
        with Program(*setup.args()) as program:
            url = f"http://127.0.0.1:{program.ports['metrics']}"

            def settled():
                status, body = http(url + "/tailrace/v1/decisions")
                if status != 200:
                    return False
                current = [v["current"] for m in json.loads(body)["models"] for v in m["variants"]]
                return current == [2] and all(closed and logged for closed, logged in orders(setup).values())
            wait_until(settled, 60, program.logs, interval=0.1)
            assert program.stop() == 0
        assert kills == 24
        lines = setup.lines()
        ids = [line["id"] for line in lines]
        assert len(ids) == len(set(ids)), "a decision is in the log twice"
        moves = {line["id"]: line for line in lines if line["action"] != "hold"}
        journal = orders(setup)
        assert len(moves) >= 8
        assert set(journal) == set(moves), "the journal's orders and the log's moves differ"
        assert all(line["outcome"] is not None for line in moves.values())
        assert len(gateway.backends) == 2
        for port in (variant["first_port"], variant["first_port"] + 1):
            assert http(f"http://127.0.0.1:{port}/health")[0] == 200
        running = [r for r in setup.replicas() if r["state"] not in ("draining", "stopping")]
        assert len(running) == 2, "a replica was started twice, or lost"
