"""The notice before a stop: SIGUSR1."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

STOPPED = 75
"""The exit code of a process that was told to stop, saved a checkpoint and ended."""

_told = threading.Event()
_installed = False


def should_stop() -> bool:
    """Whether this process was told to stop: it then finishes its step, saves a checkpoint and exits with ``STOPPED``.

    The first call installs the handler of SIGUSR1, so ask once before the first step. The notice reaches this process
    alone: ranks of one training have to agree on the step to stop after. Outside of Mind the answer is always False.
    """
    if not _installed and "MIND_JOB_ID" in os.environ:
        _install()
    return _told.is_set()


def wait_for_stop(seconds: float) -> bool:
    """Wait until this process is told to stop, for so long at most. Whether it was told."""
    end = time.monotonic() + seconds
    # In short pieces: a wait without an end would keep handlers of signals from running on some systems.
    while not _told.wait(1):
        if time.monotonic() > end:
            return False
    return True


def _install() -> None:
    global _installed
    before: Any = signal.getsignal(signal.SIGUSR1)

    def notice(number: int, frame: FrameType | None) -> None:
        _told.set()
        if callable(before):
            before(number, frame)

    try:
        signal.signal(signal.SIGUSR1, notice)
    except ValueError:
        raise RuntimeError(
            "the first call of should_stop must be made in the main thread: Python handles signals there alone"
        ) from None
    _installed = True
