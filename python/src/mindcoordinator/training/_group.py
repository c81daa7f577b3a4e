"""The process group of torch.distributed, at the end of the process."""

from __future__ import annotations

import atexit

_registered = False


def leave_at_exit() -> None:
    """Destroy the process group when the interpreter exits, unless the script has done so before.

    A process that ends with its group standing now and then dies by SIGABRT ("terminate called without an active
    exception": a thread of gloo outlives its owner), and the exit code that Mind is to see is lost.
    """
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_leave)


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
