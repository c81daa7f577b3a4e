"""A `mind dev` of three nodes, one of which can be destroyed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Cluster:
    """A running `mind dev`; as a context it is stopped at the end."""

    def __init__(self, mind: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        arguments = ["dev", "--coordinators", "1", "--agents", "3", "--gpus", "1xH100", "--http", "127.0.0.1:0"]
        with (folder / "dev.log").open("wb") as log:
            self._process = subprocess.Popen(
                [mind, *arguments, "--data-dir", str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                # Launchers start the Python that agents find first.
                env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                start_new_session=True,
                # When this process dies, however that happens, the cluster stops in order.
                preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready "):
            raise RuntimeError("mind dev did not start: " + (folder / "dev.log").read_text()[-2000:])
        self.info: dict[str, Any] = json.loads((folder / "dev.json").read_text())
        self.url: str = self.info["gateway"]["url"]
        self.token: str = self.info["token"]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def destroy(self, node_id: str) -> int:
        """Kill the agent of a node and all processes that it has started, and remove its disk; return how many."""
        (agent,) = [a for a in self.info["agents"] if a["node_id"] == node_id]
        disk = self.folder / "agents" / node_id
        if not disk.is_dir():
            raise RuntimeError(f"{disk} is not there: where does {node_id} keep its data?")
        dead = {agent["pid"]}
        os.kill(agent["pid"], signal.SIGKILL)
        while left := _processes_of(str(disk)) - dead:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            dead |= left
        shutil.rmtree(disk)
        return len(dead)


def _processes_of(disk: str) -> set[int]:
    """Find the processes whose command line or environment names a path on the disk of a node."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            said = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            if f"{disk}/".encode() in said or f"{disk}\0".encode() in said:
                found.add(int(entry.name))
    return found
