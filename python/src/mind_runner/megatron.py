"""The adapter for MEGATRON: a module on the node that carries out a request with Megatron-LM, NeMo or Megatron Bridge.

The module is named by framework.config.adapter or by the variable MIND_MEGATRON_ADAPTER of the node. It has a function
train(request, place) that gets the request as it was made (a dictionary) and the mind_runner.place.Place of this rank, and
returns the exit code. It reports with mindcoordinator.training, as every training script does.
"""

from __future__ import annotations

import importlib
import os

from mind_runner.errors import config
from mind_runner.place import Place
from mind_runner.request import Request

VARIABLE = "MIND_MEGATRON_ADAPTER"


def run(request: Request, place: Place) -> int:
    name = request.framework.config.get("adapter") or os.environ.get(VARIABLE)
    if not name:
        raise config(
            "MEGATRON needs a module that carries out the request with Megatron-LM or NeMo: install one on the node and name "
            f"it in framework.config.adapter or {VARIABLE}, or use the framework FSDP"
        )
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0] and error.name != name:
            raise
        raise config(f"this node has no Python module {name}, the adapter of MEGATRON: install it there") from error
    train = getattr(module, "train", None)
    if train is None:
        raise config(f"the adapter {name} has no function train(request, place)")
    return int(train(request.raw, place) or 0)
