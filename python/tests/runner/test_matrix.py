"""Each training type with each framework on one and two ranks, for real: the loss falls, and a resume is equal.

All cells of a framework run in one group of processes, and their second halves in another one, which has nothing of
the first but the checkpoints. The figures go to the file of MIND_MATRIX, as the table of docs/use/training.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import harness
import pytest
import torch
from harness import Case, case, same
from table import Row, record

TYPES = ("SFT", "LORA", "DPO", "RLHF", "CONTINUED_PRETRAIN", "FULL_FINETUNE")
FRAMEWORKS = ("HF_TRAINER", "FSDP", "ZeRO 1", "ZeRO 2", "ZeRO 3")
SPREAD = {
    ("HF_TRAINER", 1): "NO", ("HF_TRAINER", 2): "MULTI_CPU", ("FSDP", 1): "FSDP", ("FSDP", 2): "FSDP",
    ("ZeRO", 1): "DEEPSPEED", ("ZeRO", 2): "DEEPSPEED",
}  # fmt: skip
OPTIONS = {"LORA": {"lora_dropout": "0.2"}, "RLHF": {"learning_rate": "1e-3"}}

pytestmark = pytest.mark.long


class Column(NamedTuple):
    """All types with one framework, whole and continued from the middle."""

    framework: str
    ranks: int
    whole: dict[str, Case]
    again: dict[str, Case]
    stderr: str


def cell(tiny: Path, folder: Path, kind: str, framework: str) -> Case:
    name, _, stage = framework.partition(" ")
    one = case(tiny, folder / kind, kind, "DEEPSPEED" if name == "ZeRO" else name, **OPTIONS.get(kind, {}))
    if stage:
        one.config["training_config"]["framework"]["config"] = {"zero_stage": stage}
    return one


def shown(framework: str) -> str:
    return f"`DEEPSPEED` {framework}" if framework.startswith("ZeRO") else f"`{framework}`"


@pytest.fixture(scope="module", params=[(f, n) for f in FRAMEWORKS for n in (1, 2)], ids=lambda p: f"{p[0]}-{p[1]}")
def column(request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Column:
    framework, ranks = request.param
    if framework.startswith("ZeRO"):
        pytest.importorskip("deepspeed", reason="deepspeed is not installed: pip install 'mindcoordinator[deepspeed]'")
    folder = tmp_path_factory.mktemp(f"{framework.replace(' ', '')}-{ranks}")
    whole = {kind: cell(tiny, folder, kind, framework) for kind in TYPES}
    again = {k: c.resumed(f"{k}-resumed", c.checkpoints / "checkpoint-4") for k, c in whole.items()}
    stderr = harness.carry_out(folder, list(whole.values()), ranks, timeout=540)
    stderr += harness.carry_out(folder, list(again.values()), ranks, timeout=540)
    return Column(framework, ranks, whole, again, stderr)


@pytest.mark.parametrize("kind", TYPES)
def test_cell(column: Column, kind: str) -> None:
    whole, again = column.whole[kind], column.again[kind]
    for rank in range(column.ranks):
        assert whole.result(rank) == {"code": 0}, column.stderr
        assert again.result(rank) == {"code": 0}, column.stderr
        assert (
            whole.distributed(rank)
            == again.distributed(rank)
            == SPREAD[column.framework.partition(" ")[0], column.ranks]
        )
    figure = "reward" if kind == "RLHF" else "loss"
    figures = whole.figures(figure)
    equal = same(whole.output / "model", again.output / "model")
    record(Row(kind, column.ranks, figure, figures[0], figures[-1], equal), shown(column.framework))
    assert not same(whole.checkpoints / "checkpoint-4", whole.checkpoints / "checkpoint-8"), "nothing was learned"
    assert again.figures(figure) == figures[4:]
    assert equal
    # A reward of a model that has not learned to count is mostly chance.
    assert kind == "RLHF" or figures[-1] < figures[0]


def test_qlora(tiny: Path, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("QLORA quantizes on a CUDA GPU, and this machine has none")
    whole = case(tiny, tmp_path / "whole", "QLORA")
    whole.env["CUDA_VISIBLE_DEVICES"] = "0"
    again = whole.resumed("again", whole.checkpoints / "checkpoint-4")
    stderr = harness.carry_out(tmp_path, [whole, again])
    assert whole.result() == again.result() == {"code": 0}, stderr
    equal = same(whole.output / "model", again.output / "model")
    losses = whole.figures("loss")
    record(Row("QLORA", 1, "loss", losses[0], losses[-1], equal), shown("HF_TRAINER"))
    assert equal
    assert losses[-1] < losses[0]


def test_rlhf_earns_more(tiny: Path, tmp_path: Path) -> None:
    reward = tmp_path / "letters.py"
    reward.write_text("def letters(completions, **columns):\n    return [c.count('e') / 8 for c in completions]\n")
    options = {
        "max_steps": "60",
        "lr_scheduler_type": "constant",
        "num_generations": "16",
        "reward_function": f"{reward}:letters",
    }
    one = case(tiny, tmp_path / "earns", "RLHF", **options)
    one.config["data_config"]["batch_size"] = 32
    one.config["output_config"] = {"export": "none"}
    stderr = harness.carry_out(tmp_path, [one])
    assert one.result() == {"code": 0}, stderr
    rewards = one.figures("reward")
    first, last = sum(rewards[:10]) / 10, sum(rewards[-10:]) / 10
    print(f"the reward went from {first:.3f} to {last:.3f}, as means of ten steps")
    assert last > 4 * first
