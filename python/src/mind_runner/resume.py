"""The checkpoint that all ranks continue from."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from mind_runner.checkpoints import FACTS
from mind_runner.errors import config
from mind_runner.group import Group, files_below
from mind_runner.place import Place

log = logging.getLogger(__name__)

_STATE = "trainer_state.json"


class Resume:
    """A checkpoint at the same path of no other node than need be: nodes that lack it get it from one that has it."""

    def __init__(self, path: Path | None, temporary: Path | None, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = facts
        self._temporary = temporary

    def done(self) -> None:
        """Removes the copy of a node that had to get one; every rank has read it."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def agree(place: Place, group: Group) -> Resume:
    """All ranks say what they have; the highest step wins, and the lowest rank that has it sends it to the others."""
    step = step_of(place.resume_from)
    steps = group.gather(step)
    best = max(steps)
    if best < 0:
        if place.resume_from and group.rank == 0:
            log.warning("%s is no checkpoint of a training: starting at the beginning", place.resume_from)
        return Resume(None, None, {})
    source = steps.index(best)
    leads = group.gather(group.leader)
    receivers = [r for r, leader in enumerate(leads) if leader and steps[r] != best]
    nodes = group.gather(place.node_rank)
    copied = place.node_rank in {nodes[r] for r in receivers}
    copy = place.output_dir / f"resume-{best}"
    path = copy if copied else Path(str(place.resume_from))
    if receivers:
        if group.rank in receivers:
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir(parents=True)
        names = files_below(path) if group.rank == source else []
        group.send_files(source, receivers, path, names)
        group.barrier()
        if group.rank == 0:
            log.info("ranks %s got the checkpoint of step %d from rank %d", receivers, best, source)
    facts = path / FACTS
    return Resume(
        path, copy if group.rank in receivers else None, json.loads(facts.read_text()) if facts.exists() else {}
    )


def step_of(path: str | None) -> int:
    """The step of a checkpoint; -1 for anything else."""
    try:
        return int(json.loads((Path(path or "") / _STATE).read_text())["global_step"]) if path else -1
    except (OSError, ValueError, KeyError):
        return -1


def same_batch(args: Any, world: int, facts: dict[str, Any]) -> None:
    """Keeps the number of samples of a step when the number of ranks is another than that of the checkpoint.

    Then a step is the same samples, at the same place of the data, with the same learning rate.
    """
    before = facts.get("world_size")
    if before in (None, world):
        return
    if facts.get("framework") == "DEEPSPEED":
        raise config(
            f"the checkpoint is of {before} ranks of DeepSpeed, each with a share of the optimizer that fits no other "
            f"number, and now there are {world}: set resource_config.gpu_count to {before}"
        )
    batch = int(facts["samples_per_step"])
    size = args.per_device_train_batch_size
    while size > 1 and batch % (size * world):
        size -= 1
    if batch % (size * world):
        log.warning(
            "the checkpoint is of %d ranks with %d samples a step, which %d ranks cannot share equally: "
            "the order of the data is not continued exactly", before, batch, world,
        )  # fmt: skip
        return
    args.per_device_train_batch_size = size
    args.gradient_accumulation_steps = batch // (size * world)
    log.warning(
        "the checkpoint is of %d ranks, now there are %d: per_device_train_batch_size %d and "
        "gradient_accumulation_steps %d keep its %d samples a step; sums are rounded in another order, and random "
        "states of ranks are new where there are more",
        before, world, size, args.gradient_accumulation_steps, batch,
    )  # fmt: skip
