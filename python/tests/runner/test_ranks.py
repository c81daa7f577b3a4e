"""A training that continues with another number of ranks sees the same samples in the same order."""

from __future__ import annotations

import json
from pathlib import Path

import harness
import pytest
from harness import Case, case

pytestmark = pytest.mark.long

FRAMEWORKS = ("HF_TRAINER", "FSDP")
# More than an epoch of 64 rows, for two ranks with batches of 4.
STEPS = 12
SAVED = 4


def start(tiny: Path, folder: Path, framework: str) -> Case:
    one = case(tiny, folder, "SFT", framework, max_steps=str(STEPS))
    # The random states of dropout are those of a rank: without it, only the order of sums is another one.
    one.config["training_config"]["base_model"]["model_kwargs"] = {"attention_dropout": "0"}
    one.env["SAMPLES"] = str(folder / "samples")
    return one


def steps(one: Case, ranks: int) -> list[list[str]]:
    """The samples of each step, in the order of the data: ranks take turns."""
    batches = [
        [json.loads(line) for line in (one.folder / f"samples.{r}").read_text().splitlines()] for r in range(ranks)
    ]
    turns = [sample for turn in zip(*batches, strict=True) for batch in turn for sample in batch]
    size = json.loads((one.checkpoints / f"checkpoint-{STEPS}" / "mind.json").read_text())["samples_per_step"]
    return [turns[i : i + size] for i in range(0, len(turns), size)]


@pytest.fixture(scope="module")
def changed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[Case, Case]]:
    """Trainings by framework and the number of ranks that they began with: whole, and continued with the other number."""
    folder = tmp_path_factory.mktemp("ranks")
    both = {(f, n): start(tiny, folder / f"{f}-{n}", f) for f in FRAMEWORKS for n in (1, 2)}
    again = {}
    for key, whole in both.items():
        again[key] = whole.resumed(f"{whole.folder.name}-continued", whole.checkpoints / f"checkpoint-{SAVED}")
        again[key].env["SAMPLES"] = str(again[key].folder / "samples")
    wide = [both[f, 2] for f in FRAMEWORKS]
    narrow = [both[f, 1] for f in FRAMEWORKS]
    stderr = harness.carry_out(folder, wide, 2)
    stderr += harness.carry_out(folder, narrow + [again[f, 2] for f in FRAMEWORKS])
    stderr += harness.carry_out(folder, [again[f, 1] for f in FRAMEWORKS], 2)
    for one in (*both.values(), *again.values()):
        assert one.result() == {"code": 0}, stderr
    return {key: (both[key], again[key]) for key in both}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)], ids=["2-to-1", "1-to-2"])
def test_same_samples(
    changed: dict[tuple[str, int], tuple[Case, Case]], framework: str, before: int, after: int
) -> None:
    whole, again = changed[framework, before]
    seen = steps(whole, before)
    assert len(seen) == STEPS
    assert len({len(step) for step in seen}) == 1
    assert steps(again, after) == seen[SAVED:]
    difference = max(abs(a - b) for a, b in zip(again.losses(), whole.losses()[SAVED:], strict=True))
    print(f"{framework}, {before} to {after} ranks: the losses differ by at most {difference:.1e}")
    assert again.losses() == pytest.approx(whole.losses()[SAVED:], abs=1e-4)


def test_zero_needs_the_same_number(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("deepspeed", reason="deepspeed is not installed: pip install 'mindcoordinator[deepspeed]'")
    whole = case(tiny, tmp_path / "whole", "SFT", "DEEPSPEED", max_steps="1")
    whole.config["output_config"] = {"checkpoint_interval_steps": 1, "export": "none"}
    stderr = harness.carry_out(tmp_path, [whole], 2)
    assert whole.result() == {"code": 0}, stderr
    again = whole.resumed("again", whole.checkpoints / "checkpoint-1", max_steps="2")
    harness.carry_out(tmp_path, [again])
    result = again.result()
    assert result["type"] == "CONFIG"
    assert "of 2 ranks" in result["message"]
    assert "gpu_count" in result["message"]
