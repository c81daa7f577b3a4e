"""A callback for Lightning.

callback = MindCallback(every_n_steps=100)
trainer = Trainer(max_steps=1000, callbacks=[callback], enable_checkpointing=False)
trainer.fit(model, data, ckpt_path=callback.resume_file())
if callback.stopped:
    sys.exit(training.STOPPED)
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback

from mindcoordinator import training

from ._directories import publish, staging
from ._group import leave_at_exit

_FILE = "lightning.ckpt"


class MindCallback(Callback):
    """Reports what the module logs, saves and registers checkpoints, and stops when Mind asks.

    It saves after every ``every_n_steps`` steps (0: only at a stop). When any rank is told to stop, all ranks stop
    after the same step, with a checkpoint; ``stopped`` is then true.
    """

    def __init__(self, every_n_steps: int = 0) -> None:
        self.stopped = False
        self._every = every_n_steps
        self._step = -1

    @staticmethod
    def resume_file() -> str | None:
        """Return the file to continue from, for ``ckpt_path``; None: begin at the beginning."""
        path = training.resume_path()
        return os.path.join(path, _FILE) if path else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Say that the training begins, and listen for the notice from now on."""
        training.should_stop()
        self._step = trainer.global_step
        if trainer.is_global_zero:
            training.phase("TRAINING")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Report the step, save when it is time, and stop when any rank was told to."""
        step = trainer.global_step
        if step == self._step:  # gradients are accumulated: no step was made
            return
        self._step = step
        total = _total(trainer)
        if trainer.is_global_zero:
            training.progress(step, total)
            if step % trainer.log_every_n_steps == 0:
                training.report(step, total_steps=total, **figures(trainer))
        stop = trainer.strategy.reduce_boolean_decision(training.should_stop(), all=False)
        if stop or (self._every > 0 and step % self._every == 0):
            self._save(trainer, step)
        if stop:
            self.stopped = True
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """See to it that the process ends with the exit code that it is given."""
        leave_at_exit()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Say that it evaluates."""
        if trainer.is_global_zero:
            training.phase("EVALUATING")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Report the figures of the validation."""
        if trainer.is_global_zero:
            training.report(trainer.global_step, total_steps=_total(trainer), **figures(trainer))
            training.phase("TRAINING")

    def _save(self, trainer: Any, step: int) -> None:
        began = time.monotonic()
        final = Path(training.checkpoint_dir()) / f"checkpoint-{step}"
        path = final.parent / f"tmp-{final.name}"
        if trainer.is_global_zero:
            training.phase("CHECKPOINTING")
            staging(final)
        trainer.strategy.barrier()
        trainer.save_checkpoint(path / _FILE)  # of all ranks: some strategies write a shard each
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            publish(path, final)
            training.checkpoint(final, step, figures(trainer))
            training.report(step, checkpoint_seconds=round(time.monotonic() - began, 6))
            training.phase("TRAINING")


def _total(trainer: Any) -> int | None:
    total = trainer.estimated_stepping_batches
    return int(total) if 0 < total < float("inf") else None


def figures(trainer: Any) -> dict[str, float]:
    """Take the figures that the module has logged."""
    return {
        name: float(value) for name, value in trainer.callback_metrics.items() if name not in ("step", "total_steps")
    }
