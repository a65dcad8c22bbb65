"""Starts the demo's children, waits until they listen, and makes sure that none outlives the demo."""
import contextlib
import ctypes
import json
import pathlib
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LOG_LINES_SHOWN = 15


class DemoError(Exception):
    """Something that ends the demo: what happened, and what the reader can do about it."""

    def __init__(self, message, remedy):
        super().__init__(message)
        self.remedy = remedy


def _die_with_parent():
    # Even a demo that is killed with -9 leaves nothing behind.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A process with a log. Its own session, so that Ctrl-C reaches the demo alone and the demo stops things in order."""

    def __init__(self, name, command, folder, environment=None):
        self.name, self.command = name, [str(part) for part in command]
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment, start_new_session=True, preexec_fn=_die_with_parent)

    def running(self):
        return self.process.poll() is None

    def last_lines(self):
        lines = self.log_path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "\n".join(f"    {line}" for line in lines) or "    (its log is empty)"

    def failure(self, what, remedy):
        return DemoError(f"{self.name} {what}; the last lines of its log:\n{self.last_lines()}", remedy)

    def check(self, remedy):
        if not self.running():
            raise self.failure(f"ended with status {self.process.returncode}", remedy)

    def check_ended_well(self, remedy):
        if self.process.returncode != 0:
            raise self.failure(f"ended with status {self.process.returncode}", remedy)

    def stop(self, patience_s=10):
        if self.running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Children:
    """All that was started; `stop` ends the youngest first and can be called twice."""

    def __init__(self, folder):
        self.folder, self.children = pathlib.Path(folder), []

    def start(self, name, command, **options):
        try:
            child = Child(name, command, self.folder, **options)
        except OSError as error:
            raise DemoError(f"{name} could not be started: {error}", "run `make build`, then try again") from error
        self.children.append(child)
        return child

    def start_server(self, name, command, remedy, patience_s=60, **options):
        """Starts a child that takes --ports-file; returns (child, what it wrote there) once it listens."""
        ports_file = self.folder / f"{name}.ports.json"
        ports_file.unlink(missing_ok=True)
        child = self.start(name, [*command, "--ports-file", ports_file], **options)
        deadline = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(FileNotFoundError, ValueError):
                return child, json.loads(ports_file.read_text())
            child.check(remedy)
            if time.monotonic() > deadline:
                raise child.failure(f"did not listen within {patience_s} s", remedy)
            time.sleep(0.02)

    def stop(self):
        while self.children:
            self.children.pop().stop()
