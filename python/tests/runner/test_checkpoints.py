"""Checkpoints that are written while the training goes on: the same files, whole or not there, and failures are said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import case, same

from lifetime import ends_with_this

SHARDED = {"state_dict_type": "SHARDED_STATE_DICT"}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_files_are_those_of_a_training_that_stands_still(tiny: Path, tmp_path: Path) -> None:
    for kind in ("SFT", "LORA"):
        still, on = case(tiny, tmp_path / f"{kind}-still", kind), case(tiny, tmp_path / f"{kind}-on", kind)
        still.config["output_config"]["checkpoint_async"] = False
        again = on.resumed(f"{kind}-again", on.checkpoints / "checkpoint-4")
        harness.carry_out(tmp_path, [still, on, again])
        assert still.result() == on.result() == again.result() == {"code": 0}
        for step in (4, 8):
            one, other = files(still.checkpoints / f"checkpoint-{step}"), files(on.checkpoints / f"checkpoint-{step}")
            # The state of the trainer has times, and its arguments the directory.
            differing = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
            assert differing <= {"training_args.bin", "trainer_state.json"}
        assert same(still.output / "model", again.output / "model")
        assert all(
            0 < line["checkpoint_blocking_seconds"] <= line["checkpoint_seconds"]
            for line in on.lines("metrics")
            if "checkpoint_seconds" in line
        )


@pytest.fixture(scope="module")
def double(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, harness.Case]:
    """FSDP on two ranks, with the full state and with shares, each whole and from the middle."""
    folder = tmp_path_factory.mktemp("double")
    full = case(tiny, folder / "full", "SFT", "FSDP")
    shares = case(tiny, folder / "shares", "SFT", "FSDP")
    shares.config["training_config"]["framework"]["config"] = SHARDED
    still = case(tiny, folder / "still", "SFT", "FSDP")
    still.config["output_config"]["checkpoint_async"] = False
    cases = [full, shares, still]
    cases += [c.resumed(f"{c.folder.name}-again", c.checkpoints / "checkpoint-4") for c in (full, shares)]
    harness.carry_out(folder, cases, 2)
    assert all(c.result(rank) == {"code": 0} for c in cases for rank in (0, 1))
    return {c.folder.name: c for c in cases}


def test_full_state_of_two_ranks(double: dict[str, harness.Case]) -> None:
    assert same(double["full"].output / "model", double["full-again"].output / "model")
    for name in ("pytorch_model_fsdp.bin", "model.safetensors", "optimizer.bin"):
        one, other = (double[n].checkpoints / "checkpoint-8" / name for n in ("full", "still"))
        assert one.read_bytes() == other.read_bytes(), name


def test_shares_of_two_ranks(double: dict[str, harness.Case]) -> None:
    whole, again = double["shares"], double["shares-again"]
    for part in ("pytorch_model_fsdp_0", "optimizer_0"):
        written = {p.name for p in (whole.checkpoints / "checkpoint-8" / part).iterdir()}
        assert written == {".metadata", "__0_0.distcp", "__1_0.distcp"}
    assert same(whole.output / "model", again.output / "model")
    assert same(whole.output / "model", double["full"].output / "model")


@pytest.mark.long
def test_shares_of_nodes_that_share_nothing(double: dict[str, harness.Case], tiny: Path, tmp_path: Path) -> None:
    nodes = []
    for n in range(2):
        (tmp_path / f"node{n}" / "checkpoints").mkdir(parents=True)
        places = {"OUTPUT_DIR": "output", "CHECKPOINT_DIR": "checkpoints", "METRICS_FILE": "metrics"}
        nodes.append({f"MIND_{key}": str(tmp_path / f"node{n}" / name) for key, name in places.items()})
    apart = case(tiny, tmp_path / "apart", "SFT", "FSDP")
    apart.config["training_config"]["framework"]["config"] = SHARDED
    harness.carry_out(tmp_path, [apart], 2, nodes=nodes)
    assert apart.result(0) == apart.result(1) == {"code": 0}
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "node0" / "checkpoints", kept)
    assert {p.name for p in (kept / "checkpoint-4" / "optimizer_0").iterdir()} == {
        ".metadata", "__0_0.distcp", "__1_0.distcp",
    }  # fmt: skip
    assert list((tmp_path / "node1" / "checkpoints").iterdir()) == []

    # Now only node 1 has the checkpoint.
    shutil.rmtree(tmp_path / "node0" / "checkpoints")
    nodes[1]["MIND_RESUME_FROM"] = str(kept / "checkpoint-4")
    found = case(tiny, tmp_path / "found", "SFT", "FSDP")
    found.config["training_config"]["framework"]["config"] = SHARDED
    harness.carry_out(tmp_path, [found], 2, nodes=nodes)
    assert found.result(0) == found.result(1) == {"code": 0}
    assert same(tmp_path / "node0" / "output" / "model", double["shares"].output / "model")


def test_a_write_that_fails_ends_the_training(tiny: Path, tmp_path: Path) -> None:
    one = case(tiny, tmp_path / "full-disk", "SFT")
    one.prepare()
    # No file beyond 300 KiB: the weights fit, the optimizer does not.
    argv = ["bash", "-c", 'ulimit -f 300 && exec "$0" -m mind_runner train', sys.executable]
    done = subprocess.run(
        argv, env=harness.environment() | one.environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert "the checkpoint of step 4 was not written" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("rank 0: ")
    assert [p.name for p in one.checkpoints.iterdir()] == ["tmp-checkpoint-4"]
    assert not [e for e in one.lines("events") if e["event"] == "checkpoint"]


# Begins a checkpoint whose write waits for what never comes.
STUCK = """
import sys, threading
from mind_runner import checkpoints, group, place
here = place.here()
mine = checkpoints.Checkpoints(here, group.Group(here), [0], {})
def write():
    (mine.parent(4) / "checkpoint-4" / "weights").write_text("half")
    mine.staging.later.append(lambda: (print("writing", flush=True), threading.Event().wait()))
