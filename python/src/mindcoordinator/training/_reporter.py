"""What a training reports: metrics, progress, phases, checkpoints, errors, results."""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ._files import Complaints, LineFile

# Lines beyond 1 MiB are skipped by the agent, and an error is a sentence, not a log.
_MOST_MESSAGE = 4096
# Seconds between two lines of progress. The agent reads 16 MiB of events, which a line at each step fills in hours.
_PROGRESS_EVERY = 1.0

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def _number(name: str, value: Any) -> int | float | str | None:
    """Make a figure of what trainings have in their hands: numbers, and tensors and arrays with one element."""
    kind = type(value)
    if kind is float or kind is int or kind is str or value is None:
        return value  # type: ignore[no-any-return]
    item = getattr(value, "item", None)
    if item is not None:  # of torch, numpy, jax
        value = item()
    if isinstance(value, bool | int | float | str):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {kind.__name__}: report a number, or a tensor with one element") from None


class Reporter:
    """Appends reports to a metrics file and an events file.

    Without arguments the files are those of ``MIND_METRICS_FILE`` and ``MIND_EVENTS_FILE``; where a variable is not
    set, nothing is written. The functions of ``mindcoordinator.training`` are the methods of one reporter that follows
    these variables. Threads may share a reporter. As a context it closes its files at the end.
    """

    def __init__(self, metrics_file: str | None = None, events_file: str | None = None) -> None:
        self._given = (metrics_file, events_file)
        self._open: dict[str, LineFile] = {}
        self._complaints = Complaints()
        self._total: int | None = None
        self._progress_at = float("-inf")
        # The newest progress, while it is not written.
        self._waiting: dict[str, Any] | None = None

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._flush()
        for file in self._open.values():
            file.close()

    def _file(self, which: int) -> LineFile | None:
        path = self._given[which] or os.environ.get(("MIND_METRICS_FILE", "MIND_EVENTS_FILE")[which])
        if not path:
            return None
        file = self._open.get(path)
        if file is None:
            file = self._open.setdefault(path, LineFile(path))
        return file

    def event(self, must: bool, **event: Any) -> None:
        """Append an event; an error of the file is raised if the event must not be lost."""
        self._flush()
        self._append(must, event)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._append(False, waiting)

    def _append(self, must: bool, event: dict[str, Any]) -> None:
        file = self._file(1)
        if file is None:
            return
        try:
            file.append(_encode(event))
        except OSError as e:
            if must:
                raise
            self._complaints.say(e)

    def report(self, step: int, total_steps: int | None = None, **metrics: Any) -> None:
        """Report figures of a step, such as ``report(200, loss=0.34)``.

        With ``total_steps`` it also says how far the training is; lines that follow repeat it. Tensors with
        one element are taken, too; reading one from a GPU waits for the GPU, so report every few steps.
        """
        file = self._file(0)
        if file is None:
            return
        line: dict[str, Any] = {"step": step}
        if total_steps is not None:
            self._total = total_steps
        if self._total is not None:
            # The agent takes the progress from the newest line that it finds, whoever wrote it.
            line["total_steps"] = self._total
        for name, value in metrics.items():
            line[name] = _number(name, value)
        try:
            file.append(_encode(line))
        except OSError as e:
            self._complaints.say(e)

    def progress(self, step: int, total_steps: int | None = None) -> None:
        """Say how far the training is. Call it as often as you like: once a second is written, and the last one."""
        event: dict[str, Any] = {"event": "progress", "step": step}
        if total_steps is not None:
            event["total_steps"] = total_steps
        now = time.monotonic()
        if now - self._progress_at < _PROGRESS_EVERY and step != total_steps:
            if self._waiting is None:
                atexit.unregister(self._flush)
                atexit.register(self._flush)
            self._waiting = event
            return
        self._progress_at, self._waiting = now, None
        self._append(False, event)

    def phase(self, name: str) -> None:
        """Say what the training does now: TRAINING, CHECKPOINTING, EVALUATING or EXPORTING."""
        self.event(False, event="phase", phase=name)

    def checkpoint(
        self,
        path: str | os.PathLike[str],
        step: int,
        metrics: Mapping[str, Any] | None = None,
        kind: str = "checkpoint",
    ) -> None:
        """Register a directory, which is complete, as a checkpoint; ``kind="model"`` as an exported model."""
        if kind not in ("checkpoint", "model"):
            raise ValueError(f'the kind of a checkpoint is "checkpoint" or "model", not {kind!r}')
        event: dict[str, Any] = {"event": "checkpoint", "path": os.path.abspath(path), "step": step}
        if metrics:
            event["metrics"] = {name: _number(name, value) for name, value in metrics.items()}
        if kind != "checkpoint":
            event["kind"] = kind
        self.event(True, **event)

    def error(self, error_type: str, message: str, rank: int | None = None) -> None:
        """Say why the training is about to end: OOM, DATA_FORMAT, CONFIG, DIVERGED and so on.

        The first error of an attempt counts. ``rank`` is the rank that saw it; without it, that of this process.
        """
        if rank is None:
            rank = int(os.environ.get("RANK") or os.environ.get("MIND_NODE_RANK") or 0)
        if len(message) > _MOST_MESSAGE:
            message = message[:_MOST_MESSAGE] + " ..."
        self.event(False, event="error", error_type=error_type, message=message, rank=rank)

    def evaluation_result(
        self,
        benchmark: str,
        metrics: Mapping[str, Any] | None = None,
        num_samples: int | None = None,
        error: str | None = None,
    ) -> None:
        """Report the result of a benchmark of an evaluation, or why it has none."""
        event: dict[str, Any] = {"event": "evaluation_result", "benchmark": benchmark}
        if metrics is not None:
            event["metrics"] = {name: _number(name, value) for name, value in metrics.items()}
        if num_samples is not None:
            event["num_samples"] = num_samples
        if error is not None:
            event["error"] = error
        self.event(True, **event)
