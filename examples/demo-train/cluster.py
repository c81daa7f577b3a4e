"""A `mind dev` of several nodes, each of which can be destroyed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import Request, urlopen

# How long an agent may take to start, on a machine that has other work, too.
LIMIT = 120

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Cluster:
    """A running `mind dev`, with one GPU on each node; as a context it is stopped at the end."""

    def __init__(self, mind: Path, folder: Path, nodes: int = 3) -> None:
        self.folder = folder.resolve()
        folder.mkdir(parents=True)
        # Launchers start the Python that agents find first.
        self._env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        arguments = ["dev", "--coordinators", "1", "--agents", str(nodes), "--gpus", "1xH100", "--http", "127.0.0.1:0"]
        with (folder / "dev.log").open("wb") as log:
            self._process = subprocess.Popen(
                [mind, *arguments, "--data-dir", str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
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
        self._again: dict[str, subprocess.Popen[bytes]] = {}  # agents that were started again

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        # It ends the agents that were started again, too.
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for agent in self._again.values():
            agent.kill()
            agent.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def destroy(self, node_id: str) -> int:
        """Kill the agent of a node and all processes that it has started, and remove its disk; return how many."""
        disk = self.folder / "agents" / node_id
        if not disk.is_dir():
            raise RuntimeError(f"{disk} is not there: where does {node_id} keep its data?")
        dead = {self._signal(node_id, signal.SIGKILL)}
        while left := _processes_of(str(disk)) - dead:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            dead |= left
        shutil.rmtree(disk)
        return len(dead)

    def start_again(self, node_id: str) -> None:
        """Start the agent of a node as anybody could from dev.json, and wait until the node can take a task."""
        if node_id in self._again:
            self._again[node_id].wait()
        with (self.folder / "logs" / f"{node_id}.log").open("ab") as log:
            self._again[node_id] = subprocess.Popen(
                self._agent(node_id)["argv"],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={name: value for name, value in self._env.items() if not name.startswith("MIND_")},
                start_new_session=True,
            )
        deadline = time.monotonic() + LIMIT
        while not self._ready(node_id):
            if time.monotonic() > deadline or self._again[node_id].poll() is not None:
                raise RuntimeError(f"{node_id} is not ready: see {self.folder}/logs/{node_id}.log")
            time.sleep(0.05)

    def limit_uploads(self, bytes_per_second: int) -> None:
        """Let every agent upload checkpoints this slowly: for an archive that is far away, or has much to do."""
        for agent in self.info["agents"]:
            node_id = agent["node_id"]
            with (self.folder / "config" / f"{node_id}.yaml").open("a") as config:
                config.write(f"checkpoint_archive_rate: {bytes_per_second}\n")
            pid = self._signal(node_id, signal.SIGTERM)
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.01)
            self.start_again(node_id)

    def _agent(self, node_id: str) -> dict[str, Any]:
        (agent,) = [a for a in self.info["agents"] if a["node_id"] == node_id]
        return agent

    def _signal(self, node_id: str, number: signal.Signals) -> int:
        pid: int = self._again[node_id].pid if node_id in self._again else self._agent(node_id)["pid"]
        os.kill(pid, number)
        return pid

    def _ready(self, node_id: str) -> bool:
        """Whether the agent has a session, and would be replaced if it were lost."""
        nodes = Request(
            f"{self.url}/v1/modules/scaimind/cluster/nodes", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            urlopen(f"http://{self._agent(node_id)['http_addr']}/health/ready", timeout=2).close()
            with urlopen(nodes, timeout=2) as answer:
                (node,) = [n for n in json.load(answer)["data"]["nodes"] if n["node_id"] == node_id]
        except OSError:
            return False
        return node["state"] == "READY" and node.get("roster_current", False)


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
