"""What the switch ``MIND_AUTO`` does for every framework."""

from __future__ import annotations

import functools
import os
from typing import Any, TypeVar

from _mindcoordinator_auto import complain

from ._directories import resume_path

C = TypeVar("C", bound=type)


class Once:
    """Gives the checkpoint of the job to the first training of a process alone: a second one is of something else."""

    def __init__(self) -> None:
        self._given = False

    def path(self, file: str) -> str | None:
        """Return the checkpoint, if it has the file by which a framework knows its own."""
        first, self._given = not self._given, True
        path = resume_path()
        if not first or path is None or os.environ.get("MIND_AUTO_RESUME") == "0":
            return None
        return path if os.path.isfile(os.path.join(path, file)) else None


def careful(callback: C) -> C:
    """Make a callback whose errors are a line of the log: the script has not asked for it.

    It goes on after an error. Ranks that wait for each other in a callback would wait for ever for one that gave up.
    """
    said: set[str] = set()

    def guarded(name: str, method: Any) -> Any:
        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except Exception as e:
                if name not in said:
                    said.add(name)
                    complain(f"fails in {name}", e)
                return None

        return wrapped

    hooks = {name: guarded(name, m) for name, m in vars(callback).items() if name.startswith("on_")}
    return type(f"Auto{callback.__name__}", (callback,), hooks)  # type: ignore[return-value]
