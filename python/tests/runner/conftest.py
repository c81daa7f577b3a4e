"""Fixtures of the tests of mind_runner train."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("trl", reason="the training environment is not there: make train-env")

import tiny as tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model, its tokenizer, and data of every shape."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model.make(folder)
    return folder
