"""Python for Mind, the control plane for GPU training clusters: a client, and what a training script calls.

``mindcoordinator.training`` needs the standard library alone, so nothing else is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .aio import AsyncClient as AsyncClient
    from .client import Client as Client
    from .errors import Conflict as Conflict
    from .errors import ExecutionFailed as ExecutionFailed
    from .errors import InvalidRequest as InvalidRequest
    from .errors import JobFailed as JobFailed
    from .errors import MindError as MindError
    from .errors import NotAllowed as NotAllowed
    from .errors import NotFound as NotFound
    from .errors import QuotaExceeded as QuotaExceeded
    from .errors import StreamLost as StreamLost
    from .errors import Unavailable as Unavailable
    from .models import Checkpoint as Checkpoint
    from .models import Core as Core
    from .models import Decision as Decision
    from .models import Evaluation as Evaluation
    from .models import Execution as Execution
    from .models import Job as Job
    from .models import LogLine as LogLine

_HOMES = {
    "aio": ["AsyncClient"],
    "client": ["Client"],
    "errors": [
        "Conflict",
        "ExecutionFailed",
        "InvalidRequest",
        "JobFailed",
        "MindError",
        "NotAllowed",
        "NotFound",
        "QuotaExceeded",
        "StreamLost",
        "Unavailable",
    ],
    "models": ["Checkpoint", "Core", "Decision", "Evaluation", "Execution", "Job", "LogLine"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
