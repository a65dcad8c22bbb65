"""What is measured: an engine with a few slots and `tailrace serve` in front of it, as the demo's children."""
import json
import os
import pathlib
import shutil
import time

import client
import processes

SLOTS = 4
# The predictor's own test of calibration comes on top; its usual 100 answers would take a small machine too long.
MIN_SAMPLES = 40
# About ten times as fast as the model on two cores, so that a short run has enough requests to say something.
EMULATED_ENGINE = ["--alpha", "2", "--beta", "0.25", "--gamma", "0", "--knee", "0", "--max-batched-tokens", "512", "--kv-tokens", "16384"]
TRY_EMULATOR = "try the emulator instead: DEMO_ENGINE=emulator make demo"
REPORT_IT = "if this repeats, report it with the log above"


class Stack:
    def __init__(self, settings, children):
        self.settings, self.children, self.folder = settings, children, children.folder
        self.model = "emulated" if settings.emulated else "smollm2-135m-instruct"
        self.learned = self.folder / "learned"  # what gateways know when they start, once there is something
        self.description = ""
        self.engine = self.gateway = self.engine_port = self.port = self.admin_port = None

    def engine_command(self):
        """(command, what to call it)."""
        if self.settings.emulated:
            return ([self.settings.tailrace, "engine", "--port", "0", "--model", self.model, "--max-num-seqs", SLOTS, "--drain-timeout", 1,
                     *EMULATED_ENGINE], f"EMULATED (tailrace engine, {SLOTS} slots; no language model)")
        threads = len(os.sched_getaffinity(0))
        server = pathlib.Path(__file__).with_name("model_server.py")
        return ([self.settings.model_python, server, "--slots", SLOTS, "--threads", threads],
                f"SmolLM2-135M-Instruct (4-bit) on llama.cpp's server, {SLOTS} slots, {threads} threads, processor only")

    def start_engine(self):
        command, self.description = self.engine_command()
        # Threads that spin while they wait starve everything else on a small machine.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        self.engine, ports = self.children.start_server("engine", command, TRY_EMULATOR, environment=environment)
        self.engine_port = ports["port"]
        self.await_ok(self.engine, f"http://127.0.0.1:{self.engine_port}/health", TRY_EMULATOR)

    def start_gateway(self, name, policy):
        """A fresh gateway that knows what `learned` holds; returns the file in which it keeps what it learns."""
        model_file = self.folder / f"{name}.model"
        if self.learned.exists():
            shutil.copyfile(self.learned, model_file)
        config = {
            "listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"},
            "backends": [{"name": "demo", "url": f"http://127.0.0.1:{self.engine_port}", "models": [self.model], "slots": SLOTS}],
            "schedule": {"policy": policy}, "drain": {"limit": "2s"},
            "predict": {"mode": "on", "min_samples": MIN_SAMPLES, "model_file": str(model_file)},
        }
        config_file = self.folder / f"{name}.yaml"
        config_file.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML
        self.gateway, ports = self.children.start_server(name, [self.settings.tailrace, "serve", "-c", config_file], REPORT_IT)
        self.port, self.admin_port = ports["public"], ports["admin"]
        self.await_ok(self.gateway, f"http://127.0.0.1:{self.port}/readyz", REPORT_IT)
        return model_file

    def await_ok(self, child, url, remedy, patience_s=30):
        deadline = time.monotonic() + patience_s
        while client.fetch(url, timeout_s=2)[0] != 200:
            child.check(remedy)
            if time.monotonic() > deadline:
                raise child.failure(f"was not ready within {patience_s} s", remedy)
            time.sleep(0.05)

    def check(self):
        """Raises if the engine or the gateway has died."""
        self.engine.check("try again; on a machine with little memory close other programs first")
        self.gateway.check(REPORT_IT)

    def admin(self, path, method="GET", document=None):
        """A question to the gateway's admin API."""
        status, body = client.fetch(f"http://127.0.0.1:{self.admin_port}/tailrace/v1/{path}", method, document)
        if status != 200:
            raise self.gateway.failure(f"answered {status} to {method} {path}: {body}", REPORT_IT)
        return body

    def waiting_and_running(self):
        pool = next(iter(self.admin("queue")["pools"]), {"waiting": 0, "running": 0})
        return pool["waiting"], pool["running"]

    def explained(self, request_id):
        """(predicted median, whether the prediction decided the place) of a finished request."""
        law = (self.admin(f"explain/{request_id}").get("law") if request_id else None) or {}
        return law.get("p50"), bool(law.get("decides_order"))
