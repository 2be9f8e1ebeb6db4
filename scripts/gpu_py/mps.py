"""A private MPS daemon: started in private folders, queried for its clients, and ended without a trace.

NVIDIA's rules that shape this: daemon and clients belong to one user; a client that finds no daemon runs without it
and does not report it, hence `attached`; a client that is killed with work in flight can break the device, hence
clients end by themselves (see `gemm.py`) before the daemon is ordered to quit.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from probes import NotPossible
from workplace import group_lives

FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/opt/nvidia/bin")
"""Folders of the programs besides the PATH, because containers mount the driver outside of it."""

CONTROL = "nvidia-cuda-mps-control"
FOREIGN = Path("/tmp/nvidia-mps")
"""The folder of a daemon that was started without one."""

SOCKET = "control_privileged"
SOCKET_PATH_BYTES = 108

OUTPUT = "output.log"
"""What the program prints; in the foreground, also the log of the daemon and its servers."""

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(FOLDERS))


def control_program() -> str:
    """The program of a private daemon, if one may be started here."""
    control = find(CONTROL)
    if control is None:
        raise NotPossible(f"there is no {CONTROL} on the PATH or in {', '.join(FOLDERS)}")
    if pid := pid_in(FOREIGN):
        raise NotPossible(f"process {pid} runs an MPS daemon for the whole machine; it is left alone")
    return control


class Silent(NotPossible):
    """The daemon does not answer in time."""


class Daemon:
    """Runs between `__enter__` and `__exit__`; `residue` then describes any remains.

    In the foreground it is a child in a session of its own, which is killed when this process ends, however it ends. Its
    server is a process of the same session.
    """

    def __init__(self, visible_device: str, answer_limit_s: float = 10.0, *, foreground: bool = False):
        self._limit_s = answer_limit_s
        self._visible_device = visible_device
        self._foreground = foreground
        self._child: subprocess.Popen | None = None
        self.residue: list[str] = []

    def __enter__(self) -> "Daemon":
        self._control = control_program()
        # Short, because it holds a unix socket, whose path has a limit.
        self.folder = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
        assert len(str(self.folder / "pipe" / SOCKET)) < SOCKET_PATH_BYTES
        try:
            for name in ("pipe", "log"):
                (self.folder / name).mkdir()
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._end()

    def _start(self) -> None:
        environment = {**os.environ, **self.variables(), "CUDA_VISIBLE_DEVICES": self._visible_device}
        # To a file and not a pipe: the daemon keeps its descriptors, and a pipe would stay open as long as it lives.
        with open(self.folder / OUTPUT, "w") as said:
            options = {"env": environment, "stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
            if self._foreground:
                command = [self._control, "-f"]
                self._child = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_parent, **options)
                self._wait_until_it_answers()
                return
            try:
                started = subprocess.run([self._control, "-d"], timeout=self._limit_s, **options)
            except subprocess.TimeoutExpired:
                raise NotPossible(f"{CONTROL} -d did not return within {self._limit_s:g} s") from None
        if started.returncode != 0:
            raise NotPossible(f"{CONTROL} -d ended with {started.returncode}: {self._output()}")
        self.command("get_server_list")

    def _output(self) -> str:
        return (self.folder / OUTPUT).read_text(errors="replace").strip() or "it said nothing"

    def _wait_until_it_answers(self) -> None:
        until_s = time.monotonic() + self._limit_s
        while True:
            if (code := self._child.poll()) is not None:
                raise NotPossible(f"{CONTROL} -f ended with {code}: {self._output()}")
            try:
                if not (self.folder / "pipe" / SOCKET).exists():
                    raise NotPossible(f"{CONTROL} -f made no socket within {self._limit_s:g} s")
                self.command("get_server_list")
                return
            except Silent:
                raise
            except NotPossible:
                if time.monotonic() > until_s:
                    raise
            time.sleep(0.01)

    @property
    def pid(self) -> int | None:
        """The process of the daemon, while it runs."""
        if self._child is None:
            return pid_in(self.folder / "pipe")
        return self._child.pid if self._child.poll() is None else None

    def exit_code(self) -> int | None:
        """Waits for the end of a daemon in the foreground. `None` if it does not end in time."""
        try:
            return self._child.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            return None

    def files(self) -> list[str]:
        """What is in the folder of its sockets."""
        return sorted(path.name for path in (self.folder / "pipe").iterdir())

    def variables(self) -> dict[str, str]:
        """The environment that makes a process a client of this daemon."""
        return {
            # The daemon passes one device on, and its clients count the visible devices.
            "CUDA_VISIBLE_DEVICES": "0",
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }

    def command(self, text: str) -> list[str]:
        """The lines of the daemon's answer to a command."""
        environment = {**os.environ, **self.variables()}
        try:
            asked = subprocess.run(
                [self._control],
                input=text + "\n",
                env=environment,
                capture_output=True,
                text=True,
                timeout=self._limit_s,
            )
        except subprocess.TimeoutExpired:
            raise Silent(f"the MPS daemon did not answer '{text}' within {self._limit_s:g} s") from None
        if asked.returncode != 0:
            raise NotPossible(f"the MPS daemon refused '{text}': {(asked.stderr or asked.stdout).strip()}")
        return [line.strip() for line in asked.stdout.splitlines() if line.strip()]

    def servers(self) -> list[int]:
        return [int(line) for line in self.command("get_server_list") if line.isdecimal()]

    def attached(self) -> set[int]:
        """The processes that compute through this daemon, by the daemon's own account."""
        clients = set()
        for server in self.servers():
            clients |= {int(line) for line in self.command(f"get_client_list {server}") if line.isdecimal()}
        return clients

    def server_log(self) -> str:
        """The last line of the server's log, which has the reason of a failure."""
        log = self.folder / (OUTPUT if self._foreground else "log/server.log")
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else f"{log.name} is empty"

    def _end(self) -> None:
        """Asks the daemon to quit, and kills it by its id if it does not."""
        if pid := self.pid:
            try:
                self.command("quit -t 5")
            except NotPossible as reason:
                self.residue.append(str(reason))
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    self.residue.append(f"the daemon had to be ended by {signal.Signals(number).name}")
                    os.kill(pid, number)
                if ended(pid, self._limit_s):
                    break
        if self._child is not None:
            self._end_servers(self._child.pid)
            self.exit_code()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            self.residue.append("its folders could not be removed")

    def _end_servers(self, group: int) -> None:
        """Waits until the servers have ended, as they do after their daemon, and kills those that do not."""
        until_s = time.monotonic() + self._limit_s
        while group_lives(group):
            if time.monotonic() > until_s:
                self.residue.append("a server had to be ended by SIGKILL")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
                return
            time.sleep(0.02)


def die_with_parent() -> None:
    LIBC.prctl(ctypes.c_int(PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL))


def pid_in(folder: Path) -> int | None:
    """The running daemon of a pipe folder."""
    try:
        pid = int((folder / f"{CONTROL}.pid").read_text())
    except (OSError, ValueError):
        return None
    return pid if lives(pid) else None


def ended(pid: int, limit_s: float) -> bool:
    until_s = time.monotonic() + limit_s
    while lives(pid):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.01)
    return True


def lives(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
