"""Lines for the agent: whole lines, appended with one write each, to the files that a job's process finds."""

from __future__ import annotations

import os
import threading
import warnings


class LineFile:
    """A file that many threads and processes append lines to.

    The descriptor is opened with ``O_APPEND`` and each line is one ``write``, so that the lines of several writers
    never mix. It stays open: a report must cost microseconds.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None
        self._half = False
        self._lock = threading.Lock()

    def append(self, line: str) -> None:
        """Append one line; OSError when it cannot be written whole."""
        data = line.encode("utf-8", "replace") + b"\n"
        fd = self._fd
        if fd is None:
            with self._lock:
                if self._fd is None:
                    self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fd = self._fd
        if self._half:  # a full disk cut the last line: keep this one apart from what is left of it
            data = b"\n" + data
        written = os.write(fd, data)
        self._half = written < len(data)
        if self._half:
            raise OSError(f"only {written} of {len(data)} bytes could be appended to {self.path}: is the disk full?")

    def close(self) -> None:
        """Close the descriptor; the next line opens it again."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


class Complaints:
    """Says once what went wrong with reports that are not worth ending a training for."""

    def __init__(self) -> None:
        self._said = False

    def say(self, problem: OSError) -> None:
        """Warn, the first time."""
        if not self._said:
            self._said = True
            warnings.warn(f"mind: reports are lost: {problem}", RuntimeWarning, stacklevel=4)
