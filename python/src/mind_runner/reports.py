"""What a training reports: loss, speed, memory, progress; and the agreement of all ranks to stop."""

from __future__ import annotations

import time
from typing import Any

import torch
import transformers

from mind_runner.group import Group
from mindcoordinator import training

# Peak of dense bfloat16, in FLOP per second, by a part of the GPU's name; the first that is found counts.
_PEAKS = (
    ("B200", 2250e12), ("H200", 989e12), ("H100 PCIe", 756e12), ("H100", 989e12), ("H800", 989e12), ("A100", 312e12),
    ("A800", 312e12), ("L40S", 362e12), ("L40", 181e12), ("A40", 150e12), ("A10", 125e12), ("RTX 4090", 165e12),
)  # fmt: skip
# Beyond, only the fastest and the slowest rank are named.
_MOST_RANKS = 64


class Reports(transformers.TrainerCallback):
    """Called by the trainer of every rank; rank 0 writes."""

    def __init__(self, group: Group, flops_per_token: float) -> None:
        self.group = group
        self.flops_per_token = flops_per_token
        self.stopped = False
        self.latest: dict[str, Any] = {}
        self.first_loss: float | None = None
        self.last_loss: float | None = None
        # Seconds that reporting itself took.
        self.spent = 0.0
        self._tokens: Any = 0
        self._samples = 0
        self._steps = 0
        self._seconds = 0.0
        self._mark = 0.0
        self._said = 0.0
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        self._peak = next((peak for part, peak in _PEAKS if part in name), None)

    def count(self, inputs: Any) -> None:
        """Counts what a step is made of. Tokens are summed on the device: asking for the sum would wait for it."""
        if not isinstance(inputs, dict):
            self._samples += len(inputs)
            return
        ids = inputs.get("input_ids")
        if ids is None:
            ids = next((v for v in inputs.values() if isinstance(v, torch.Tensor) and v.dim() > 0), None)
        if ids is None:
            return
        self._samples += ids.shape[0]
        mask = inputs.get("attention_mask")
        self._tokens = self._tokens + (mask.sum() if mask is not None else ids.numel())

    def resume_clock(self) -> None:
        """Keeps what was no step (a checkpoint, an evaluation) out of the time of the next one."""
        self._mark = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Says that the training begins, and where."""
        if self.group.rank == 0:
            training.phase("TRAINING")
            training.progress(state.global_step, state.max_steps)
        self._tell_again(state)
        self.resume_clock()

    def _tell_again(self, state: Any) -> None:
        """Reports the figures of the steps before a resume: those of a node that is gone are gone with it.

        The checkpoint has them. Their lines say where they come from.
        """
        for entry in state.log_history if state.global_step else ():
            figures: dict[str, Any] = {
                k: v for k, v in entry.items() if isinstance(v, int | float) and k not in ("step", "total_flos")
            }
            if not figures or entry.get("step", 0) > state.global_step:
                continue
            if "loss" in figures and self.first_loss is None:
                self.first_loss = figures["loss"]
            if self.group.rank == 0:
                training.report(entry["step"], **figures, origin="checkpoint")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Takes the time of the step, and asks all ranks whether any was told to stop."""
        now = time.perf_counter()
        self._seconds += now - self._mark
        self._steps += 1
        last = state.global_step >= state.max_steps
        if self.group.any(training.should_stop()) and not last:
            self.stopped = True
            control.should_save = True
            control.should_training_stop = True
        if self.group.rank == 0 and (last or self.stopped or now - self._said >= 1):
            self._said = now
            training.progress(state.global_step, state.max_steps)
        self._mark = time.perf_counter()
        self.spent += self._mark - now

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Reports the figures of the trainer, and the speed."""
        began = time.perf_counter()
        figures: dict[str, Any] = {
            k: v for k, v in (logs or {}).items() if isinstance(v, int | float) and k != "total_flos"
        }
        if "loss" in figures:
            self.first_loss = figures["loss"] if self.first_loss is None else self.first_loss
            self.last_loss = figures["loss"]
            figures |= self._speed()
        self.latest |= {k: v for k, v in figures.items() if k == "loss" or k.startswith("eval_") or k == "reward"}
        if self.group.rank == 0 and figures:
            training.report(state.global_step, **figures)
        self.spent += time.perf_counter() - began

    def _speed(self) -> dict[str, Any]:
        """Speed since the last time, of all ranks together."""
        memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        mine = (self._seconds / max(self._steps, 1), int(self._tokens), self._samples, memory)
        seconds = self._seconds
        self._tokens, self._samples, self._steps, self._seconds = 0, 0, 0, 0.0
        every = self.group.gather(mine)
        if seconds <= 0:
            return {}
        times = [m[0] for m in every]
        tokens = sum(m[1] for m in every)
        figures = {
            "step_seconds": round(max(times), 6),
            "samples_per_second": round(sum(m[2] for m in every) / seconds, 4),
        }
        if tokens:
            figures["tokens_per_second"] = round(tokens / seconds, 2)
        if memory:
            figures["gpu_memory_bytes"] = max(m[3] for m in every)
        if tokens and self._peak and self.flops_per_token:
            figures["mfu"] = round(tokens * self.flops_per_token / seconds / self._peak / len(every), 4)
        if len(every) > 1:
            figures |= {"step_seconds_min": round(min(times), 6), "slowest_rank": times.index(max(times))}
            if len(every) <= _MOST_RANKS:
                figures |= {f"step_seconds_rank_{rank}": round(t, 6) for rank, t in enumerate(times)}
        return figures


def flops_per_token(model: Any, frozen: bool) -> float:
    """6 for each weight outside of the embeddings: 2 forward, 2 for the gradient of inputs, 2 for that of weights."""
    return (4.0 if frozen else 6.0) * float(model.num_parameters(exclude_embeddings=True))
