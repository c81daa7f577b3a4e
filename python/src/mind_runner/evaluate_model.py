"""The model of an evaluation, for lm-eval: whole weights, or an adapter on its base model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mind_runner import errors, hub, models


def load(path: str | None, batch_size: int) -> Any:
    """Loads the model at a path as lm-eval's HFLM."""
    if not path:
        raise errors.config(
            "MIND_MODEL_PATH is not set: an evaluation is started by Mind, or set it to the folder of a model"
        )
    folder = Path(path)
    base, adapter = _parts(folder)
    try:
        import safetensors
        import torch
        from lm_eval.models.huggingface import HFLM
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "lm_eval":
            raise errors.config(
                "the Python of this node has no lm_eval: run python3 -m pip install 'mindcoordinator[evaluate]'"
            ) from error
        raise
    hub.settle([base])
    cuda = torch.cuda.is_available()
    tokenizer = str(folder) if (folder / "tokenizer_config.json").exists() else None
    try:
        loaded = HFLM(
            pretrained=base, peft=adapter, tokenizer=tokenizer, batch_size=batch_size, dtype="auto",
            device="cuda" if cuda else "cpu", parallelize=cuda and torch.cuda.device_count() > 1,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        if hub.is_name(base) and hub.away():
            raise errors.Failure(errors.DATA_FETCH, f"the model {base} cannot be loaded: {hub.away()}") from error
        raise errors.Failure(
            errors.MODEL_NOT_FOUND, f"the model at {path} cannot be loaded: {errors.described(error)[:300]}"
        ) from error
    if models.is_empty(loaded.tokenizer):
        raise errors.config(f"the model at {path} has no vocabulary: the files of its tokenizer are not there")
    return loaded


def _parts(folder: Path) -> tuple[str, str | None]:
    """The weights to load, and the adapter to put on them."""
    if not folder.is_dir():
        raise errors.Failure(
            errors.MODEL_NOT_FOUND,
            f"there is no folder {folder} on this node: is it on a file system that the node shares?",
        )
    config = folder / "adapter_config.json"
    if not config.exists():
        if not (folder / "config.json").exists():
            raise errors.Failure(
                errors.MODEL_NOT_FOUND,
                f"{folder} has no config.json and no adapter_config.json: it is not the folder of a model",
            )
        return str(folder), None
    base = json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
    if base.startswith("/") and not Path(base).is_dir():
        raise errors.Failure(
            errors.MODEL_NOT_FOUND,
            f"{folder} is an adapter of {base}, which this node has not: export the merged model (safetensors)",
        )
    if not base:
        raise errors.Failure(errors.MODEL_NOT_FOUND, f"{config} does not name the base model of the adapter")
    return base, str(folder)
