"""A directory of this machine, to the cluster, for a job that runs in it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _operations as op
from ._effects import Operation
from ._ignore import Ignorer
from .errors import MindError

_IGNORED, _GIT = (".gitignore", ".mindignore"), ".git"
# How often all files are offered: to learn what is missing, then to complete the upload.
_ROUNDS = 4


def send(directory: str | os.PathLike[str], retry_for: float) -> Operation[str]:
    """Send the files of a directory, as far as the cluster does not have them, and return the id of the upload."""
    top = Path(directory).resolve()
    if not top.is_dir():
        raise NotADirectoryError(f"upload: {top} is not a directory")
    limits = yield from op.call("GET", op.path("uploads"), retry_for=retry_for)
    names = sorted(listed(top))
    total = sum((top / name).lstat().st_size for name in names)
    if total > limits["max_bytes"]:
        raise ValueError(
            f"upload: {top} has {total} bytes in {len(names)} files, and this cluster takes {limits['max_bytes']}: "
            "leave large files out with a .mindignore"
        )
    if not names:
        raise ValueError(f"upload: {top} has no file to send: are all of them ignored?")
    pieces: dict[str, tuple[str, int, int]] = {}
    files = [_described(top, name, limits["piece_bytes"], pieces) for name in names]
    for _ in range(_ROUNDS):
        answer = yield from op.call("POST", op.path("uploads"), body={"files": files}, retry_for=retry_for)
        if answer["complete"]:
            return str(answer["upload"])
        for pack in _packs(answer["missing"], pieces, limits["pack_bytes"]):
            body = _packed(top, pack)
            yield from op.call("POST", op.path("uploads", "packs"), body=body, retry_for=retry_for)
    raise MindError("the gateway keeps saying that files are missing, although they were sent")


def listed(top: Path) -> list[str]:
    """List the files that are sent: what git ignores and what .mindignore files name is left out."""
    names = _of_git(top, "")
    ignorer = Ignorer(top, _IGNORED[1:])
    if not names:  # no work tree, no git, or a directory that git ignores as a whole
        names, ignorer = list(_walked(top)), Ignorer(top, _IGNORED)
    return [name for name in set(names) if not ignorer.leaves_out(name)]


def _of_git(top: Path, folder: str) -> list[str]:
    ask = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        env = os.environ | {"LC_ALL": "C"}
        out = subprocess.run(ask, cwd=top / folder, env=env, capture_output=True, check=True).stdout
    except FileNotFoundError:
        return []  # there is no git
    except subprocess.CalledProcessError as e:
        if b"not a git repository" in e.stderr:
            return []
        # Without git, files would be sent that it leaves out.
        why = e.stderr.decode(errors="replace").strip()
        raise ValueError(f"upload: git does not list the files of {top / folder}: {why}") from e
    names = []
    for name in (os.fsdecode(raw) for raw in out.split(b"\0") if raw):
        name = os.path.normpath(os.path.join(folder, name))
        at = top / name
        if _GIT in name.split("/") or not os.path.lexists(at):
            continue
        if any((top / parent).is_symlink() for parent in Path(name).parents):
            continue  # git knows it from before its folder became a link
        if at.is_dir() and not at.is_symlink():
            if (at / _GIT).exists():  # a repository of its own, such as a submodule
                names += _of_git(top, name)
            continue
        names.append(name)
    return names


def _walked(top: Path) -> Iterator[str]:
    ignorer = Ignorer(top, _IGNORED)
    for at, folders, files in os.walk(top):
        folder = os.path.relpath(at, top)
        inner = [(name, os.path.normpath(os.path.join(folder, name))) for name in folders]
        links = [path for _, path in inner if (top / path).is_symlink()]
        folders[:] = [
            name
            for name, path in inner
            if name != _GIT and path not in links and not ignorer.leaves_out(path, folder=True)
        ]
        yield from links
        yield from (os.path.normpath(os.path.join(folder, name)) for name in files if name != _GIT)


def _described(top: Path, name: str, size: int, pieces: dict[str, tuple[str, int, int]]) -> dict[str, Any]:
    at = top / name
    before = at.lstat()
    if stat.S_ISLNK(before.st_mode):
        return {"path": name, "link": os.readlink(at)}
    if not stat.S_ISREG(before.st_mode):
        raise ValueError(f"upload: {name!r} is neither a file nor a link: leave it out with .mindignore")
    sums: list[str] = []
    with at.open("rb") as file:
        while content := file.read(size):
            digest = hashlib.sha256(content).hexdigest()
            pieces.setdefault(digest, (name, len(sums) * size, len(content)))
            sums.append(digest)
        after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise _changed(name)
    executable = bool(before.st_mode & stat.S_IXUSR)
    return {"path": name, "executable": executable, "size": before.st_size, "pieces": sums}


def _packs(
    missing: list[str], pieces: dict[str, tuple[str, int, int]], most: int
) -> Iterator[list[tuple[str, str, int, int]]]:
    pack: list[tuple[str, str, int, int]] = []
    room = most
    for digest in missing:
        name, at, size = pieces[digest]
        if size > room:
            yield pack
            pack, room = [], most
        pack.append((digest, name, at, size))
        room -= size
    if pack:
        yield pack


def _packed(top: Path, pack: list[tuple[str, str, int, int]]) -> bytes:
    heading = {"pieces": [{"sha256": digest, "size": size} for digest, _, _, size in pack]}
    made = [json.dumps(heading).encode() + b"\n"]
    for digest, name, at, size in pack:
        with (top / name).open("rb") as file:
            file.seek(at)
            content = file.read(size)
        if hashlib.sha256(content).hexdigest() != digest:
            raise _changed(name)
        made.append(content)
    return b"".join(made)


def _changed(name: str) -> ValueError:
    return ValueError(f"upload: {name!r} changed while it was read: submit again when nothing writes it")
