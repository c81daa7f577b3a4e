"""The callback for Lightning, with a real trainer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning", reason="lightning is not installed")

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything

from mindcoordinator.training.lightning import MindCallback


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))

    def training_step(self, batch: Any, _: int) -> Any:
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Notice(Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step + 1 == self.at:
            os.kill(os.getpid(), signal.SIGUSR1)


def train(at: int = 0) -> tuple[dict[str, Any], MindCallback]:
    seed_everything(1, verbose=False)
    model = Model()
    data = torch.utils.data.DataLoader(torch.randn(8, 4, 8).unbind(0), batch_size=None)  # type: ignore[arg-type]
    callback = MindCallback(every_n_steps=3)
    trainer = Trainer(
        max_steps=8,
        accelerator="cpu",
        callbacks=[callback, Notice(at)],
        logger=False,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data, ckpt_path=callback.resume_file())
    return {k: v.clone() for k, v in model.state_dict().items()}, callback


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_it_reports_saves_and_stops(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, callback = train()
    assert not callback.stopped
    assert [m["step"] for m in lines(mind / "metrics.jsonl") if "loss" in m] == [1, 2, 3, 4, 5, 6, 7, 8]
    events = lines(mind / "events.jsonl")
    assert [e["step"] for e in events if e["event"] == "checkpoint"] == [3, 6]
    assert {e["total_steps"] for e in events if e["event"] == "progress"} == {8}

    monkeypatch.setenv("MIND_CHECKPOINT_DIR", str(mind / "second"))
    _, callback = train(at=4)
    assert callback.stopped
    assert sorted(p.name for p in (mind / "second").iterdir()) == ["checkpoint-3", "checkpoint-4"]
    monkeypatch.setenv("MIND_RESUME_FROM", str(mind / "second" / "checkpoint-4"))
    from mindcoordinator.training import _stop

    _stop._told.clear()
    resumed, callback = train()
    assert not callback.stopped
    assert resumed.keys() == weights.keys()
    last = max(m["step"] for m in lines(mind / "metrics.jsonl"))
    assert last == 8
