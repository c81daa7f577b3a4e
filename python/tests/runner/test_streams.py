"""Data that is streamed: a resume continues at the same row, and rows that cannot be used are named."""

from __future__ import annotations

import json
from pathlib import Path

import harness
import pytest
from harness import Case, case, same


def streamed(tiny: Path, folder: Path, kind: str, **hyperparameters: str) -> Case:
    one = case(tiny, folder, kind, streaming="true", **hyperparameters)
    one.env["SAMPLES"] = str(folder / "samples")
    return one


def samples(one: Case, rank: int = 0) -> list[list[list[int]]]:
    return [json.loads(line) for line in (one.folder / f"samples.{rank}").read_text().splitlines()]


def resumed(whole: Case) -> Case:
    again = whole.resumed(f"{whole.folder.name}-resumed", whole.checkpoints / "checkpoint-4")
    again.env["SAMPLES"] = str(again.folder / "samples")
    return again


@pytest.fixture(scope="module")
def single(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("single")
    # 8 steps of 12 samples are more than the 64 rows.
    whole = {
        "SFT": streamed(tiny, folder / "SFT", "SFT", gradient_accumulation_steps="3"),
        "CONTINUED_PRETRAIN": streamed(tiny, folder / "PRETRAIN", "CONTINUED_PRETRAIN"),
    }
    whole["SFT"].config["data_config"]["sources"][0]["sampling"] = {"shuffle": True}
    loaded = case(tiny, folder / "loaded", "SFT", gradient_accumulation_steps="3", train_sampling_strategy="sequential")
    loaded.env["SAMPLES"] = str(folder / "loaded" / "samples")
    ordered = streamed(tiny, folder / "ordered", "SFT", gradient_accumulation_steps="3")
    both = {**whole, "loaded": loaded, "ordered": ordered, **{f"{k}-resumed": resumed(c) for k, c in whole.items()}}
    stderr = harness.carry_out(folder, list(both.values()))
    for one in both.values():
        assert one.result() == {"code": 0}, stderr
    return both


@pytest.mark.parametrize("kind", ["SFT", "CONTINUED_PRETRAIN"])
def test_a_resume_is_equal(single: dict[str, Case], kind: str) -> None:
    whole, again = single[kind], single[f"{kind}-resumed"]
    seen = samples(whole)
    assert samples(again) == seen[len(seen) // 2 :]
    assert again.losses() == whole.losses()[4:]
    assert same(whole.output / "model", again.output / "model")


def test_the_rows_are_those_of_the_file(single: dict[str, Case]) -> None:
    # The first pass alone: 5 steps of 12 rows.
    assert samples(single["ordered"])[:15] == samples(single["loaded"])[:15]
    assert single["ordered"].losses()[:5] == single["loaded"].losses()[:5]


def test_shuffled(single: dict[str, Case]) -> None:
    assert samples(single["SFT"])[:3] != samples(single["ordered"])[:3]


@pytest.mark.long
@pytest.mark.parametrize("files", [1, 2])
def test_two_ranks(tiny: Path, tmp_path: Path, files: int) -> None:
    lines = (tiny / "chat.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "data").mkdir()
    for n in range(files):
        (tmp_path / "data" / f"{n}.jsonl").write_text("".join(lines[n::files]))
    whole = streamed(tiny, tmp_path / "whole", "SFT")
    whole.config["data_config"]["sources"][0]["path"] = str(tmp_path / "data")
    again = resumed(whole)
    stderr = harness.carry_out(tmp_path, [whole, again], 2)
    assert whole.result(0) == whole.result(1) == again.result(0) == again.result(1) == {"code": 0}, stderr
    for rank in range(2):
        assert samples(again, rank) == samples(whole, rank)[4:]
    assert not any(row in samples(whole, 1)[0] for row in samples(whole, 0)[0]), "each rank has rows of its own"
    assert same(whole.output / "model", again.output / "model")


@pytest.fixture(scope="module")
def failed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("failed")
    lines = (tiny / "text.jsonl").read_text().splitlines()
    broken = folder / "broken.jsonl"
    # Past what is read to know the columns, which is 10 MB.
    many = [json.dumps({"text": "to " * 333})] * 11000
    broken.write_text("\n".join([*lines[:8], *many, "{not json"]))
    missing = folder / "missing.jsonl"
    missing.write_text("\n".join([*lines[:20], json.dumps({"text": None}), *lines[20:]]))
    cases = {
        "broken": streamed(tiny, folder / "broken", "SFT", max_steps="100"),
        "missing": streamed(tiny, folder / "missing", "SFT"),
        "endless": streamed(tiny, folder / "endless", "SFT", max_steps="-1"),
        "split": streamed(tiny, folder / "split", "SFT"),
    }
    cases["broken"].config["output_config"] = {"export": "none"}
    cases["broken"].config["data_config"] |= {
        "sources": [{"path": str(broken)}],
        "max_seq_length": 4,
        "batch_size": 512,
    }
    cases["missing"].config["data_config"]["sources"] = [{"path": str(missing)}]
    cases["split"].config["data_config"]["validation_split"] = 0.1
    harness.carry_out(folder, list(cases.values()))
    return {name: one.result() for name, one in cases.items()}


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("broken", "DATA_FORMAT", "broken.jsonl, line 11009: not JSON"),
        ("missing", "DATA_FORMAT", "missing.jsonl, row 21: text is missing"),
        ("endless", "CONFIG", "needs the hyperparameter max_steps"),
        ("split", "CONFIG", "validation_split cannot be taken from a stream"),
    ],
)
def test_errors(failed: dict[str, dict[str, str]], name: str, kind: str, says: str) -> None:
    assert failed[name]["type"] == kind
    assert says in failed[name]["message"]
