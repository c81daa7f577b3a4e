"""A script as people publish it: it knows nothing of Mind. `plain_hf.py STEPS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class Slow(TrainerCallback):
    """Keeps the training from its end until it may come there."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not Path("go").exists():
            time.sleep(0.3)


set_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
rows = [{"input_ids": r, "labels": r} for r in torch.randint(0, 64, (64, 16))]
arguments = TrainingArguments(
    output_dir="out",
    max_steps=int(sys.argv[1]),
    per_device_train_batch_size=4,
    logging_steps=1,
    save_steps=20,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Slow()])
trainer.train()
trainer.save_model("final")
Path("seen.txt").write_text(" ".join(str(h["step"]) for h in trainer.state.log_history if "loss" in h))
