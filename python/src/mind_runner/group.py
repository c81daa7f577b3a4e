"""What the ranks of a training agree on, and how files get from one node to another.

Everything goes over a gloo group of its own, on the CPU, beside the group that carries the gradients: NCCL would wait
for the GPU, and cannot carry files.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from mind_runner.place import Place

T = TypeVar("T")

# A file travels in pieces, so that no rank holds it whole.
PIECE = 16 << 20


class Group:
    """All ranks. With one rank every operation is the obvious one, without communication.

    What two threads do at a time needs two of them.
    """

    def __init__(self, place: Place, timeout: timedelta | None = None) -> None:
        self.rank = place.rank
        self.world = place.world_size
        self.leader = place.local_rank == 0
        self._group = dist.new_group(backend="gloo", timeout=timeout) if self.world > 1 else None
        self._timeout = timeout
        self._subgroups: dict[tuple[int, ...], Any] = {}
        self._flag = torch.zeros(1, dtype=torch.int32)

    @property
    def processes(self) -> Any:
        """The process group, for libraries; None with one rank."""
        return self._group

    def any(self, mine: bool) -> bool:
        """Whether it is so at any rank; the same answer at every rank."""
        if self._group is None:
            return mine
        self._flag[0] = mine
        dist.all_reduce(self._flag, op=dist.ReduceOp.MAX, group=self._group)
        return bool(self._flag[0])

    def gather(self, mine: T) -> list[T]:
        """What every rank says, by rank."""
        if self._group is None:
            return [mine]
        all_: list[Any] = [None] * self.world
        dist.all_gather_object(all_, mine, group=self._group)
        return all_

    def barrier(self) -> None:
        """Waits for all ranks."""
        if self._group is not None:
            dist.barrier(group=self._group)

    def seeing(self, folder: Path) -> list[int]:
        """The ranks that see in their folder what rank 0 writes to its own: those on a file system that they share."""
        name = self.gather(f".probe-{secrets.token_hex(8)}")[0]
        if self.rank == 0:
            (folder / name).touch()
        self.barrier()
        # Listing, not asking for the name: a network file system may remember that it was not there.
        seen = self.gather(folder.is_dir() and name in os.listdir(folder))
        if self.rank == 0:
            (folder / name).unlink()
        return [rank for rank, sees in enumerate(seen) if sees]

    def connect(self, source: int, receivers: Iterable[int]) -> tuple[int, ...]:
        """Makes ready to send files. Every rank calls it, no other group being made at the time."""
        ranks = tuple(sorted({source, *receivers}))
        if len(ranks) > 1 and ranks not in self._subgroups:
            self._subgroups[ranks] = dist.new_group(list(ranks), backend="gloo", timeout=self._timeout)
        return ranks

    def send_files(self, source: int, receivers: Iterable[int], folder: Path, names: list[str]) -> None:
        """Copies files, named relative to folder, from the folder of the source to that of each receiver.

        Every rank calls it with the same source and receivers; names count at the source alone.
        """
        ranks = self.connect(source, receivers)
        if len(ranks) < 2 or self.rank not in ranks:
            return
        group = self._subgroups[ranks]
        listing: list[Any] = [[(n, (folder / n).stat().st_size) for n in names] if self.rank == source else None]
        dist.broadcast_object_list(listing, src=source, group=group)
        for name, size in listing[0]:
            if self.rank == source:
                digest = _send(folder / name, size, source, group)
            else:
                digest = _receive(folder / name, size, source, group)
            said: list[Any] = [digest]
            dist.broadcast_object_list(said, src=source, group=group)
            if said[0] != digest:
                raise OSError(f"{name} changed on the way from rank {source}: start again")


def _send(path: Path, size: int, source: int, group: Any) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = size
        while left > 0:
            data = bytearray(file.read(min(PIECE, left)))
            if not data:
                raise OSError(f"{path} became shorter while it was sent")
            digest.update(data)
            dist.broadcast(torch.frombuffer(data, dtype=torch.uint8), src=source, group=group)
            left -= len(data)
    return digest.hexdigest()


def _receive(path: Path, size: int, source: int, group: Any) -> str:
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        left = size
        while left > 0:
            data = torch.empty(min(PIECE, left), dtype=torch.uint8)
            dist.broadcast(data, src=source, group=group)
            piece = data.numpy()
            digest.update(piece)
            file.write(piece)
            left -= len(piece)
    return digest.hexdigest()


def files_below(folder: Path) -> list[str]:
    """All files below a folder, relative to it."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
