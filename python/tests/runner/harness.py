"""Requests on tiny models, carried out by real processes."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from lifetime import ends_with_this

SOURCE = Path(__file__).parents[2] / "src"
HYPERPARAMETERS = {"max_steps": "8", "logging_steps": "1", "learning_rate": "1e-2"}
DATA = {"DPO": "pairs.jsonl", "RLHF": "prompts.jsonl", "CONTINUED_PRETRAIN": "text.jsonl"}


@dataclass
class Case:
    """One training: the request, where it writes, and what became of it."""

    folder: Path
    config: dict[str, Any]
    env: dict[str, str] = field(default_factory=dict)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def environment(self) -> dict[str, str]:
        return {
            "MIND_JOB_ID": "job",
            "MIND_OUTPUT_DIR": str(self.output),
            "MIND_CHECKPOINT_DIR": str(self.checkpoints),
            "MIND_METRICS_FILE": str(self.folder / "metrics"),
            "MIND_EVENTS_FILE": str(self.folder / "events"),
            "MIND_CONFIG": str(self.folder / "config.json"),
        } | self.env

    def prepare(self) -> None:
        for path in (self.output, self.checkpoints):
            path.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(self.config))

    def result(self, rank: int = 0) -> dict[str, Any]:
        path = self.folder / f"result.{rank}"
        assert path.exists(), f"{self.folder.name} did not end at rank {rank}"
        return json.loads(path.read_text())

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def distributed(self, rank: int = 0) -> str:
        """How accelerate spread the model: what was asked for is not always what it does."""
        return (self.folder / f"result.{rank}.kind").read_text()

    def figures(self, name: str) -> list[float]:
        return [line[name] for line in self.lines("metrics") if name in line and "origin" not in line]

    def losses(self) -> list[float]:
        return self.figures("loss")

    def resumed(self, name: str, checkpoint: Path, **changes: Any) -> Case:
        again = Case(
            self.folder.parent / name, copy.deepcopy(self.config), self.env | {"MIND_RESUME_FROM": str(checkpoint)}
        )
        again.config["training_config"]["hyperparameters"] |= changes
        return again


def case(
    tiny: Path, folder: Path, kind: str, framework: str = "HF_TRAINER", data: str = "", **hyperparameters: str
) -> Case:
    own = {"reward_function": f"{tiny}/reward.py:short", "max_completion_length": "8"} if kind == "RLHF" else {}
    return Case(
        folder,
        {
            "name": folder.name,
            "training_config": {
                "training_type": kind,
                "base_model": {"model_id": str(tiny / "model")},
                "framework": {"type": framework},
                "hyperparameters": HYPERPARAMETERS | own | hyperparameters,
            },
            "data_config": {
                "sources": [{"path": str(tiny / (data or DATA.get(kind, "chat.jsonl")))}],
                "batch_size": 4,
                "max_seq_length": 64,
                "seed": 7,
            },
            "output_config": {"checkpoint_interval_steps": 4},
        },
    )


def environment() -> dict[str, str]:
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("MIND_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_"))
    }
    # Bytecode is kept beside the libraries: without it the import takes three times as long.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env | {
        "PYTHONPATH": str(SOURCE),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def carry_out(
    folder: Path, cases: list[Case], ranks: int = 1, timeout: float = 300, nodes: list[dict[str, str]] | None = None
) -> str:
    """Carries out the cases in one group of processes; returns the end of what they wrote to stderr.

    Nodes gives each rank variables of its own, as if it were on a node that shares nothing.
    """
    per_rank: list[Path] = []
    ports = [str(free_port()) for _ in cases]
    for rank in range(ranks):
        listed = []
        for one, port in zip(cases, ports, strict=True):
            one.prepare()
            env = one.environment() | ((nodes or [{}] * ranks)[rank])
            if ranks > 1:
                env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                env |= {"LOCAL_RANK": "0" if nodes else str(rank), "GROUP_RANK": str(rank) if nodes else "0"}
            listed.append({"env": env, "config": env["MIND_CONFIG"], "result": str(one.folder / "result")})
        path = folder / f"cases-{rank}.json"
        path.write_text(json.dumps(listed))
        per_rank.append(path)
    processes = []
    for rank, path in enumerate(per_rank):
        env = environment() | ({"RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks > 1 else {})
        with (folder / f"stderr-{rank}").open("wb") as err, (folder / f"stdout-{rank}").open("wb") as out:
            argv = [sys.executable, str(Path(__file__).with_name("worker.py")), str(path)]
            processes.append(subprocess.Popen(argv, env=env, stdout=out, stderr=err, preexec_fn=ends_with_this()))
    try:
        for process in processes:
            process.wait(timeout)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return "\n".join((folder / f"stderr-{rank}").read_text()[-3000:] for rank in range(ranks))


def weights(folder: Path) -> dict[str, Any]:
    """All tensors of a model or a checkpoint."""
    import safetensors.torch

    files = sorted(folder.glob("*.safetensors"))
    assert files, f"no weights in {folder}"
    return {k: v for file in files for k, v in safetensors.torch.load_file(file).items()}


def same(one: Path, other: Path) -> bool:
    """Whether all weights are equal bit by bit."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].numpy(force=True).tobytes() == b[k].numpy(force=True).tobytes() for k in a
    )
