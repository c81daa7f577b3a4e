"""Where a training finds and leaves its files, and how a directory becomes a checkpoint at once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from ._reporter import Reporter


def resume_path() -> str | None:
    """Return the path of the checkpoint to continue from; None: begin at the beginning."""
    return os.environ.get("MIND_RESUME_FROM") or None


def checkpoint_dir(default: str = "checkpoints") -> str:
    """Return the directory of the job's checkpoints, of all its attempts; ``default`` outside of Mind."""
    return os.environ.get("MIND_CHECKPOINT_DIR") or default


def output_dir(default: str = "output") -> str:
    """Return the directory that this attempt may write to; ``default`` outside of Mind."""
    return os.environ.get("MIND_OUTPUT_DIR") or default


def sync_tree(path: str | os.PathLike[str]) -> None:
    """Sync every file and directory below a path, so that it is whole after a power cut."""
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            file = os.path.join(folder, name)
            if not os.path.islink(file):
                _sync(file)
        _sync(folder)


def _sync(path: str | os.PathLike[str]) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def staging(final: Path) -> Path:
    """Make the empty directory in which a checkpoint is written before it gets its name."""
    path = final.parent / f"tmp-{final.name}"  # the agent passes over names that begin so
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)  # what an attempt that was killed has left
    path.mkdir()
    return path


def publish(path: Path, final: Path) -> None:
    """Sync what was written and give it its name, at once."""
    sync_tree(path)
    if final.exists():  # saved by an earlier attempt, of which this one has repeated steps
        old = final.parent / f"tmp-old-{final.name}"
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
        path.rename(final)
        shutil.rmtree(old, ignore_errors=True)
    else:
        path.rename(final)
    _sync(final.parent)


def lasting(path: str | os.PathLike[str], step: int) -> Path:
    """Sync a checkpoint, and return where it stays when the attempt has ended.

    One in the copy of an upload is removed with the copy: it gets second names among the checkpoints of the job.
    """
    at, upload = Path(path), os.environ.get("MIND_UPLOAD_DIR")
    if not upload or not at.resolve().is_relative_to(Path(upload).resolve()):
        sync_tree(at)
        return at
    final = Path(checkpoint_dir()) / f"checkpoint-{step}"
    copy = staging(final)
    shutil.copytree(at, copy, symlinks=True, copy_function=_second_name, dirs_exist_ok=True)
    publish(copy, final)
    return final


def _second_name(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)
    return target


def checkpoints_of(reporter: Reporter) -> Callable[..., AbstractContextManager[Path]]:
    """Make ``checkpoint_at`` for a reporter."""

    @contextmanager
    def checkpoint_at(step: int, metrics: Mapping[str, Any] | None = None, name: str | None = None) -> Iterator[Path]:
        """Save a checkpoint so that it is there completely or not at all.

        ``with checkpoint_at(200, metrics={"eval_loss": 0.3}) as path:`` gives a new directory to write to. At the end
        of the block it is synced, renamed to ``checkpoint-200`` in ``checkpoint_dir()`` and registered; when the block
        raises, it is removed. One process of a training calls it, usually rank 0. The time that it took is reported as
        ``checkpoint_seconds``. It works outside of Mind, too.
        """
        final = Path(checkpoint_dir()) / (name or f"checkpoint-{step}")
        path = staging(final)
        began = time.monotonic()
        reporter.phase("CHECKPOINTING")
        try:
            try:
                yield path
                publish(path, final)
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
            reporter.checkpoint(final, step, metrics)
            reporter.report(step, checkpoint_seconds=round(time.monotonic() - began, 6))
        finally:
            reporter.phase("TRAINING")

    return checkpoint_at
