"""Writes checkpoints so that each is whole, in one directory, under its name at once; and never stops the training for longer
than the writing itself takes.

Ranks write to tmp-checkpoint-N. Where nodes do not share a file system, what the others wrote is sent to rank 0, whose
directory is the checkpoint. A thread of rank 0 then syncs it, gives it its name and registers it, while the training goes on.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mind_runner.group import Group, files_below
from mind_runner.place import Place
from mindcoordinator import training
from mindcoordinator.training._directories import publish

# Says how the batch was made, for a resume with another number of ranks.
FACTS = "mind.json"


class Checkpoints:
    def __init__(self, place: Place, group: Group, seeing: list[int], facts: dict[str, Any], background: bool = True) -> None:
        self.directory = place.checkpoint_dir
        self.group = group
        self.facts = facts
        self.background = background
        self.saved = -1
        leads = group.gather(group.leader)
        # One rank of each node that does not see what rank 0 writes.
        self.senders = [r for r, leader in enumerate(leads) if leader and r not in seeing]
        self._cleans = group.rank == 0 or group.rank in self.senders
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._times: list[float] = []
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
        self._collect(step, written)
        blocked = time.perf_counter() - began
        self.saved = step
        if self.group.rank == 0:
            self._publish(step, written, dict(metrics), began, blocked)
            training.phase("TRAINING")
        return blocked

    def _collect(self, step: int, written: Path) -> None:
        if not self.senders:
            self.group.barrier()
            return
        have = set(self.group.gather(files_below(written) if self.group.rank == 0 else [])[0])
        for sender in self.senders:
            mine = [n for n in files_below(written) if n not in have] if self.group.rank == sender else []
            self.group.send_files(sender, [0], written, mine)
        if self.group.rank in self.senders:
            shutil.rmtree(self.parent(step))

    def _publish(self, step: int, written: Path, metrics: dict[str, Any], began: float, blocked: float) -> None:
        final = self.directory / written.name

        def work() -> None:
            try:
                publish(written, final)
                shutil.rmtree(self.parent(step))
                training.checkpoint(final, step, metrics or None)
                seconds = time.perf_counter() - began
                training.report(
                    step, checkpoint_seconds=round(seconds, 4), checkpoint_blocking_seconds=round(blocked, 4)
                )
            except BaseException as error:  # noqa: BLE001  raised by finish, in the thread of the training
                self._failed = error

        if not self.background:
            work()
            self.finish()
            return
        self._thread = threading.Thread(target=work, name=f"checkpoint-{step}")
        self._thread.start()

    def finish(self) -> None:
        """Waits until the last checkpoint has its name; raises what kept it from getting one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
