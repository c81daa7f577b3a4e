"""A checkpoint, from the archive to a directory of this machine."""

from __future__ import annotations

import hashlib
import posixpath
import shutil
import tarfile
import tempfile
from pathlib import Path

import httpx

from ._effects import Answer, Close, Open, Operation, Read, Request
from ._operations import AGAIN, Pauses, unreachable
from .errors import MindError, error_of


def download(where: str, to: Path, retry_for: float) -> Operation[Path]:
    """Fetch a tar and extract it to a new directory, which is there completely or not at all."""
    if to.exists():
        raise FileExistsError(f"{to} exists: name a directory that does not, or remove it")
    to.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.parent))
    try:
        archive = part / "archive.tar"
        digest = yield from _fetch(where, archive, retry_for)
        files = part / "files"
        files.mkdir()
        with tarfile.open(archive) as tar:
            if digest_of(tar) != digest:
                raise MindError("what arrived does not have the digest of the checkpoint: try again")
            tar.extractall(files, filter="data")  # refuses what would land elsewhere
        files.rename(to)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return to


def digest_of(tar: tarfile.TarFile) -> str:
    """Return the content digest of a checkpoint: SHA-256 over the names, sizes and contents of its files."""
    lines: dict[bytes, bytes] = {}
    for member in tar:
        name = member.name.encode()
        if member.issym():
            # Where it leads is said relative to the checkpoint.
            link = posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname)).encode()
            lines[name] = b"%d:%s -> %d:%s\n" % (len(name), name, len(link), link)
        elif member.isreg():
            content = tar.extractfile(member)
            assert content is not None
            whole = hashlib.sha256()
            while data := content.read(1 << 20):
                whole.update(data)
            lines[name] = b"%d:%s %d %s\n" % (len(name), name, member.size, whole.hexdigest().encode())
        else:
            raise MindError(f"the archive of the checkpoint has {member.name!r}, which is neither a file nor a link")
    return hashlib.sha256(b"".join(lines[name] for name in sorted(lines))).hexdigest()


def _fetch(where: str, file: Path, retry_for: float) -> Operation[str]:
    pauses = Pauses(retry_for)
    while True:
        try:
            answer: Answer = yield Open(Request("GET", where))
            if answer.status < 300:
                with file.open("wb") as out:
                    while data := (yield Read()):
                        out.write(data)
                yield Close()
                return str(answer.headers["x-mind-content-digest"])
            problem = error_of(answer.status, answer.headers, answer.body)
            if answer.status not in AGAIN:
                raise problem
        except httpx.TransportError as e:
            problem = unreachable(e)
        yield Close()
        yield pauses.after(problem)
