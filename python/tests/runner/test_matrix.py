"""Each training type with each framework, for real, on two ranks: the loss falls, and a resume is equal bit by bit.

The figures go to the file of MIND_MATRIX, as the table of docs/use/training.md.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import harness
import pytest
import torch
from harness import case, same

TYPES = ("SFT", "LORA", "QLORA", "DPO", "RLHF", "CONTINUED_PRETRAIN", "FULL_FINETUNE")
FRAMEWORKS = ("HF_TRAINER", "FSDP", "DEEPSPEED")


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", TYPES)
def test_cell(tiny: Path, tmp_path: Path, kind: str, framework: str) -> None:
    if framework == "DEEPSPEED":
        pytest.importorskip("deepspeed", reason="deepspeed is not installed: pip install 'mindcoordinator[deepspeed]'")
    if kind == "QLORA" and not torch.cuda.is_available():
        pytest.skip("QLORA quantizes on a CUDA GPU, and this machine has none")
    ranks = 1 if kind == "QLORA" else 2
    options = {"max_steps": "8"} if kind != "RLHF" else {"max_steps": "8", "learning_rate": "1e-3"}
    whole = case(tiny, tmp_path / "whole", kind, framework, **options)
    if kind == "QLORA":
        whole.env["CUDA_VISIBLE_DEVICES"] = "0"
    again = whole.resumed("again", whole.checkpoints / "checkpoint-4")
    began = time.monotonic()
    stderr = harness.carry_out(tmp_path, [whole], ranks)
    seconds = time.monotonic() - began
    assert whole.result(0) == whole.result(ranks - 1) == {"code": 0}, stderr
    stderr = harness.carry_out(tmp_path, [again], ranks)
    assert again.result(0) == again.result(ranks - 1) == {"code": 0}, stderr
    losses = whole.losses()
    equal = same(whole.output / "model", again.output / "model")
    table = os.environ.get("MIND_MATRIX")
    if table:
        with Path(table).open("a") as file:
            file.write(
                f"| {kind} | {framework} | {losses[0]:.3f} | {losses[-1]:.3f} | {seconds:.0f} | {'yes' if equal else 'no'} |\n"
            )
    assert equal
    # The loss of GRPO is near zero by its definition.
    assert kind == "RLHF" or losses[-1] < losses[0]
    assert not same(whole.checkpoints / "checkpoint-4", whole.checkpoints / "checkpoint-8")
