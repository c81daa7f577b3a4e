"""What the gateway answers with. ``raw`` of each object is the whole answer, with what has no attribute here."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

from .errors import ExecutionFailed, JobFailed

R = TypeVar("R", bound="Record")


def _time(text: str) -> datetime:
    """Read RFC 3339 in UTC; Python 3.10 knows neither the Z nor nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    digits = re.sub(r"\D", "", fraction)[:6].ljust(6, "0")
    return datetime.fromisoformat(f"{whole}.{digits}+00:00")


@dataclass(frozen=True)
class Record:
    """What all objects have in common."""

    raw: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls: type[R], raw: dict[str, Any]) -> R:
        """Make one from the object of an answer."""
        values: dict[str, Any] = {}
        for f in fields(cls):
            value = raw.get(f.name)
            if f.name != "raw" and value is not None:
                values[f.name] = _time(value) if f.name.endswith("_at") else value
        return cls(raw=raw, **values)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(f.name)}</th><td>{html.escape(str(value))}</td></tr>"
            for f in fields(self)
            if f.name != "raw" and (value := getattr(self, f.name)) not in (None, "", [], {})
        )
        return f"<table>{rows}</table>"


@dataclass(frozen=True, repr=True)
class Job(Record):
    """A job."""

    job_id: str = ""
    name: str = ""
    status: str = ""
    state: str = ""
    message: str = field(default="", repr=False)
    queue: str = field(default="", repr=False)
    queue_position: int | None = field(default=None, repr=False)
    attempt: int = 0
    exit_code: int | None = None
    error_type: str | None = None
    error_message: str = ""
    reason: str = field(default="", repr=False)
    nodes: list[str] = field(default_factory=list, repr=False)
    progress: dict[str, Any] | None = field(default=None, repr=False)
    last_checkpoint_id: str = field(default="", repr=False)
    labels: dict[str, str] = field(default_factory=dict, repr=False)
    created_at: datetime | None = field(default=None, repr=False)
    started_at: datetime | None = field(default=None, repr=False)
    finished_at: datetime | None = field(default=None, repr=False)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status in ("COMPLETED", "FAILED", "CANCELLED")

    def check(self) -> Job:
        """Return the job if it has succeeded; otherwise raise JobFailed, which says why."""
        if self.status != "COMPLETED":
            why = self.error_message or self.reason or "no reason is known"
            raise JobFailed(f"job {self.job_id} is {self.status}: {why}", self)
        return self


@dataclass(frozen=True)
class LogLine(Record):
    """A line that a job has printed."""

    message: str = ""
    level: str = ""
    timestamp: str = ""
    rank: int = 0
    stream: str = ""
    attempt: int = 0

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Checkpoint(Record):
    """A checkpoint of a job."""

    checkpoint_id: str = ""
    job_id: str = ""
    step: int = 0
    attempt: int = 0
    state: str | None = None
    kind: str | None = None
    pinned: bool = False
    path: str = field(default="", repr=False)
    uri: str = field(default="", repr=False)
    size_bytes: int = 0
    uploaded_bytes: int = field(default=0, repr=False)
    content_digest: str = field(default="", repr=False)
    metrics: dict[str, Any] | None = field(default=None, repr=False)
    reason: str = field(default="", repr=False)
    created_at: datetime | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Evaluation(Record):
    """An evaluation, with the results that were reported so far."""

    evaluation_id: str = ""
    name: str = ""
    status: str = ""
    workload_job_id: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    error_message: str = ""
    reason: str = field(default="", repr=False)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status in ("COMPLETED", "FAILED", "CANCELLED")

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The metrics by benchmark."""
        return {result["name"]: result.get("metrics") or {} for result in self.results}


@dataclass(frozen=True)
class Core(Record):
    """A hosted program."""

    id: str = ""
    slug: str = ""
    name: str = ""
    status: str = ""
    error: str = ""
    version: int = 0
    created_at: datetime | None = field(default=None, repr=False)
    started_at: datetime | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Execution(Record):
    """One run of a flow of a Core."""

    execution_id: str = ""
    core_id: str = field(default="", repr=False)
    flow: str = ""
    status: str = ""
    input: Any = field(default=None, repr=False)
    output: Any = None
    error: dict[str, Any] | None = None
    waiting_for: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list, repr=False)
    created_at: datetime | None = field(default=None, repr=False)
    finished_at: datetime | None = field(default=None, repr=False)

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.status in ("completed", "failed", "canceled")

    @property
    def asks(self) -> bool:
        """Whether it waits for people and for nothing else."""
        kinds = [wait["kind"] for wait in self.waiting_for]
        return self.status == "waiting" and bool(kinds) and all(kind == "decision" for kind in kinds)

    def check(self) -> Execution:
        """Return the execution if it has completed; otherwise raise ExecutionFailed, which says why."""
        if self.status != "completed":
            error = self.error or {}
            why = f"{error.get('step') or 'its program'}: {error.get('message') or 'no reason is known'}"
            raise ExecutionFailed(f"execution {self.execution_id} is {self.status}: {why}", self)
        return self


@dataclass(frozen=True)
class Decision(Record):
    """A question to people."""

    id: str = ""
    execution_id: str = ""
    job_id: str = ""
    step: str = ""
    prompt: str = ""
    options: list[dict[str, Any]] = field(default_factory=list)
    context: Any = field(default=None, repr=False)
    status: str = ""
    assignee_raw: str = field(default="", repr=False)
    resolution: str = ""
    resolved_by: str = field(default="", repr=False)
    expires_at: datetime | None = field(default=None, repr=False)


def id_of(thing: str | Mapping[str, Any] | Record, name: str) -> str:
    """Take the id of an object, or an id as it is."""
    if isinstance(thing, str):
        found = thing
    elif isinstance(thing, Record):
        found = thing.raw.get(name) or ""
    else:
        found = thing.get(name) or ""
    if not found or "/" in found:
        raise ValueError(f"{found!r} is no {name}")
    return found
