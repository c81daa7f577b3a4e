"""The callback for transformers, with a real trainer."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

HERE = Path(__file__).parent


def script() -> Any:
    spec = importlib.util.spec_from_file_location("train_hf", HERE / "train_hf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_it_reports_and_a_stop_loses_nothing(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    hf = script()
    untouched, stopped = hf.train(6)
    assert not stopped
    metrics = lines(mind / "metrics.jsonl")
    losses = {m["step"]: m["loss"] for m in metrics if "loss" in m}
    assert sorted(losses) == [1, 2, 3, 4, 5, 6]
    assert all("learning_rate" in m and "grad_norm" in m and m["total_steps"] == 6 for m in metrics if "loss" in m)
    assert {m["step"] for m in metrics if "eval_loss" in m} == {3, 6}
    assert {m["step"] for m in metrics if "checkpoint_seconds" in m} == {3, 6}
    events = lines(mind / "events.jsonl")
    assert [e["phase"] for e in events if e["event"] == "phase"] == ["TRAINING"] + 2 * [
        "CHECKPOINTING",
        "EVALUATING",
        "TRAINING",
        "CHECKPOINTING",
        "TRAINING",
    ]
    saved = [e for e in events if e["event"] == "checkpoint"]
    assert [e["step"] for e in saved] == [3, 6]
    assert all(Path(e["path"], "optimizer.pt").exists() and "eval_loss" in e["metrics"] for e in saved)

    monkeypatch.setenv("MIND_CHECKPOINT_DIR", str(mind / "second"))
    monkeypatch.setenv("MIND_METRICS_FILE", str(mind / "second.jsonl"))
    _, stopped = hf.train(6, stop_at=4)
    assert stopped
    assert sorted(p.name for p in (mind / "second").iterdir()) == ["checkpoint-3", "checkpoint-4"]
    monkeypatch.setenv("MIND_RESUME_FROM", str(mind / "second" / "checkpoint-4"))
    from mindcoordinator.training import _stop

    _stop._told.clear()
    resumed, stopped = hf.train(6)
    assert not stopped
    assert all(torch.equal(resumed[name], weights) for name, weights in untouched.items())
    again = {m["step"]: m["loss"] for m in lines(mind / "second.jsonl") if "loss" in m}
    assert again == losses


def test_a_notice_at_one_rank_stops_all_at_the_same_step(mind: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "src"), "OMP_NUM_THREADS": "1"}
    env.pop("MIND_RESUME_FROM", None)
    run = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(HERE / "train_hf.py"),
    ]
    # Only rank 1 is told. torchrun reports any other code than 0 as 1; the codes of the ranks are in its words.
    done = subprocess.run([*run, "20", "4", "1"], env=env, capture_output=True, text=True, timeout=240)
    assert "exitcode  : 75" in done.stderr, done.stderr[-2000:]
    # A process that ends with its group standing may die by SIGABRT instead of exiting with its code.
    assert "the group is left" in done.stdout
    assert "the group stands" not in done.stdout
    assert [e["step"] for e in lines(mind / "events.jsonl") if e["event"] == "checkpoint"] == [3, 4]
    assert {p.name for p in (mind / "checkpoints" / "checkpoint-4").iterdir()} >= {"rng_state_0.pth", "rng_state_1.pth"}


def test_second_names_go_with_those_of_the_trainer(tmp_path: Path) -> None:
    from mindcoordinator.training.huggingface import MindCallback

    callback = MindCallback()
    steps = [tmp_path / "upload" / f"checkpoint-{n}" for n in (1, 2, 3)]
    kept = [tmp_path / "kept" / at.name for at in steps]
    for at in steps + kept:
        at.mkdir(parents=True)
    callback._rotate(str(steps[0]), kept[0])
    steps[0].rmdir()  # save_total_limit=1
    callback._rotate(str(steps[1]), kept[1])
    callback._rotate(str(steps[2]), steps[2])  # in no upload
    steps[2].rmdir()
    callback._rotate(str(steps[1]), kept[1])
    assert [at.exists() for at in kept] == [False, True, True]