mine.save(4, write, {})
"""


def environment(folder: Path) -> dict[str, str]:
    return {
        "MIND_CHECKPOINT_DIR": str(folder),
        "MIND_OUTPUT_DIR": str(folder),
        "MIND_METRICS_FILE": str(folder.with_name("metrics")),
        "MIND_EVENTS_FILE": str(folder.with_name("events")),
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the checkpoints of this process."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for key, value in environment(folder).items():
        monkeypatch.setenv(key, value)
    return folder


def test_a_kill_leaves_no_half_checkpoint(folder: Path) -> None:
    argv = [sys.executable, "-c", STUCK]
    env = harness.environment() | environment(folder)
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, preexec_fn=ends_with_this()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        os.kill(process.pid, signal.SIGKILL)
    assert [p.name for p in folder.iterdir()] == ["tmp-checkpoint-4"], "the agent passes over names that begin so"
    made()
    assert list(folder.iterdir()) == [], "the next attempt removes it"


def made() -> Any:
    from mind_runner import checkpoints, group, place

    here = place.here()
    return checkpoints.Checkpoints(here, group.Group(here), [0], {"world_size": 1})


def test_the_training_goes_on_and_one_is_written_at_a_time(folder: Path) -> None:
    mine = made()
    order: list[str] = []
    may_end = threading.Event()

    def first() -> None:
        def later() -> None:
            may_end.wait()
            order.append("first is written")

        mine.staging.later.append(later)

    def second() -> None:
        order.append("second is staged")

    mine.save(1, first, {})
    assert not (folder / "checkpoint-1").exists(), "save returned although the write has not ended"
    other = threading.Thread(target=mine.save, args=(2, second, {}))
    other.start()
    may_end.set()
    other.join()
    mine.finish()
    assert order == ["first is written", "second is staged"]
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint-1", "checkpoint-2"]
    assert json.loads((folder / "checkpoint-2" / "mind.json").read_text()) == {"world_size": 1, "step": 2}


def test_a_failure_is_raised_once_it_is_known_and_settling_does_not_hide_it(folder: Path) -> None:
    mine = made()
    mine.save(1, lambda: mine.staging.later.append(lambda: (folder / "no" / "folder").write_text("")), {})
    mine.settle()
    with pytest.raises(FileNotFoundError):
        mine.check()
    mine.finish()
    assert [p.name for p in folder.iterdir()] == ["tmp-checkpoint-1"]
