"""`python -m mind_runner doctor`: says what this node can train, and the command that installs what is missing.

It imports torch alone, which says what it sees of GPUs; of other packages it looks for their versions.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from mind_runner import names_table

#: Packages whose versions are shown, by the name of the distribution.
PACKAGES = (
    "accelerate", "bitsandbytes", "datasets", "deepspeed", "lightning", "lm_eval", "mindcoordinator", "peft",
    "safetensors", "tokenizers", "torch", "transformers", "trl",
)  # fmt: skip

FRAMEWORKS = ("HF_TRAINER", "FSDP", "DEEPSPEED", "MEGATRON")
EVALUATION = "EVALUATION"

_BASE = ("torch", "transformers", "datasets", "accelerate", "safetensors")
#: What a training type needs beside torch, and the extra of mindcoordinator that brings it.
_OF_TYPE = {
    "SFT": ("trl",),
    "LORA": ("trl", "peft"),
    "QLORA": ("trl", "peft", "bitsandbytes"),
    "DPO": ("trl",),
    "RLHF": ("trl",),
    "CONTINUED_PRETRAIN": (),
    "FULL_FINETUNE": (),
}
_EXTRAS = {"bitsandbytes": "qlora", "deepspeed": "deepspeed", "lm_eval": "evaluate"}
_MEGATRON = "MIND_MEGATRON_ADAPTER"


@dataclass(frozen=True)
class Node:
    """What was found on this node."""

    versions: dict[str, str]
    cuda: bool
    cuda_version: str
    nccl: str
    gloo: bool
    gpus: list[dict[str, Any]]
    problem: str  # of torch, which is installed and cannot be imported
    adapter: str
    compiler: bool


def look() -> Node:
    """Looks at the packages, and at what torch sees."""
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    found: dict[str, Any] = {"cuda": False, "cuda_version": "", "nccl": "", "gloo": False, "gpus": [], "problem": ""}
    if "torch" in versions:
        try:
            found |= _torch()
        except Exception as error:
            found["problem"] = f"torch {versions['torch']} cannot be imported: {' '.join(str(error).split())[:300]}"
    compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    return Node(versions=versions, adapter=os.environ.get(_MEGATRON, ""), compiler=compiler, **found)


def _torch() -> dict[str, Any]:
    import torch
    import torch.distributed

    gpus = []
    cuda = torch.cuda.is_available()
    for index in range(torch.cuda.device_count() if cuda else 0):
        properties = torch.cuda.get_device_properties(index)
        gpus.append({"name": properties.name, "memory_bytes": int(properties.total_memory)})
    nccl = ""
    if cuda and torch.distributed.is_nccl_available():
        nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    return {
        "cuda": cuda,
        "cuda_version": (torch.version.cuda or "") if cuda else "",
        "nccl": nccl,
        "gloo": torch.distributed.is_available() and torch.distributed.is_gloo_available(),
        "gpus": gpus,
    }


def _version(name: str) -> str:
    """The version of a package that is installed, or on the path without being installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "installed" if importlib.util.find_spec(name) else ""


def cells(node: Node) -> list[dict[str, Any]]:
    """Which training types run with which frameworks here, and for each that does not, why and what to install."""
    out = []
    for training_type in names_table.TYPES:
        for framework in FRAMEWORKS:
            out.append(
                {"training_type": training_type, "framework": framework, **_cell(node, training_type, framework)}
            )
    out.append({"training_type": EVALUATION, "framework": EVALUATION, **_missing(node, (*_BASE, "lm_eval", "peft"))})
    return out


def _cell(node: Node, training_type: str, framework: str) -> dict[str, Any]:
    if framework == "MEGATRON":
        if training_type not in ("SFT", "CONTINUED_PRETRAIN", "FULL_FINETUNE"):
            return _no("MEGATRON takes SFT, CONTINUED_PRETRAIN and FULL_FINETUNE")
        if node.adapter and importlib.util.find_spec(node.adapter.split(".")[0]):
            return _yes()
        if node.adapter:
            return _no(f"{_MEGATRON} names the module {node.adapter}, which this node has not")
        return _no(f"no adapter: install one and name it in {_MEGATRON} of the agent, or use framework.config.adapter")
    needed = [*_BASE, *_OF_TYPE[training_type]]
    if framework == "DEEPSPEED":
        needed.append("deepspeed")
    found = _missing(node, tuple(needed))
    if not found["works"]:
        return found
    if training_type == "QLORA" and not node.cuda:
        return _no("4-bit weights need a CUDA GPU, and torch sees none")
    if framework == "DEEPSPEED" and not node.cuda and not node.compiler:
        return _no("without a GPU DeepSpeed compiles its extensions, and there is no C++ compiler: install g++")
    if not node.cuda and not node.gloo:
        return _no("torch has neither CUDA nor gloo: install another build of torch")
    return _yes()


