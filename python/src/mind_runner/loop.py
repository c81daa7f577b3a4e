"""What the runner changes in the loop of every trainer: saving, counting, and ending when the loss is no number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mind_runner.checkpoints import Checkpoints
from mind_runner.errors import DIVERGED, Failure
from mind_runner.reports import Reports
from mindcoordinator import training


@dataclass
class Run:
    """What the mixin of a trainer needs, set before the trainer is made."""

    checkpoints: Checkpoints
    reports: Reports


def mixin(run: Run) -> type:
    """Makes the class that goes before that of the trainer."""

    class Loop:
        def train(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().train(*args, **kwargs)  # type: ignore[misc]
            except BaseException:
                # What is being written becomes a checkpoint before the process ends.
                run.checkpoints.settle()
                raise

        def _get_output_dir(self: Any, trial: Any) -> str:
            # Asked for while saving: the directory in which checkpoint-N is made.
            return str(run.checkpoints.parent(self.state.global_step))

        def _save_checkpoint(self: Any, model: Any, trial: Any) -> None:
            step = self.state.global_step
            if run.checkpoints.saved != step:
                save = super()._save_checkpoint  # type: ignore[misc]
                run.checkpoints.save(step, lambda: save(model, trial), run.reports.latest)
            run.reports.resume_clock()

        def save_model(self: Any, output_dir: str | None = None, _internal_call: bool = False) -> None:
            staging = run.checkpoints.staging
            if output_dir and _internal_call and staging is not None and staging.weights(self, Path(output_dir)):
                return
            super().save_model(output_dir, _internal_call)  # type: ignore[misc]

        def _save_optimizer_and_scheduler(self: Any, output_dir: str) -> None:
            staging = run.checkpoints.staging
            if staging is None or not staging.optimizer(self, Path(output_dir)):
                super()._save_optimizer_and_scheduler(output_dir)  # type: ignore[misc]

        def create_model_card(self: Any, *args: Any, **kwargs: Any) -> None:
            # The card is made at the end, by the export; trl makes one at each checkpoint.
            return

        def _run_epoch(self: Any, **kwargs: Any) -> None:
            # A checkpoint of the last step: what is left is the export.
            if self.state.global_step >= self.state.max_steps:
                self.control.should_training_stop = True
                return
            super()._run_epoch(**kwargs)  # type: ignore[misc]

        def training_step(self: Any, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            run.reports.count(inputs)
            loss = super().training_step(model, inputs, num_items_in_batch)  # type: ignore[misc]
            if not torch.isfinite(loss):
                raise _diverged("loss", float(loss), self)
            return loss

        def _maybe_log_save_evaluate(self: Any, tr_loss: Any, grad_norm: Any, *args: Any, **kwargs: Any) -> Any:
            run.checkpoints.check()
            # A gradient that is no number has spoilt the weights: they must not become a checkpoint. With fp16 the
            # scaler has left such a step out.
            if grad_norm is not None and (self.control.should_save or self.control.should_log) and not self.args.fp16:
                norm = float(grad_norm)
                if not math.isfinite(norm):
                    raise _diverged("gradient norm", norm, self)
            return super()._maybe_log_save_evaluate(tr_loss, grad_norm, *args, **kwargs)  # type: ignore[misc]

        def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
            lead = run.reports.group.rank == 0
            if lead:
                training.phase("EVALUATING")
            result = super().evaluate(*args, **kwargs)  # type: ignore[misc]
            if lead:
                training.phase("TRAINING")
            run.reports.resume_clock()
            return result

    return Loop


def _diverged(what: str, value: float, trainer: Any) -> Failure:
    return Failure(
        DIVERGED,
        f"the {what} is {value} at step {trainer.state.global_step + 1}: "
        f"lower learning_rate (it is {trainer.args.learning_rate:g}), "
        "add warmup_steps, or look at the rows of this step; the last checkpoint is from before",
    )
