"""A cluster of several nodes, each of which can be destroyed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "demo-train"))

pytest.importorskip("torch", reason="the training environment is not there: make train-env")

from cluster import Cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Seven nodes: two trainings at a time have two each, and more than one other could take the place of any."""
    mind = Path(os.environ.get("MIND_BINARY", ROOT / "bin" / "mind"))
    if not mind.exists():
        pytest.skip(f"{mind} is not there: run make build")
    with Cluster(mind, tmp_path_factory.mktemp("nodes") / "data", nodes=7) as running:
        yield running
