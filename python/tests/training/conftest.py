"""What the tests of the helper share."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mindcoordinator.training import _stop


@pytest.fixture
def mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a process of a job, with the variables that say so."""
    for name, file in {
        "MIND_METRICS_FILE": "metrics.jsonl",
        "MIND_EVENTS_FILE": "events.jsonl",
        "MIND_CHECKPOINT_DIR": "checkpoints",
        "MIND_OUTPUT_DIR": "output",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / file))
    monkeypatch.setenv("MIND_JOB_ID", "job_test")
    monkeypatch.setattr(_stop, "_told", threading.Event())
    return tmp_path
