"""The doctor against what is installed, and against nodes that lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mind_runner import doctor

SOURCE = Path(__file__).parents[2] / "src"
ALL = dict.fromkeys(doctor.PACKAGES, "1")


def node(**changes: Any) -> doctor.Node:
    whole: dict[str, Any] = {
        "versions": ALL, "cuda": True, "cuda_version": "12.8", "nccl": "2.27.3", "gloo": True, "gpus": [{"name": "H200", "memory_bytes": 1 << 37}],
        "problem": "", "adapter": "", "compiler": True,
    }  # fmt: skip
    return doctor.Node(**(whole | changes))


def without(*names: str) -> dict[str, str]:
    return {name: version for name, version in ALL.items() if name not in names}


def cell(found: doctor.Node, training_type: str, framework: str) -> dict[str, Any]:
    return next(c for c in doctor.cells(found) if (c["training_type"], c["framework"]) == (training_type, framework))


def test_a_whole_node_runs_all_but_megatron() -> None:
    assert {c["framework"] for c in doctor.cells(node()) if not c["works"]} == {"MEGATRON"}
    assert len(doctor.cells(node())) == 7 * 4 + 1
    assert cell(node(adapter="json"), "SFT", "MEGATRON")["works"]
    assert "which this node has not" in cell(node(adapter="no_such_module"), "SFT", "MEGATRON")["why"]
    assert "MEGATRON takes SFT" in cell(node(adapter="json"), "DPO", "MEGATRON")["why"]


@pytest.mark.parametrize(
    ("changes", "training_type", "framework", "why", "extra"),
    [
        ({"versions": without("trl")}, "SFT", "HF_TRAINER", "it lacks trl", "[train]"),
        ({"versions": without("trl", "deepspeed")}, "DPO", "DEEPSPEED", "it lacks trl, deepspeed", "[deepspeed]"),
        ({"versions": without("bitsandbytes")}, "QLORA", "FSDP", "it lacks bitsandbytes", "[qlora]"),
        ({"versions": without("lm_eval")}, "EVALUATION", "EVALUATION", "it lacks lm_eval", "[evaluate]"),
        ({"cuda": False}, "QLORA", "HF_TRAINER", "need a CUDA GPU", ""),
        ({"cuda": False, "compiler": False}, "SFT", "DEEPSPEED", "install g++", ""),
        ({"cuda": False, "gloo": False}, "SFT", "FSDP", "neither CUDA nor gloo", ""),
        ({"problem": "torch 1 cannot be imported: x"}, "SFT", "FSDP", "cannot be imported", "torch"),
    ],
)
def test_what_is_missing_is_named(
    changes: dict[str, Any], training_type: str, framework: str, why: str, extra: str
) -> None:
    found = cell(node(**changes), training_type, framework)
    assert not found["works"]
    assert why in found["why"]
    assert extra in found["install"]
    assert bool(extra) == bool(found["install"])


def test_other_types_do_not_need_it() -> None:
    assert cell(node(versions=without("trl", "peft", "bitsandbytes")), "FULL_FINETUNE", "FSDP")["works"]
    assert cell(node(versions=without("deepspeed")), "SFT", "HF_TRAINER")["works"]


def test_the_real_node() -> None:
    pytest.importorskip("trl", reason="trl is not installed: make train-env")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-m", "mind_runner", "doctor", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    found = json.loads(done.stdout)
    import trl

    assert found["versions"]["trl"] == trl.__version__
    works = {(c["training_type"], c["framework"]) for c in found["cells"] if c["works"]}
    assert {("SFT", "HF_TRAINER"), ("DPO", "FSDP"), ("FULL_FINETUNE", "HF_TRAINER")} <= works
    assert ("SFT", "MEGATRON") not in works
    assert all(c["works"] or c["why"] for c in found["cells"])
    assert all(disk["free_bytes"] > 0 for disk in found["disks"])
    shown = doctor.text(found)
    assert f"trl {trl.__version__}" in shown
    assert "CONTINUED_PRETRAIN  yes" in shown


def test_a_python_without_any_of_it() -> None:
    """An interpreter without site-packages, as of a node where nothing was installed."""
    command = [
        sys.executable,
        "-S",
        "-E",
        "-c",
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import mind_runner.__main__ as m; sys.exit(m.main(['doctor', '--json']))",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert not any(c["works"] for c in found["cells"])
    assert "mindcoordinator[train]" in found["cells"][0]["install"]
    assert "SFT with HF_TRAINER" in doctor.text(found)
