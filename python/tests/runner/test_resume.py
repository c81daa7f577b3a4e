"""A training that is interrupted and continued ends with the same weights, bit by bit, as one that is not."""

from __future__ import annotations

import hashlib
import shutil
import types
from pathlib import Path

import harness
import pytest
from harness import case, same


@pytest.fixture(scope="module")
def single(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[harness.Case], list[harness.Case]]:
    """SFT, LORA and DPO on one rank, each whole and from the middle."""
    folder = tmp_path_factory.mktemp("single")
    # Dropout takes random numbers at each step, and the accumulation takes several batches.
    whole = [
        case(tiny, folder / "SFT", "SFT", gradient_accumulation_steps="2"),
        case(tiny, folder / "LORA", "LORA", lora_dropout="0.2"),
        case(tiny, folder / "DPO", "DPO"),
    ]
    again = [c.resumed(f"{c.folder.name}-resumed", c.checkpoints / "checkpoint-4") for c in whole]
    harness.carry_out(folder, [*whole, *again])
    return whole, again


@pytest.mark.parametrize("number", range(3), ids=["SFT", "LORA", "DPO"])
def test_single(single: tuple[list[harness.Case], list[harness.Case]], number: int) -> None:
    whole, again = single[0][number], single[1][number]
    assert whole.result() == again.result() == {"code": 0}
    assert same(whole.checkpoints / "checkpoint-8", again.checkpoints / "checkpoint-8")
    assert same(whole.output / "model", again.output / "model")
    assert whole.losses()[4:] == again.losses()
    assert not same(whole.checkpoints / "checkpoint-4", whole.checkpoints / "checkpoint-8"), "nothing was learned"


def test_the_history_of_before_goes_on(single: tuple[list[harness.Case], list[harness.Case]]) -> None:
    # The node that had it may be gone.
    whole, again = single[0][0], single[1][0]
    lines = [line for line in again.lines("metrics") if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert [line["loss"] for line in lines] == whole.losses()
    assert [line.get("origin") for line in lines] == ["checkpoint"] * 4 + [None] * 4
    card = (again.output / "model" / "README.md").read_text()
    assert f"| training loss | {whole.losses()[0]:.4f} | {whole.losses()[-1]:.4f} |" in card


def test_checkpoints_are_reported(single: tuple[list[harness.Case], list[harness.Case]]) -> None:
    whole = single[0][0]
    events = [e for e in whole.lines("events") if e["event"] == "checkpoint"]
    assert [e["step"] for e in events] == [4, 8, 8]
    assert events[-1]["kind"] == "model"
    assert all(e["metrics"]["loss"] > 0 for e in events)
    assert sorted(p.name for p in whole.checkpoints.iterdir()) == ["checkpoint-4", "checkpoint-8"]
    assert any("checkpoint_blocking_seconds" in line for line in whole.lines("metrics"))


def test_the_model_card_says_how_it_was_made(single: tuple[list[harness.Case], list[harness.Case]]) -> None:
    card = (single[0][1].output / "model" / "README.md").read_text()
    assert "LORA of" in card
    assert "| trl |" in card
    assert '"training_type": "LORA"' in card
    assert "Job: `job`" in card
    source = Path(single[0][1].config["data_config"]["sources"][0]["path"])
    line = f"{len(source.name)}:{source.name} {hashlib.sha256(source.read_bytes()).hexdigest()}\n"
    assert f"| `{source}` | {hashlib.sha256(line.encode()).hexdigest()} |" in card
    # The adapter was merged: the model loads without peft.
    assert not (single[0][1].output / "model" / "adapter_config.json").exists()


@pytest.fixture(scope="module")
def double(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, harness.Case]:
    """FSDP on two ranks, whole and from the middle."""
    folder = tmp_path_factory.mktemp("double")
    together = case(tiny, folder / "together", "SFT", "FSDP")
    more = together.resumed("more", together.checkpoints / "checkpoint-4")
    harness.carry_out(folder, [together, more], 2)
    return {"together": together, "more": more}


def test_fsdp(double: dict[str, harness.Case]) -> None:
    whole, again = double["together"], double["more"]
    assert whole.result(0) == whole.result(1) == again.result(0) == again.result(1) == {"code": 0}
    assert same(whole.checkpoints / "checkpoint-8", again.checkpoints / "checkpoint-8")
    assert same(whole.output / "model", again.output / "model")


@pytest.mark.long
def test_nodes_that_share_nothing(double: dict[str, harness.Case], tiny: Path, tmp_path: Path) -> None:
    nodes = []
    for n in range(2):
        node = tmp_path / f"node{n}"
        (node / "checkpoints").mkdir(parents=True)
        nodes.append(
            {
                "MIND_OUTPUT_DIR": f"{node}/output",
                "MIND_CHECKPOINT_DIR": f"{node}/checkpoints",
                "MIND_METRICS_FILE": f"{node}/metrics",
            }
        )
    apart = case(tiny, tmp_path / "apart", "SFT", "FSDP")
    harness.carry_out(tmp_path, [apart], 2, nodes=nodes)
    assert apart.result(0) == apart.result(1) == {"code": 0}
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "node0" / "checkpoints", kept)
    assert {p.name for p in (kept / "checkpoint-4").glob("rng*")} == {"rng_state_0.pth", "rng_state_1.pth"}
    assert same(kept / "checkpoint-8", double["together"].checkpoints / "checkpoint-8")
    assert list((tmp_path / "node1" / "checkpoints").iterdir()) == [], "the other node keeps no half of a checkpoint"

    # Now only node 1 has the checkpoint, and it is rank 1.
    shutil.rmtree(tmp_path / "node0" / "checkpoints")
    nodes[1]["MIND_RESUME_FROM"] = str(kept / "checkpoint-4")
    found = case(tiny, tmp_path / "found", "SFT", "FSDP")
    harness.carry_out(tmp_path, [found], 2, nodes=nodes)
    assert found.result(0) == found.result(1) == {"code": 0}
    assert same(tmp_path / "node0" / "checkpoints" / "checkpoint-8", kept / "checkpoint-8")
    assert not (tmp_path / "node0" / "output" / "resume-4").exists(), "the copy is removed when it was read"


@pytest.mark.parametrize(
    ("samples", "ranks", "size", "accumulation"),
    [(8, 1, 4, 2), (4, 2, 2, 1), (12, 3, 4, 1), (16, 8, 2, 1), (9, 2, 4, 5)],
    ids=["fewer", "more", "as many samples", "many more", "cannot be shared"],
)
def test_another_number_of_ranks(samples: int, ranks: int, size: int, accumulation: int) -> None:
    from mind_runner import resume

    args = types.SimpleNamespace(per_device_train_batch_size=4, gradient_accumulation_steps=5)
    resume.same_batch(args, ranks, {"world_size": 99, "samples_per_step": samples, "framework": "FSDP"})
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (size, accumulation)


def test_deepspeed_needs_the_same_number_of_ranks() -> None:
    from mind_runner import errors, resume

    args = types.SimpleNamespace(per_device_train_batch_size=4, gradient_accumulation_steps=1)
    facts = {"world_size": 2, "samples_per_step": 8, "framework": "DEEPSPEED"}
    resume.same_batch(args, 2, facts)
    with pytest.raises(errors.Failure, match="gpu_count to 2") as failure:
        resume.same_batch(args, 4, facts)
    assert failure.value.error_type == "CONFIG"
