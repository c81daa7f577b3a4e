"""A checkpoint, from the archive to a directory of this machine."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

import httpx

from ._effects import Answer, Close, Open, Operation, Read, Request
from ._operations import AGAIN, Pauses, unreachable
from .errors import error_of


def download(where: str, to: Path, retry_for: float) -> Operation[Path]:
    """Fetch a tar and extract it to a new directory, which is there completely or not at all."""
    if to.exists():
        raise FileExistsError(f"{to} exists: name a directory that does not, or remove it")
    to.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.parent))
    try:
        archive = part / "archive.tar"
        yield from _fetch(where, archive, retry_for)
        files = part / "files"
        files.mkdir()
        with tarfile.open(archive) as tar:
            tar.extractall(files, filter="data")  # refuses what would land elsewhere
        files.rename(to)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return to


def _fetch(where: str, file: Path, retry_for: float) -> Operation[None]:
    pauses = Pauses(retry_for)
    while True:
        try:
            answer: Answer = yield Open(Request("GET", where))
            if answer.status < 300:
                with file.open("wb") as out:
                    while data := (yield Read()):
                        out.write(data)
                yield Close()
                return
            problem = error_of(answer.status, answer.headers, answer.body)
            if answer.status not in AGAIN:
                raise problem
        except httpx.TransportError as e:
            problem = unreachable(e)
        yield Close()
        yield pauses.after(problem)
