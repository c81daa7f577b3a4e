"""The request as the job has it ($MIND_CONFIG): typed, and checked for what the runner needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mind_runner.errors import config

TYPES = ("SFT", "LORA", "QLORA", "DPO", "RLHF", "CONTINUED_PRETRAIN", "FULL_FINETUNE")
FRAMEWORKS = ("HF_TRAINER", "FSDP", "DEEPSPEED", "MEGATRON")
EXPORTS = ("safetensors", "adapter", "sharded", "none")


@dataclass(frozen=True)
class Source:
    """One of data_config.sources."""

    path: str
    split: str = ""
    format: str = ""
    columns: tuple[str, ...] = ()
    filters: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """base_model."""

    model_id: str
    revision: str = ""
    source: str = ""
    tokenizer_id: str = ""
    dtype: str = ""
    trust_remote_code: bool = False
    model_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Framework:
    """framework, with its distributed part."""

    type: str = "HF_TRAINER"
    strategy: str = ""
    # framework.config and framework.distributed.config together; the second one wins.
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Data:
    """data_config."""

    sources: tuple[Source, ...] = ()
    preprocess: dict[str, Any] = field(default_factory=dict)
    max_seq_length: int = 0
    batch_size: int = 0
    gradient_accumulation_steps: int = 0
    num_workers: int = 0
    pin_memory: bool | None = None
    validation_split: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class Output:
    """What of output_config is the runner's; the rest is the agent's."""

    checkpoint_interval_steps: int = 0
    checkpoint_async: bool = True
    keep_best_metric: str = ""
    export: str = "safetensors"


@dataclass(frozen=True)
class Request:
    """A training request."""

    name: str
    training_type: str
    model: Model
    framework: Framework
    hyperparameters: dict[str, str]
    data: Data
    output: Output
    # As it was read, for the model card and for adapters.
    raw: dict[str, Any]


def load(path: str | Path) -> Request:
    """Reads the request from a file."""
    try:
        raw = json.loads(Path(path).read_text())
    except OSError as error:
        raise config(f"the request cannot be read: {error}") from error
    except ValueError as error:
        raise config(f"{path} is not JSON: {error}") from error
    return parse(raw)


def parse(raw: dict[str, Any]) -> Request:
    """Reads the request from what its JSON says."""
    training = _part(raw, "training_config")
    if not training:
        raise config("the request has no training_config: mind_runner train carries out trainings only")
    kind = _choice(training, "training_type", TYPES, None)
    framework = _part(training, "framework")
    distributed = _part(framework, "distributed")
    output = _part(raw, "output_config")
    model = _part(training, "base_model")
    return Request(
        name=str(raw.get("name") or ""),
        training_type=kind,
        model=Model(
            model_id=_get(model, "model_id", str, ""),
            revision=_get(model, "revision", str, ""),
            source=_get(model, "source", str, ""),
            tokenizer_id=_get(model, "tokenizer_id", str, ""),
            dtype=_get(model, "dtype", str, ""),
            trust_remote_code=_get(model, "trust_remote_code", bool, False),
            model_kwargs={k: literal(v) for k, v in _part(model, "model_kwargs").items()},
        ),
        framework=Framework(
            type=_choice(framework, "type", FRAMEWORKS, "HF_TRAINER"),
            strategy=_get(distributed, "strategy", str, "").lower(),
            config={**_part(framework, "config"), **_part(distributed, "config")},
        ),
        hyperparameters={k: str(v) for k, v in _part(training, "hyperparameters").items()},
        data=_data(_part(raw, "data_config")),
        output=Output(
            checkpoint_interval_steps=_get(output, "checkpoint_interval_steps", int, 0),
            checkpoint_async=_get(output, "checkpoint_async", bool, True),
            keep_best_metric=_get(output, "keep_best_metric", str, ""),
            export=_choice(output, "export", EXPORTS, "safetensors"),
        ),
        raw=raw,
    )


def _data(data: dict[str, Any]) -> Data:
    split = float(_get(data, "validation_split", (int, float), 0.0))
    if not 0 <= split < 1:
        raise config(f"data_config.validation_split is {split}: give a share from 0 to below 1")
    return Data(
        sources=tuple(
            Source(
                path=_get(s, "path", str, ""),
                split=_get(s, "split", str, ""),
                format=_get(s, "format", str, "").lower(),
                columns=tuple(_get(s, "columns", list, [])),
                filters=_part(s, "filters"),
                sampling=_part(s, "sampling"),
            )
            for s in _get(data, "sources", list, [])
        ),
        preprocess=_part(data, "preprocess"),
        max_seq_length=_get(data, "max_seq_length", int, 0),
        batch_size=_get(data, "batch_size", int, 0),
        gradient_accumulation_steps=_get(data, "gradient_accumulation_steps", int, 0),
        num_workers=_get(data, "num_workers", int, 0),
        pin_memory=_get(data, "pin_memory", bool, None),
        validation_split=split,
        seed=_get(data, "seed", int, None),
    )


def literal(value: Any) -> Any:
    """The value of a map of strings: JSON where it is JSON (true, 4, null), else the string itself."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(value, value)


def _part(raw: dict[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise config(f"{name} is {value!r}: it must be an object")
    return value


def _get(raw: dict[str, Any], name: str, kind: Any, default: Any) -> Any:
    value = raw.get(name)
    if value is None:
        return default
    # bool is an int to Python, not to the interface.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise config(f"{name} is {value!r}: it must be {getattr(kind, '__name__', 'a number')}")
    return value


def _choice(raw: dict[str, Any], name: str, choices: tuple[str, ...], default: str | None) -> str:
    value = raw.get(name) or default
    if value not in choices:
        raise config(f"{name} is {value!r}: choose one of {', '.join(choices)}")
    return str(value)
