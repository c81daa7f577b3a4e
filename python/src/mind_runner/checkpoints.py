"""Writes checkpoints, each whole and in one directory, while the training goes on.

The training stands still while the state is copied to memory (staging.py). A thread of each rank then writes its part
to tmp-checkpoint-N; where nodes do not share a file system, what the others wrote is sent to rank 0, whose directory is
the checkpoint. Rank 0 syncs it, gives it its name and registers it. Without checkpoint_async the ranks write while the
training stands still, and the rest is done beside it.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from mind_runner.group import Group, files_below
from mind_runner.place import Place
from mind_runner.staging import Staging
from mindcoordinator import training
from mindcoordinator.training._directories import publish

log = logging.getLogger(__name__)

# Says how the batch was made, for a resume with another number of ranks.
FACTS = "mind.json"


# A rank may write for as long as it takes; one that is gone closes its connection.
_PATIENCE = timedelta(days=1)
# For how long a training that fails waits until the checkpoint that is being written is complete.
_SETTLE_SECONDS = 600.0


class Checkpoints:
    """The checkpoints of one training, at one rank."""

    def __init__(
        self, place: Place, group: Group, seeing: list[int], facts: dict[str, Any], stage: bool = True
    ) -> None:
        self.directory = place.checkpoint_dir
        self.group = group
        self.facts = facts
        self.saved = -1
        # The threads that write agree over a group of their own: the training uses the others at the same time.
        self._beside = Group(place, _PATIENCE)
        self.staging = Staging(self._beside) if stage else None
        leads = group.gather(group.leader)
        # One rank of each node that does not see what rank 0 writes.
        self.senders = [r for r, leader in enumerate(leads) if leader and r not in seeing]
        for sender in self.senders:
            self._beside.connect(sender, [0])
        self._cleans = group.rank == 0 or group.rank in self.senders
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None
        if self._cleans:
            # What an attempt that was killed has left.
            for left in self.directory.glob("tmp-checkpoint-*"):
                shutil.rmtree(left, ignore_errors=True)
        group.barrier()

    def parent(self, step: int) -> Path:
        """The directory in which the trainer makes its own checkpoint-N."""
        return self.directory / f"tmp-checkpoint-{step}"

    def save(self, step: int, write: Callable[[], None], metrics: dict[str, Any]) -> float:
        """Lets every rank write, and returns the seconds for which the training stood still."""
        began = time.perf_counter()
        self.finish()
        if self.group.rank == 0:
            training.phase("CHECKPOINTING")
        written = self.parent(step) / f"checkpoint-{step}"
        if self._cleans:
            written.mkdir(parents=True)
        self.group.barrier()
        write()
        if self.group.rank == 0:
            (written / FACTS).write_text(json.dumps({**self.facts, "step": step}, indent=1))
        later = self.staging.take() if self.staging else []
        self.saved = step
        blocked = time.perf_counter() - began
        if self.group.rank == 0:
            training.phase("TRAINING")
        self._thread = threading.Thread(
            target=self._complete, args=(step, written, later, dict(metrics), began, blocked), name=f"checkpoint-{step}"
        )
        self._thread.start()
        return blocked

    def _complete(
        self,
        step: int,
        written: Path,
        later: list[Callable[[], None]],
        metrics: dict[str, Any],
        began: float,
        blocked: float,
    ) -> None:
        """Writes what was staged, at every rank; none is done before all are, and rank 0 has given it its name."""
        try:
            self._agree(step, lambda: _all(later))
            self._collect(step, written)
            self._agree(step, lambda: self._publish(step, written, metrics) if self.group.rank == 0 else None)
        except BaseException as error:
            self._failed = error
            log.error("the checkpoint of step %d was not written: %s: %s", step, type(error).__name__, error)
            return
        if self.group.rank == 0:
            seconds = time.perf_counter() - began
            training.report(step, checkpoint_seconds=round(seconds, 4), checkpoint_blocking_seconds=round(blocked, 4))

    def _agree(self, step: int, part: Callable[[], None]) -> None:
        """Does a part at this rank, and raises at all ranks if it failed at any."""
        failed: BaseException | None = None
        try:
            part()
        except BaseException as error:
            failed = error
        said = self._beside.gather(f"{type(failed).__name__}: {failed}" if failed else None)
        if failed is not None:
            raise failed
        for rank, what in enumerate(said):
            if what is not None:
                raise OSError(f"rank {rank} did not write its part of the checkpoint of step {step}: {what}")

    def _collect(self, step: int, written: Path) -> None:
        if not self.senders:
            return
        have = set(self._beside.gather(files_below(written) if self.group.rank == 0 else [])[0])
        for sender in self.senders:
            mine = [n for n in files_below(written) if n not in have] if self.group.rank == sender else []
            self._beside.send_files(sender, [0], written, mine)
        if self.group.rank in self.senders:
            shutil.rmtree(self.parent(step))

    def _publish(self, step: int, written: Path, metrics: dict[str, Any]) -> None:
        final = self.directory / written.name
        publish(written, final)
        shutil.rmtree(self.parent(step))
        training.checkpoint(final, step, metrics or None)

    def check(self) -> None:
        """Raises what kept the last checkpoint from becoming complete; does not wait for it."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def finish(self) -> None:
        """Waits until the last checkpoint has its name; raises what kept it from getting one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def settle(self) -> None:
        """Waits for the last checkpoint when the training has failed, if it will come at all."""
        if self._thread is not None:
            self._thread.join(_SETTLE_SECONDS)


def _all(parts: list[Callable[[], None]]) -> None:
    for part in parts:
        part()
