"""`mind pause` and `mind resume` of a training on a cluster: it saves on the notice, and goes on as if nothing had happened."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from harness import SOURCE, case

import mindcoordinator as mc

STEPS = 200
LIMIT = 400


def mind(cluster: Any, *arguments: str) -> str:
    """Run a command as a user would; the variables of the fixture name the cluster."""
    done = subprocess.run([cluster.program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(what: str, client: mc.Client, job: mc.Job, reached: Any) -> mc.Job:
    """Ask for the job until it is as wanted."""
    deadline = time.monotonic() + LIMIT
    while not reached(now := client.job(job)):
        if now.done:
            now.check()
        assert not now.done, f"{now.job_id} is {now.status}, not {what}"
        assert time.monotonic() < deadline, f"{now.job_id} is {now.status} for too long, not {what}"
        time.sleep(0.1)  # what the cluster does cannot be waited for
    return now


def curve(client: mc.Client, job: mc.Job, attempt: int) -> dict[int, float]:
    """Return the loss of each step of an attempt."""
    points = [p for s in client.metric_series(job, ["loss"], points=2000, attempt=attempt) for p in s["points"]]
    assert all(point["count"] == 1 for point in points)
    return {int(point["step"]): point["last"] for point in points}


@pytest.mark.long
def test_pause_and_resume(tiny: Path, tmp_path: Path, reach: Any) -> None:
    one = case(tiny, tmp_path, "SFT", max_steps=str(STEPS), learning_rate="1e-3")
    request = {
        "training_config": one.config["training_config"]
        | {"environment": {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}},
        "data_config": one.config["data_config"],
        "resource_config": {"gpu_count": 1},
        # No checkpoint but that of the notice, and that of the end.
        "output_config": {},
    }
    with mc.Client(reach.url, token=reach.token) as client:
        untouched = client.submit("untouched", **request)
        job = client.submit("paused", **request)
        until("training", client, job, lambda now: (now.progress or {}).get("step", 0) >= 5)
        mind(reach, "pause", job.job_id)
        until("paused", client, job, lambda now: now.status == "PAUSED")
        (saved,) = client.checkpoints(job)
        first = curve(client, job, 1)
        assert 5 <= saved.step < STEPS
        assert sorted(first) == list(range(1, saved.step + 1)), "it stopped after the step that it saved"
        assert "PAUSED" in mind(reach, "job", job.job_id)

        mind(reach, "resume", job.job_id)
        job = client.wait(job, timeout=LIMIT).check()
        untouched = client.wait(untouched, timeout=LIMIT).check()
        assert (job.attempt, untouched.attempt) == (2, 1)
        second = curve(client, job, 2)
        assert sorted(second) == list(range(saved.step + 1, STEPS + 1)), "no step was repeated, none left out"
        assert first | second == curve(client, untouched, 1), "the loss of every step is that of the untouched run"
