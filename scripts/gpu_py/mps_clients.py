"""An MPS daemon with clients that compute, and what becomes of a client when another process ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from mps import Daemon
from probes import NotPossible

COMMAND = (sys.executable, str(Path(__file__).resolve().with_name("spin.py")))
LIFETIME_S = 60
"""A client ends by itself after this time."""

READY_WITHIN_S = 20.0
SILENT_FOR_S = 10.0
ENDS_WITHIN_S = 5.0
RATES = 3
"""A client goes on if it reports this number of rates, which takes a second and a half."""


class Fate(NamedTuple):
    """What became of a client after an event."""

    text: str
    error: str | None = None
    after_s: float | None = None
    """The time from the event to the error."""

    rate_per_s: float | None = None


class Client:
    """A process of `spin.py`."""

    def __init__(self, variables: dict[str, str], *options: str):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_MPS_")}
        self._lines: list[tuple[float, dict]] = []
        self._last_words = "it printed nothing"
        self._process = subprocess.Popen(
            [*COMMAND, str(LIFETIME_S), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**clean, **variables},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.append((time.monotonic(), json.loads(line)))
            self._last_words = line.strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    def first(self, key: str) -> dict:
        """The first line with this key, which a client prints when it is ready for work or soon afterwards."""
        until_s = time.monotonic() + READY_WITHIN_S
        while not (lines := self._with(key)):
            if self._has_ended():
                errors = [f"{line['call']}: {line['error']}" for _, line in self._with("error")]
                raise NotPossible(f"the client ended before it computed: {(errors or [self._last_words])[0]}")
            if time.monotonic() > until_s:
                raise NotPossible(f"the client did not compute within {READY_WITHIN_S:g} s")
            time.sleep(0.01)
        return lines[0][1]

    def fate(self, since_s: float) -> Fate:
        """Waits until the client fails, ends, or has computed for a while from now on, after an event."""
        now_s = time.monotonic()
        while time.monotonic() < now_s + SILENT_FOR_S:
            has_ended = self._has_ended()
            if errors := self._with("error"):
                at_s, line = errors[0]
                after_s = max(0.0, at_s - since_s)
                return Fate(f"fails with {line['error']} after {after_s:.2f} s", line["error"], after_s)
            if has_ended:
                return Fate(f"ends with exit code {self._process.returncode} and without an error")
            rates = [line["rate_per_s"] for at_s, line in self._with("rate_per_s") if at_s > now_s]
            if len(rates) >= RATES:
                return Fate(f"goes on with {rates[-1]:.0f} kernels/s", rate_per_s=rates[-1])
            time.sleep(0.01)
        return Fate(f"hangs: it neither computed nor failed for {SILENT_FOR_S:g} s")

    def _with(self, key: str) -> list[tuple[float, dict]]:
        return [(at_s, line) for at_s, line in self._lines if key in line]

    def _has_ended(self) -> bool:
        """Whether the process has ended and its whole output was read."""
        return self._process.poll() is not None and not self._reader.is_alive()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> str | None:
        """Returns the measure that was needed if SIGTERM was not enough, which lets kernels in flight end."""
        forced = None
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send(number)
            try:
                self._process.wait(ENDS_WITHIN_S)
                break
            except subprocess.TimeoutExpired:
                forced = "a client had to be ended by SIGKILL"
        else:
            return "a client could not be ended"
        self._reader.join()
        self._process.stdout.close()
        return forced


class Service:
    """A daemon in the foreground and its clients, which all end with this. Clients name the GPU as the daemon does."""

    def __init__(self, gpu: str, residue: list[str]):
        self._gpu, self._residue = gpu, residue
        self.daemon = Daemon(gpu, foreground=True)
        self._clients: list[Client] = []

    def __enter__(self) -> "Service":
        self.daemon.__enter__()
        return self

    def __exit__(self, *_) -> None:
        try:
            self._residue += [forced for client in self._clients if (forced := client.end())]
        finally:
            self.daemon.__exit__()
            self._residue += self.daemon.residue

    def process(self, *options: str, **limits: str) -> Client:
        """A process that becomes a client if the daemon runs, with limits that are variables of its environment."""
        client = Client({**self.daemon.variables(), "CUDA_VISIBLE_DEVICES": self._gpu, **limits}, *options)
        self._clients.append(client)
        client.first("ready_s")
        return client

    def client(self, *options: str, **limits: str) -> Client:
        """A process that computes and that the daemon knows."""
        client = self.process(*options, **limits)
        if client.pid not in self.daemon.attached():
            raise NotPossible(f"the client ran without MPS, as {self.daemon.server_log()}")
        client.first("rate_per_s")
        return client

    def server(self) -> int:
        """The process of the server, if the daemon's number for it names a process of its session here."""
        for pid in self.daemon.servers():
            try:
                if os.getsid(pid) == self.daemon.pid:
                    return pid
            except ProcessLookupError:
                continue
        raise NotPossible("no process of the daemon has the number that it gives for its server")
