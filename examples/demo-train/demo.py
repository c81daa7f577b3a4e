"""Tells what training on Mind is like when a node dies: `make demo-train`.

A small language model is fine-tuned on two nodes, over REST, through the Python client. Then the same training runs
again and one of its nodes is destroyed while it uploads a checkpoint: its agent and every process are killed, its disk
is removed. The training goes on elsewhere from a checkpoint that was in the archive. Both models are scored, and the
two loss curves are compared.

Nothing is staged: processes, signals and figures are real. It exits with 0 only when every claim that it makes holds.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx

import material
import mindcoordinator as mc
from cluster import Cluster
from mindcoordinator.requests import BaseModel, JobRequest

STEPS = 240
EVERY = 20
KILL_AFTER = 40
# What a node uploads in a second. A checkpoint has 2.7 MB: an upload can be seen before it is over.
UPLOADS = 2_000_000
# Nodes have mind_runner installed; this machine has the repository.
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2] / "python" / "src"), "OMP_NUM_THREADS": "1"}
# How long one part of the story may take, on a machine that has other work, too.
LIMIT = 300


def tell(text: str) -> None:
    """Print a paragraph of the story, with the time since it began."""
    print(f"[{time.monotonic() - began:5.0f}s] {text}", flush=True)


def request(model: Path, data: Path) -> JobRequest:
    """Make the request of the training, as anybody would send it."""
    base: BaseModel = {"model_id": str(model)}
    return {
        "training_config": {
            "training_type": "SFT",
            "base_model": base,
            "framework": {"type": "HF_TRAINER", "distributed": {"backend": "gloo"}},
            "hyperparameters": {"max_steps": str(STEPS), "learning_rate": "0.003", "logging_steps": "1"},
            "environment": ENVIRONMENT,
        },
        "data_config": {"sources": [{"path": str(data)}], "batch_size": 4, "max_seq_length": 64, "seed": 7},
        "resource_config": {"gpu_count": 2, "node_count": 2},
        "output_config": {"checkpoint_interval_steps": EVERY},
        # A lost node is given up as soon as it may be. There is no retry: an exit that counted would end the job.
        "scheduling_config": {"lost_after_seconds": 10},
    }


class Curve(threading.Thread):
    """Follows the loss of a job as anybody would who watches it; of a repeated step the later attempt counts."""

    def __init__(self, client: mc.Client, job: mc.Job) -> None:
        super().__init__(daemon=True)
        self._client, self._job = client, job
        self.loss: dict[int, float] = {}
        self.start()

    def run(self) -> None:
        """Follow until the job has ended."""
        while True:
            try:
                for line in self._client.metrics(self._job, follow=True):
                    # What a later attempt tells again of steps before its own is left out.
                    if line.get("loss") is not None and line.get("step") is not None and "origin" not in line:
                        self.loss[line["step"]] = line["loss"]
                return
            except mc.StreamLost:  # a part of the file was lost with its node: the next attempt has one of its own
                if self._client.job(self._job).done:
                    return
                time.sleep(0.5)

    def whole(self) -> dict[int, float]:
        """Return the losses when all have come."""
        self.join(timeout=60)
        return self.loss


def uploading(client: mc.Client, job: mc.Job) -> tuple[list[mc.Checkpoint], mc.Checkpoint]:
    """Wait until an upload begins after a checkpoint of the middle of the training is in the archive.

    Return those that are in the archive, and the one that is being uploaded.
    """
    seen: set[str] = set()
    while True:
        all_ = client.checkpoints(job)
        safe = [c for c in all_ if c.state == "DURABLE"]
        begun = [c for c in all_ if c.state == "UPLOADING" and c.checkpoint_id not in seen]
        if begun and any(c.step >= KILL_AFTER for c in safe):
            return safe, begun[0]
        seen |= {c.checkpoint_id for c in begun}
        now = client.job(job)
        if now.done:
            now.check()
            raise RuntimeError("the training ended before an upload could be cut")
        time.sleep(0.05)


def lost(client: mc.Client, safe: list[mc.Checkpoint], folder: Path) -> list[int]:
    """Return the steps of those checkpoints that are not DURABLE any more, or not what was saved."""
    gone = []
    for c in safe:
        try:
            client.download(c, folder / c.checkpoint_id)  # its digest is verified
        except mc.MindError as e:
            tell(f"the checkpoint of step {c.step} cannot be had: {e}")
            gone.append(c.step)
        else:
            if client.checkpoint(c).state != "DURABLE":
                gone.append(c.step)
    return gone


def plot(curve: dict[int, float], height: int = 8) -> str:
    """Draw a loss curve with characters."""
    low, high = min(curve.values()), max(curve.values())
    steps = sorted(curve)[:: max(1, len(curve) // 100)]
    rows = [[" "] * len(steps) for _ in range(height)]
    for x, step in enumerate(steps):
        y = round((high - curve[step]) / ((high - low) or 1) * (height - 1))
        rows[y][x] = "*"
    labels = [f"{high:6.2f} |"] + ["       |"] * (height - 2) + [f"{low:6.2f} |"]
    return "\n".join("        " + label + "".join(row) for label, row in zip(labels, rows, strict=True))


def score(client: mc.Client, job: mc.Job, text: Path) -> float:
    """Evaluate the model of a job: its perplexity over a text that it was not trained on."""
    evaluation = client.evaluate(
        [{"name": "perplexity", "dataset": str(text)}], job_id=job.job_id, resource_config={"gpu_count": 1}
    )
    evaluation = client.wait_evaluation(evaluation, timeout=LIMIT)
    figures = evaluation.scores.get("perplexity") or {}
    number = next((v for k, v in figures.items() if k.startswith("perplexity") and not k.endswith("_stderr")), None)
    if evaluation.status != "COMPLETED" or number is None:
        raise RuntimeError(f"the evaluation is {evaluation.status}: {evaluation.error_message} {evaluation.results}")
    return float(number)


def let_evaluations_find_the_runner(cluster: Cluster) -> None:
    """Put the environment into the launcher of evaluations, as an operator may: their requests have none."""
    where = f"{cluster.url}/v1/modules/scaimind/launchers/EVALUATION"
    with httpx.Client(headers={"Authorization": f"Bearer {cluster.token}"}, trust_env=False) as http:
        launcher = http.get(where).raise_for_status().json()["data"]
        http.put(where, json={"argv": launcher["argv"], "environment": ENVIRONMENT}).raise_for_status()


def story(folder: Path, cluster: Cluster) -> None:
    """Tell it."""
    client = mc.Client(cluster.url, token=cluster.token)
    let_evaluations_find_the_runner(cluster)
    model, data, held_out = material.make(folder / "material")
    tell(f"made of the documentation: a model of {material.weights(model):,} weights, {material.count(data)} examples")

    untouched = client.submit("untouched", **request(model, data))
    tell(f"{untouched.job_id} trains on two of three nodes: {STEPS} steps, a checkpoint after every {EVERY}")
    watched = Curve(client, untouched)
    untouched = client.wait(untouched, timeout=LIMIT).check()
    curve = watched.whole()
    tell(f"done: the loss went from {curve[1]:.3f} to {curve[STEPS]:.3f}\n{plot(curve)}")

    job = client.submit("destroyed", **request(model, data))
    watched = Curve(client, job)
    safe, cut = uploading(client, job)
    victim = cut.raw["node_id"]
    killed = cluster.destroy(victim)
    tell(
        f"{job.job_id} trains the same. The checkpoint of step {max(c.step for c in safe)} is DURABLE, that of step "
        f"{cut.step} is UPLOADING, and {victim}, which uploads it, is destroyed"
    )
    tell(f"{killed} processes of {victim} were killed, and its disk is gone")
    job = client.wait(job, timeout=LIMIT).check()
    tell(
        f"it ended on {' and '.join(job.nodes)}, in attempt {job.attempt}, which began after step {_began(client, job)}"
    )

    again = watched.whole()
    apart = max(abs(again[step] - curve[step]) for step in curve)
    tell(f"the two loss curves, step by step: {len(curve)} steps, greatest difference {apart:g}")
    scores = [score(client, j, held_out) for j in (untouched, job)]
    tell(f"perplexity over a text that neither has seen: {scores[0]:.4f} untouched, {scores[1]:.4f} after the loss")

    restarts = job.raw["retries"]
    claims = {
        "the node died in the middle of the training": cut.step < STEPS and killed > 1,
        "it died during an upload, which nobody completed": client.checkpoint(cut).state != "DURABLE",
        "no checkpoint that was in the archive is lost": not lost(client, safe, folder / "downloads"),
        "the loss of the node is the cause, and cost no retry": (
            restarts["node_lost"] == 1 and restarts["exit"] == 0 and _ended(job) == ("NODE_LOST", victim)
        ),
        "another attempt ended the training": job.attempt > 1,
        "it ran where the dead node was not": victim not in job.nodes,
        "it continued from a checkpoint of the archive": _began(client, job) in _durable(client, job),
        "every step has the same loss in both": sorted(again) == sorted(curve) and apart == 0.0,
        "both models score the same": scores[0] == scores[1],
        "the training taught something": curve[STEPS] < 0.9 * curve[1],
    }
    for claim, holds in claims.items():
        print(f"        {'yes' if holds else 'NO '}  {claim}")
    if not all(claims.values()):
        raise RuntimeError("not every claim holds")
    client.close()


def _began(client: mc.Client, job: mc.Job) -> int:
    """Return after which step the newest attempt began. It tells losses of earlier steps again, but not their times."""
    series = client.metric_series(job, ["step_seconds"], points=2000, attempt=job.attempt)
    return min(int(point["step"]) for s in series for point in s["points"]) - 1


def _durable(client: mc.Client, job: mc.Job) -> set[int]:
    """Return the steps of the first attempt that are in the archive."""
    return {c.step for c in client.checkpoints(job) if c.state == "DURABLE" and c.attempt == 1}


def _ended(job: mc.Job) -> tuple[str, str]:
    """Return what ended the first attempt, and on which node."""
    first = job.raw["past_attempts"][0]
    return first["error_type"], first["failed_node"]


def main() -> int:
    """Run the story with a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mind", default="bin/mind", help="the program")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    arguments = parser.parse_args()
    # So that the cluster is stopped in order however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="mind-demo-train-"))
    failed = True
    try:
        with Cluster(Path(arguments.mind).resolve(), folder / "data") as cluster:
            cluster.limit_uploads(UPLOADS)
            tell(f"a cluster is ready: {len(cluster.info['agents'])} nodes on this machine, and an archive")
            story(folder, cluster)
        failed = False
    except (RuntimeError, TimeoutError, OSError, mc.MindError) as e:
        print(f"\ndemo-train: FAILED: {e}", file=sys.stderr)
    finally:
        if failed or arguments.keep:
            print(f"the data directory, with all logs, is left in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if not failed:
        tell("all of it holds")
    return int(failed)


began: Any = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
