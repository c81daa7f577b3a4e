"""A callback for the trainers of transformers, trl and what else is built on ``transformers.Trainer``.

callback = MindCallback()
trainer = Trainer(
    model=model,
    args=TrainingArguments(output_dir=training.checkpoint_dir(), save_steps=100, logging_steps=10),
    train_dataset=data,
    callbacks=[callback],
)
trainer.train(resume_from_checkpoint=training.resume_path())
if callback.stopped:
    sys.exit(training.STOPPED)
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from mindcoordinator import training

from ._directories import lasting
from ._group import leave_at_exit


class MindCallback(TrainerCallback):
    """Reports what the trainer logs, registers its checkpoints, and stops when Mind asks.

    When any rank is told to stop, all ranks stop after the same step, with a checkpoint; ``stopped`` is then true. The
    ranks agree after every ``agree_every`` steps, by one number over their process group.
    """

    def __init__(self, agree_every: int = 1) -> None:
        self.stopped = False
        self._agree_every = max(1, agree_every)
        self._evaluating = False
        self._saving_since = 0.0
        self._kept: dict[str, Path] = {}  # second names of checkpoints in the copy of an upload

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say that the training begins, and listen for the notice from now on."""
        training.should_stop()
        if state.is_world_process_zero:
            training.phase("TRAINING")
            training.progress(state.global_step, state.max_steps)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """See to it that the process ends with the exit code that it is given."""
        leave_at_exit()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Report what the trainer logs."""
        if state.is_world_process_zero and logs:
            figures = {name: value for name, value in logs.items() if name not in ("step", "total_steps")}
            training.report(state.global_step, total_steps=state.max_steps, **figures)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Report the progress, and stop when any rank was told to."""
        if not self.stopped and state.global_step % self._agree_every == 0 and _any_rank(training.should_stop(), args):
            self.stopped = True
            control.should_save = True
            control.should_training_stop = True
        if state.is_world_process_zero:
            training.progress(state.global_step, state.max_steps)
        self._before_saving(state, control)
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say that a checkpoint is about to be saved, where the trainer saves once an epoch."""
        self._before_saving(state, control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say that it evaluates."""
        if state.is_world_process_zero and not self._evaluating:
            self._evaluating = True
            training.phase("EVALUATING")

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say that it trains on, or saves."""
        self._evaluating = False
        if state.is_world_process_zero:
            training.phase("TRAINING")
        self._before_saving(state, control)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Register the checkpoint when every rank has written its part of it."""
        _wait_for_ranks(args)
        if not state.is_world_process_zero:
            return
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if os.path.isdir(path):
            kept = lasting(path, state.global_step)
            training.checkpoint(kept, state.global_step, _figures(state.log_history))
            self._rotate(path, kept)
            if self._saving_since:
                took = time.monotonic() - self._saving_since
                training.report(state.global_step, total_steps=state.max_steps, checkpoint_seconds=round(took, 6))
        self._saving_since = 0.0
        training.phase("TRAINING")

    def _rotate(self, path: str, kept: Path) -> None:
        """Remove second names of checkpoints that the trainer has removed (``save_total_limit``)."""
        for old in [p for p in self._kept if not os.path.isdir(p)]:
            shutil.rmtree(self._kept.pop(old), ignore_errors=True)
        if Path(path) != kept:
            self._kept[path] = kept

    def _before_saving(self, state: Any, control: Any) -> None:
        if control.should_save and state.is_world_process_zero:
            self._saving_since = time.monotonic()
            training.phase("CHECKPOINTING")


def _figures(history: list[dict[str, Any]]) -> dict[str, float]:
    """Take the newest figure of each name, for the checkpoint."""
    newest: dict[str, float] = {}
    for logs in history[-20:]:
        newest.update({name: value for name, value in logs.items() if isinstance(value, int | float)})
    newest.pop("step", None)
    return newest


def _any_rank(told: bool, args: Any) -> bool:
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return told
    flag = torch.tensor([int(told)], device=args.device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def _wait_for_ranks(args: Any) -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()
