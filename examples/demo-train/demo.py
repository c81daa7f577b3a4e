"""Tells what training on Mind is like when a node dies: `make demo-train`.

A small language model is fine-tuned on two nodes, over REST, through the Python client. Then the same training runs
again and one of its nodes is destroyed: its agent and every process are killed, its disk is removed. The training goes
on elsewhere from a checkpoint that was in the archive. Both models are scored, and the two loss curves are compared.

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

STEPS = 120
EVERY = 15
KILL_AFTER = 30
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
        "output_config": {"checkpoint_interval_steps": EVERY, "keep_checkpoints": 3},
        # A lost node is given up as soon as it may be.
        "scheduling_config": {"lost_after_seconds": 10, "max_retries": 3},
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
                    if line.get("loss") is not None and line.get("step") is not None:
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


def durable(client: mc.Client, job: mc.Job) -> mc.Checkpoint:
    """Wait until a checkpoint of the middle of the training is in the archive, and return it."""
    while True:
        safe = [c for c in client.checkpoints(job) if c.state == "DURABLE" and c.step >= KILL_AFTER]
        if safe:
            return min(safe, key=lambda c: c.step)
        now = client.job(job)
        if now.done:
            now.check()
            raise RuntimeError("the training ended before a checkpoint was in the archive")
        time.sleep(0.1)


def plot(curve: dict[int, float], height: int = 8) -> str:
    """Draw a loss curve with characters."""
    low, high = min(curve.values()), max(curve.values())
    rows = [[" "] * len(curve) for _ in range(height)]
    for x, step in enumerate(sorted(curve)):
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
    checkpoint = durable(client, job)
    victim = client.job(job).nodes[0]
    killed = cluster.destroy(victim)
    tell(f"{job.job_id} trains the same. The checkpoint of step {checkpoint.step} is DURABLE, so {victim} is destroyed")
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

    claims = {
        "the node died in the middle of the training": checkpoint.step < STEPS and killed > 0,
        "another attempt ended the training": job.attempt > 1,
        "it ran where the dead node was not": victim not in job.nodes,
        "it continued from a checkpoint, not from the beginning": _began(client, job) >= checkpoint.step,
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
    """Return after which step the newest attempt began, by the history of its metrics."""
    series = client.metric_series(job, "loss", points=2000, attempt=job.attempt)
    return min(int(point["step"]) for s in series for point in s["points"]) - 1


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
