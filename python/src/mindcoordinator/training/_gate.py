"""Gates: places in a training where people decide whether it goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._stop import should_stop, wait_for_stop


@dataclass(frozen=True)
class Answer:
    """What people have decided at a gate."""

    resolution: str
    resolved_by: str = ""
    comment: str = ""
    expired: bool = False
    """Nobody has answered in time, and the gate says that the training then goes on."""


def answers() -> dict[str, Answer]:
    """The answers at the gates that this job has passed, by the names of the gates."""
    known = json.loads(os.environ.get("MIND_GATES") or "{}")
    return {
        name: Answer(a.get("resolution", ""), a.get("resolved_by", ""), a.get("comment", ""), a.get("expired", False))
        for name, a in known.items()
    }


def gate_of(event: Callable[..., None]) -> Callable[..., Answer | None]:
    """Make the function that asks, of the one that writes an event."""

    def gate(
        prompt: str,
        *,
        name: str = "gate",
        options: Sequence[str | Mapping[str, Any]] = (),
        context: Any = None,
        assignee: str = "",
        priority: str = "",
        timeout: str = "",
        on_timeout: str = "",
        quorum: Mapping[str, int] | None = None,
    ) -> Answer | None:
        """Have people decide whether the training goes on; return their answer.

        Save a checkpoint first. Without an answer yet, this asks, waits for the notice to stop, and returns None: exit
        with ``STOPPED`` then. The job gives its GPUs back while people think, and the attempt that follows an answer
        comes here again, with the answer. A job that asks more than once names its gates.

        ``options`` are ids, or mappings with ``id``, ``label`` and ``cancels``; without any they are "continue" and
        "cancel". Outside of Mind nobody is asked: the answer is the first option.
        """
        known = answers().get(name)
        if known is not None:
            return known
        if not os.environ.get("MIND_EVENTS_FILE"):
            first = options[0] if options else "continue"
            return Answer(first if isinstance(first, str) else str(first["id"]))
        should_stop()  # The handler is there before the notice.
        asked: dict[str, Any] = {"event": "gate", "name": name, "prompt": prompt}
        for field, value in {
            "options": [o if isinstance(o, str) else dict(o) for o in options],
            "context": context,
            "assignee": assignee,
            "priority": priority,
            "timeout": timeout,
            "on_timeout": on_timeout,
            "quorum": dict(quorum) if quorum else None,
        }.items():
            if value not in (None, "", []):
                asked[field] = value
        event(True, **asked)
        wait_for_stop()
        return None

    return gate
