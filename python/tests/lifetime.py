"""What tests start ends with them, also when they are killed."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ends_with_this(by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Make a preexec_fn: the kernel sends the signal to the new process when this one dies, however that happens.

    It does so when the thread ends that has started it. So that must be the main one.
    """
    return lambda: _libc.prctl(PR_SET_PDEATHSIG, by)
