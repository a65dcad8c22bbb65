"""Tells the reader what is going on: one line that changes on a terminal, whole lines now and then elsewhere."""
import sys
import time

PLAIN_LINE_EVERY_S = 15


class Console:
    def __init__(self, stream=sys.stdout, clock=time.monotonic):
        self.stream, self.clock = stream, clock
        self.terminal = stream.isatty()
        self.began = self.last_plain = clock()
        self.transient = False

    def line(self, text=""):
        self._clear()
        print(text, file=self.stream, flush=True)
        self.last_plain = self.clock()

    def step(self, text):
        """Something new begins or has been found out."""
        self.line(f"[{self.clock() - self.began:5.0f} s] {text}")

    def progress(self, text):
        """How far the current step is; call it as often as you like."""
        if self.terminal:
            self.stream.write(f"\r\033[K          {text}")
            self.stream.flush()
            self.transient = True
        elif self.clock() - self.last_plain >= PLAIN_LINE_EVERY_S:
            self.line(f"          {text}")

    def _clear(self):
        if self.transient:
            self.stream.write("\r\033[K")
            self.transient = False
