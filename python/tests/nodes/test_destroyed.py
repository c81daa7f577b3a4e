"""A node of a training is destroyed at some moment, again and again: each time the training goes on, free and without blame.

MIND_SEED repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import material
import mindcoordinator as mc
from cluster import Cluster

LIMIT = 300
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
# Default retries: an exit of a rank that counted would end the job.
ASKED = {
    "resource_config": {"gpu_count": 2, "node_count": 2},
    # A lost node is given up as soon as it may be.
    "scheduling_config": {"lost_after_seconds": 10, "grace_period_seconds": 5},
}
SCRIPT = str(Path(__file__).with_name("train_gloo.py"))


@dataclass
class Untouched:
    """A training without a loss: how long it starts, and the loss of each step."""

    start: float
    losses: dict[int, float]


@dataclass
class Rounds:
    """Trainings of one kind, a node of each of which is destroyed."""

    cluster: Cluster
    client: mc.Client
    request: dict[str, Any]
    say: Callable[[str], None]

    def play(self, count: int, seed: int) -> None:
        """Destroy a node as often as is asked for, at moments that the seed draws, in two trainings at a time."""
        self.say(f"\nMIND_SEED={seed}: {count} rounds")
        untouched = self.untouched()
        self.say(f"untouched: {untouched.start:.1f} s until its first step, {len(untouched.losses)} steps")
        with ThreadPoolExecutor(2) as pool:
            exits = list(pool.map(lambda n: self.round(n, random.Random(f"{seed} {n}"), untouched), range(count)))
        # Without these nothing was shown.
        assert any(exits), "no rank exited before the node of the other was missed"
        self.say(f"in {sum(exits)} of {count} rounds the other rank exited before the node was lost")

    def untouched(self) -> Untouched:
        began = time.monotonic()
        job = self.client.submit("untouched", **self.request)
        self.until(job, lambda now: step_of(now) > 0)
        start = time.monotonic() - began
        job = self.client.wait(job, timeout=LIMIT).check()
        assert job.attempt == 1
        return Untouched(start, self.curve(job))

    def until(self, job: mc.Job, holds: Callable[[mc.Job], bool]) -> mc.Job:
        """Ask for the job until something holds, or it has ended."""
        deadline = time.monotonic() + LIMIT
        while not holds(now := self.client.job(job)) and not now.done:
            assert time.monotonic() < deadline, now.raw
            time.sleep(0.02)  # what the cluster does cannot be waited for
        return now

    def curve(self, job: mc.Job) -> dict[int, float]:
        """Return the loss of each step of the newest attempt: those of a lost one may be gone with its node."""
        series = self.client.metric_series(job, ["loss"], points=2000, attempt=job.attempt)
        return {int(point["step"]): point["last"] for s in series for point in s["points"]}

    def round(self, number: int, draw: random.Random, untouched: Untouched) -> bool:
        """Destroy the node of one rank at any moment: during the start, or between any two steps.

        Return whether the other rank exited while the node was not known to be lost.
        """
        name, began, last = f"round {number + 1}", time.monotonic(), max(untouched.losses)
        # The first round is never during the start, where a rank waits for the other instead of exiting.
        rank, step, more = draw.randrange(2), draw.randint(-last // 3 if number else 1, last - 1), draw.random()
        job = self.client.submit(name, **self.request)
        self.until(job, lambda now: bool(now.nodes))
        if step <= 0:
            time.sleep(more * untouched.start)
        else:
            self.until(job, lambda now: step_of(now) >= step)
            time.sleep(more / 2)
        at = self.client.job(job)
        if at.attempt != 1 or at.done:
            at.check()
            self.say(f"{name}: the training had ended before")
            return self.round(number, draw, untouched)
        victim, survivor = at.nodes[rank], at.nodes[1 - rank]
        self.cluster.destroy(victim)
        killed = time.monotonic()
        alone = self.until(job, lambda now: now.attempt > 1 or ended(now, 1 - rank))
        exited = alone.attempt == 1 and not alone.done
        job = self.client.wait(job, timeout=LIMIT)
        took = time.monotonic() - killed
        self.cluster.start_again(victim)
        if job.attempt == 1 and job.status == "COMPLETED":
            self.say(f"{name}: the training had ended before")
            return self.round(number, draw, untouched)
        lost = (job.raw["past_attempts"] or [{}])[0]
        self.say(
            f"{name}: rank {rank} destroyed {killed - began:.1f} s after the submit, at step {step_of(at)}; "
            f"rank {1 - rank} {'exited first' if exited else 'was stopped'}; {lost.get('error_type')}; "
            f"attempt {job.attempt} on {'+'.join(job.nodes)} {job.status} after {took:.1f} s; "
            f"{time.monotonic() - began:.1f} s"
        )
        assert job.status == "COMPLETED", job.raw
        assert job.attempt == 2, job.raw
        assert (job.raw["retries"]["node_lost"], job.raw["retries"].get("exit", 0)) == (1, 0), job.raw
        assert (lost["error_type"], lost["failed_node"]) == ("NODE_LOST", victim), job.raw
        # It has its place again, though others are free: nothing speaks against it.
        assert survivor in job.nodes, job.raw
        curve = self.curve(job)
        # There is none when the node was destroyed after the last checkpoint.
        first = min(curve, default=last + 1)
        assert curve == {n: untouched.losses[n] for n in range(first, last + 1)}, "it trained something else"
        assert max(c.step for c in self.client.checkpoints(job)) == last
        return exited


def step_of(job: mc.Job) -> int:
    return int((job.progress or {}).get("step", 0))


def ended(job: mc.Job, rank: int) -> bool:
    return any(task.get("rank", 0) == rank and task["state"] == "ENDED" for task in job.raw.get("tasks", []))


@pytest.fixture
def rounds(nodes: Cluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[dict[str, Any]], Rounds]]:
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    with mc.Client(nodes.url, token=nodes.token) as client:
        yield lambda request: Rounds(nodes, client, ASKED | request, say)


def seed() -> int:
    return int(os.environ.get("MIND_SEED") or random.SystemRandom().randrange(1 << 32))


def script(launcher: str, steps: int) -> dict[str, Any]:
    argv = [launcher, SCRIPT, str(steps), "0.1"]
    return {"command_config": {"argv": argv, "cwd": "/tmp", "environment": ENVIRONMENT}}


def test_once(rounds: Any) -> None:
    rounds(script("python3", 30)).play(1, seed())


@pytest.mark.long
def test_twenty_times(rounds: Any) -> None:
    rounds(script("python3", 60)).play(20, seed())


@pytest.mark.long
def test_under_torchrun(rounds: Any) -> None:
    rounds(script("torchrun", 60)).play(4, seed())


@pytest.mark.long
def test_hf_trainer(rounds: Any, tmp_path: Path) -> None:
    model, data, _ = material.make(tmp_path / "material")
    request = {
        "training_config": {
            "training_type": "SFT",
            "base_model": {"model_id": str(model)},
            "framework": {"type": "HF_TRAINER", "distributed": {"backend": "gloo"}},
            "hyperparameters": {"max_steps": "60", "learning_rate": "0.003", "logging_steps": "1"},
            "environment": ENVIRONMENT,
        },
        "data_config": {"sources": [{"path": str(data)}], "batch_size": 4, "max_seq_length": 64, "seed": 7},
        "output_config": {"checkpoint_interval_steps": 10},
    }
    rounds(request).play(6, seed())
