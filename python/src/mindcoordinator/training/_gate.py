"""Gates: places in a training where people decide whether it goes on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._stop import should_stop, wait_for_stop

_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TIMEOUT = re.compile(r"(\d+d|(\d+(\.\d+)?(h|m|s))+)")

# A notice comes within a second. Without one for so long, the agent has not taken the gate: the log says why.
_NOTICE_SECONDS = 600


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
        _check(prompt, name, options, context, priority, timeout, on_timeout)
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
        if not wait_for_stop(_NOTICE_SECONDS):
            raise TimeoutError(
                f"Mind has not stopped this job for the gate {name!r} in {_NOTICE_SECONDS} s: see the log of the task"
            )
        return None

    return gate


def _check(
    prompt: str,
    name: str,
    options: Sequence[str | Mapping[str, Any]],
    context: Any,
    priority: str,
    timeout: str,
    on_timeout: str,
) -> None:
    """Raise ValueError for what the agent would not ask: the job would wait for nobody."""
    ids = [o if isinstance(o, str) else str(o.get("id", "")) for o in options]
    answer = on_timeout.removeprefix("resolve:")
    for wrong, why in (
        (not prompt or len(prompt.encode()) > 2048, "the prompt needs 1 to 2048 bytes"),
        (not _WORD.fullmatch(name), f"the name {name!r} has to be 1 to 64 letters, digits, '.', '-' and '_'"),
        (len(ids) > 32, "at most 32 options are allowed"),
        (
            any(not _WORD.fullmatch(i) for i in ids),
            "the id of an option has to be 1 to 64 letters, digits, '.', '-' and '_'",
        ),
        (len(set(ids)) < len(ids), "each option needs an id of its own"),
        (len(json.dumps(context, ensure_ascii=False).encode()) > 8192, "the context has more than 8 KiB of JSON"),
        (priority not in ("", "low", "normal", "high", "critical"), f"the priority {priority!r} is not known"),
        (timeout and not _TIMEOUT.fullmatch(timeout), f"the timeout {timeout!r} is not one such as 90s, 12h or 7d"),
        (
            on_timeout not in ("", "cancel", "continue")
            and (answer == on_timeout or answer not in (ids or ["continue", "cancel"])),
            f"on_timeout is {on_timeout!r}: cancel, continue, and resolve: with an option are allowed",
        ),
    ):
        if wrong:
            raise ValueError(why)
