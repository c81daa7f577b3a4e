"""A training of a tiny model with transformers.Trainer; it ends as it was told to: `train_hf.py STEPS [STOP_AT] [RANK]`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from mindcoordinator import training
from mindcoordinator.training.huggingface import MindCallback


class Notice(TrainerCallback):
    """Sends this process the notice during a step."""

    def __init__(self, at: int, rank: int) -> None:
        self.at, self.rank = at, rank

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step + 1 == self.at and int(os.environ.get("RANK", "0")) == self.rank:
            os.kill(os.getpid(), signal.SIGUSR1)


def train(steps: int, stop_at: int = 0, rank: int = 0) -> tuple[dict[str, torch.Tensor], bool]:
    """Train, and return the weights and whether it was told to stop."""
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    generator = torch.Generator().manual_seed(2)
    rows = [{"input_ids": r, "labels": r} for r in torch.randint(0, 64, (64, 16), generator=generator)]
    arguments = TrainingArguments(
        output_dir=training.checkpoint_dir(),
        max_steps=steps,
        per_device_train_batch_size=4,
        logging_steps=1,
        save_steps=3,
        eval_strategy="steps",
        eval_steps=3,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        seed=1,
    )
    callback = MindCallback()
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows[:8],
        callbacks=[callback, Notice(stop_at, rank)],
    )
    trainer.train(resume_from_checkpoint=training.resume_path())
    return {name: weights.clone() for name, weights in model.state_dict().items()}, callback.stopped


if __name__ == "__main__":
    # What is registered first runs last.
    atexit.register(lambda: print("the group stands" if dist.is_initialized() else "the group is left"))
    _, stopped = train(*map(int, sys.argv[1:]))
    sys.exit(training.STOPPED if stopped else 0)
