"""Where a process finds itself: the variables that Mind and the launcher of the framework have set."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindcoordinator import training

_RENDEZVOUS = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE")


@dataclass(frozen=True)
class Place:
    """One rank: its number, its node, its files."""

    rank: int
    local_rank: int
    world_size: int
    node_rank: int
    output_dir: Path
    checkpoint_dir: Path
    resume_from: str | None
    model_path: str | None
    manifest: dict[str, Any]
    job_id: str = ""


def here(environment: Mapping[str, str] = os.environ) -> Place:
    """Reads the environment of this process."""
    rank = environment.get("RANK")
    manifest = environment.get("MIND_DATA_MANIFEST")
    return Place(
        rank=int(rank or 0),
        local_rank=int(environment.get("LOCAL_RANK", 0)),
        world_size=int(environment.get("WORLD_SIZE", 1)) if rank is not None else 1,
        node_rank=int(environment.get("GROUP_RANK") or environment.get("MIND_NODE_RANK") or 0),
        output_dir=Path(training.output_dir()),
        checkpoint_dir=Path(training.checkpoint_dir()),
        resume_from=training.resume_path(),
        model_path=environment.get("MIND_MODEL_PATH") or None,
        manifest=json.loads(Path(manifest).read_text()) if manifest else {},
        job_id=environment.get("MIND_JOB_ID") or "",
    )


def single_process() -> None:
    """Drops the rendezvous of the attempt where no launcher has made this process a rank of it."""
    if "RANK" not in os.environ:
        for name in _RENDEZVOUS:
            os.environ.pop(name, None)


def group_of_one() -> None:
    """Makes this process the only rank of a group, which FSDP and DeepSpeed need, if no launcher has made it a rank."""
    if "RANK" not in os.environ:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        one = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(one)
