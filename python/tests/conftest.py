"""A real cluster for the tests: `mind dev` with a coordinator, a gateway and an agent as processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lifetime import ends_with_this

ROOT = Path(__file__).parents[2]


class Cluster:
    """A running `mind dev`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mind = Path(os.environ.get("MIND_BINARY", ROOT / "bin" / "mind"))
        if not mind.exists():
            pytest.skip(f"{mind} is not there: run make build")
        self.program = str(mind)
        # A Ctrl-C reaches pytest alone, which then stops the cluster in order.
        arguments = [
            "dev",
            "--coordinators",
            "1",
            "--agents",
            "1",
            "--gpus",
            "4xH100",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
        ]
        with (folder / "dev.log").open("wb") as log:
            self.process = subprocess.Popen(
                [mind, *arguments, str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                # It stops everything in order.
                preexec_fn=ends_with_this(signal.SIGTERM),
                # Jobs find the Python of these tests.
                env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            )
        assert self.process.stdout is not None
        if not self.process.stdout.readline().startswith(b"ready "):
            raise RuntimeError("mind dev did not start:\n" + (folder / "dev.log").read_text()[-3000:])
        self.info: dict[str, Any] = json.loads((folder / "dev.json").read_text())
        self.url: str = self.info["gateway"]["url"]
        self.token: str = self.info["token"]
        self._gateway: subprocess.Popen[bytes] | None = None

    def kill_gateway(self) -> None:
        """End the gateway with SIGKILL."""
        if self._gateway is None:
            os.kill(self.info["gateway"]["pid"], signal.SIGKILL)
        else:
            self._gateway.kill()
            self._gateway.wait()
        while True:  # until its socket is gone
            try:
                urlopen(self.url + "/health", timeout=1).close()
            except OSError:
                return
            time.sleep(0.01)

    def start_gateway(self) -> None:
        """Start it again, as anybody could from dev.json."""
        with (self.folder / "gateway-again.log").open("ab") as log:
            self._gateway = subprocess.Popen(
                self.info["gateway"]["argv"], stdout=log, stderr=log, preexec_fn=ends_with_this()
            )

    def stop(self) -> None:
        """End all processes."""
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if self._gateway is not None:
            self._gateway.terminate()
            self._gateway.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="mind-python-", ignore_cleanup_errors=True) as folder:
        running = Cluster(Path(folder))
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture
def reach(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """The cluster, found by the variables that the command line uses."""
    for name in [name for name in os.environ if name.startswith("MIND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MIND_ADDR", cluster.url)
    monkeypatch.setenv("MIND_TOKEN", cluster.token)
    with contextlib.suppress(OSError):
        urlopen(cluster.url + "/health", timeout=10).close()
    return cluster