def _missing(node: Node, needed: tuple[str, ...]) -> dict[str, Any]:
    missing = [name for name in needed if name not in node.versions]
    if missing:
        extra = next((_EXTRAS[name] for name in missing if name in _EXTRAS), "train")
        # The others of an extra may be missing, too: pip leaves alone what is there.
        return _no(f"it lacks {', '.join(missing)}", install=f"{_python()} -m pip install 'mindcoordinator[{extra}]'")
    if node.problem:
        return _no(node.problem, install=f"{_python()} -m pip install --force-reinstall torch")
    return _yes()


def _python() -> str:
    return shlex.quote(sys.executable or "python3")


def _yes() -> dict[str, Any]:
    return {"works": True, "why": "", "install": ""}


def _no(why: str, install: str = "") -> dict[str, Any]:
    return {"works": False, "why": why, "install": install}


def disks() -> list[dict[str, Any]]:
    """Free space where trainings write: the working directory, the temporary directory, and the cache of models."""
    cache = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    seen: dict[int, dict[str, Any]] = {}
    for path in (os.getcwd(), os.environ.get("TMPDIR") or "/tmp", cache):
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        seen.setdefault(os.stat(path).st_dev, {"path": path, "free_bytes": shutil.disk_usage(path).free})
    return list(seen.values())


def report() -> dict[str, Any]:
    """What `--json` prints; the agent of the node reads it."""
    node = look()
    return {
        "python": platform.python_version(),
        "versions": node.versions,
        "cuda": node.cuda_version,
        "nccl": node.nccl,
        "gloo": node.gloo,
        "gpus": node.gpus,
        "disks": disks(),
        "cells": cells(node),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m mind_runner doctor`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Prints what it finds; exit code 1: nothing can be trained here."""
    found = report()
    if args.json:
        print(json.dumps(found))
    else:
        print(text(found))
    return 0 if any(cell["works"] for cell in found["cells"]) else 1


def text(found: dict[str, Any]) -> str:
    """The report for people: a table of types and frameworks, and below it what is missing."""
    lines = [f"Python {found['python']} ({sys.executable})"]
    lines += [
        ", ".join(f"{name} {version}" for name, version in sorted(found["versions"].items()))
        or "no packages for training"
    ]
    gpus = [f"{gpu['name']}, {gpu['memory_bytes'] / 2**30:.0f} GiB" for gpu in found["gpus"]]
    lines += [f"CUDA {found['cuda']}, NCCL {found['nccl'] or 'missing'}: {'; '.join(gpus)}" if gpus else "no CUDA GPU"]
    lines += [f"gloo {'is there' if found['gloo'] else 'is missing'}"]
    lines += [f"{disk['free_bytes'] / 2**30:.0f} GiB free at {disk['path']}" for disk in found["disks"]]
    works = {(c["training_type"], c["framework"]): c["works"] for c in found["cells"]}
    lines += ["", "".join(f"{head:<20}" for head in ("", *FRAMEWORKS)).rstrip()]
    for training_type in names_table.TYPES:
        row = (training_type, *("yes" if works[training_type, framework] else "no" for framework in FRAMEWORKS))
        lines.append("".join(f"{cell:<20}" for cell in row).rstrip())
    lines += [f"{EVALUATION:<20}{'yes' if works[EVALUATION, EVALUATION] else 'no'}", ""]
    reasons: dict[tuple[str, str], list[str]] = {}
    for c in found["cells"]:
        if not c["works"]:
            of = c["framework"] if c["framework"] == EVALUATION else f"{c['training_type']} with {c['framework']}"
            reasons.setdefault((c["why"], c["install"]), []).append(of)
    for (why, install), of in reasons.items():
        lines.append(f"{', '.join(of)}: {why}{chr(10) + '  ' + install if install else ''}")
    return "\n".join(lines).rstrip()
