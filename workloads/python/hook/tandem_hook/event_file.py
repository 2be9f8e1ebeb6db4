"""Appends events to the file of this rank, one line each, whole lines only."""

import fcntl
import os
import threading

RANK_0 = ".0.jsonl"
"""The suffix of the file of rank 0; other ranks have their number instead of the 0."""


class EventFile:
    def __init__(self, descriptor: int, rank: int, path: str):
        self._descriptor, self._rank, self._path = descriptor, rank, path
        self._identity = identity(descriptor)
        self._seq = 0
        # A signal handler of the program may take a step while an event is written.
        self._lock = threading.RLock()

    @classmethod
    def claim(cls, rank_0: str, rank: int):
        """Opens the file of `rank`. Returns None if another process reports for this rank, or did."""
        if not rank_0.endswith(RANK_0) and rank > 0:
            return None
        path = path_of_rank(rank_0, rank)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_new = os.fstat(descriptor).st_size == 0
        except BlockingIOError:
            is_new = False
        if not is_new:
            os.close(descriptor)
            return None
        return cls(descriptor, rank, path)

    def say(self, mono_ns: int, event: bytes) -> None:
        """Appends `event`, a JSON object, with the time `mono_ns`. Does nothing after the last event."""
        with self._lock:
            if self._descriptor < 0:
                return
            if not self._is_open():
                self._reopen()
            seq, self._seq = self._seq, self._seq + 1
            line = b'{"seq":%d,"rank":%d,"mono_ns":%d,"event":%b}\n' % (seq, self._rank, mono_ns, event)
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])

    def say_last(self, mono_ns: int, event: bytes) -> None:
        with self._lock:
            self.say(mono_ns, event)
            self.close()

    def recount(self) -> None:
        """Takes the number of the next line from the file, after an exception that may have come between a line and its count."""
        with self._lock, open(self._path, "rb") as file:
            self._seq = sum(1 for _ in file)

    def close(self) -> None:
        """In a forked child the parent keeps the lock, because both share the open file."""
        descriptor, is_open = self._descriptor, self._descriptor >= 0 and self._is_open()
        self._descriptor = -1
        if is_open:
            os.close(descriptor)

    def _is_open(self) -> bool:
        """A program that closes all files that it does not know may have opened another file under this number."""
        try:
            return identity(self._descriptor) == self._identity
        except OSError:
            return False

    def _reopen(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if identity(descriptor) != self._identity:
            os.close(descriptor)
            raise OSError("the program has closed and replaced the file of events")
        self._descriptor = descriptor


def path_of_rank(rank_0: str, rank: int) -> str:
    """The path of the file of a rank, beside that of rank 0."""
    return rank_0 if rank == 0 else "%s.%d.jsonl" % (rank_0[: -len(RANK_0)], rank)


def identity(descriptor: int) -> tuple:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
