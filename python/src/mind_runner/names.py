"""The hyperparameters of each training type: their names, types and defaults, as the installed libraries have them.

`check` says what is wrong with those of a request, `translate` makes the arguments of the libraries of them, and
`python -m mind_runner names` prints them all.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import enum
import functools
import importlib.metadata
import json
import math
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mind_runner import frameworks
from mind_runner import names_table as table

#: A name: the kinds of value that it takes (int, float, bool, str, list, object, null), in the order in which a text is
#: tried, the texts that it takes if not all, and its default.
Spec = dict[str, Any]

#: Where the groups of `names_table.TYPES` come from that are no tables there.
_CONFIGS = {
    "trainer": ("transformers", "TrainingArguments"),
    "sft": ("trl", "SFTConfig"),
    "dpo": ("trl", "DPOConfig"),
    "grpo": ("trl", "GRPOConfig"),
    "lora": ("peft", "LoraConfig"),
}
_ORDER = ("null", "bool", "int", "float", "object", "list", "str")
_LIBRARIES = ("accelerate", "peft", "torch", "transformers", "trl")


class ConfigError(ValueError):
    """A hyperparameter that cannot be used; the text says why."""


def check(training_type: str, hyperparameters: Mapping[str, Any]) -> list[str]:
    """Says what is wrong with the hyperparameters, one sentence for each; an empty list is right."""
    problems = []
    seen: dict[str, str] = {}
    for given in sorted(hyperparameters):
        try:
            name, _ = _read(training_type, given, hyperparameters[given])
        except ConfigError as error:
            problems.append(str(error))
            continue
        if name in seen:
            problems.append(f"{seen[name]} and {given} are names of the same hyperparameter: give one of them")
        seen[name] = given
    return problems or _together(training_type, {name: hyperparameters[given] for name, given in seen.items()})


def _together(training_type: str, given: Mapping[str, Any]) -> list[str]:
    """What is wrong with hyperparameters that are right one by one."""
    problems = []
    if all(_text(given.get(name)).lower() in ("true", "1") for name in ("bf16", "fp16")):
        problems.append("bf16 and fp16 are both true: the weights are computed with in one of them; give one")
    if training_type == "RLHF" and all(
        _text(given.get(n)).lower() in _NULL for n in ("reward_function", "reward_model_id")
    ):
        problems.append(
            "RLHF needs a reward: give the hyperparameter reward_function (FILE.py:NAME or MODULE:NAME) "
            "or reward_model_id"
        )
    return problems


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def translate(
    training_type: str, hyperparameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Makes arguments of hyperparameters: of the trainer's configuration, of peft.LoraConfig, and the runner's own.

    The runner's own include, for CONTINUED_PRETRAIN and FULL_FINETUNE, names such as `packing` that the configuration
    of their trainer lacks. It raises ConfigError where `check` finds something.
    """
    problems = check(training_type, hyperparameters)
    if problems:
        raise ConfigError("; ".join(problems))
    config: dict[str, Any] = {}
    peft: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for given, value in hyperparameters.items():
        name, read = _read(training_type, given, value)
        group = _group_of(training_type, name)
        if group == "lora":
            peft[name] = read
        elif group in _CONFIGS:
            config[name] = read
        else:
            own[name] = read
    return config, peft, own


@functools.cache
def known(training_type: str) -> dict[str, Spec]:
    """The names that a training type takes, without other names of the same."""
    if training_type not in table.TYPES:
        raise ConfigError(f"{training_type} is not a training type; there are {', '.join(table.TYPES)}")
    names: dict[str, Spec] = {}
    for group in table.TYPES[training_type]:
        names.update(_group(group))
    return names


def everything() -> dict[str, Any]:
    """What `python -m mind_runner names` prints."""
    groups = sorted({group for groups in table.TYPES.values() for group in groups})
    return {
        "versions": {library: importlib.metadata.version(library) for library in _LIBRARIES},
        "types": table.TYPES,
        "groups": {group: dict(sorted(_group(group).items())) for group in groups},
        "aliases": dict(sorted(table.ALIASES.items())),
        "reserved": dict(sorted(table.RESERVED.items())),
        "reserved_prefixes": table.RESERVED_PREFIXES,
        "frameworks": {
            "DEEPSPEED": {"strategies": sorted(frameworks.ZERO_STRATEGIES)},
            "FSDP": {"strategies": sorted(frameworks.FSDP_STRATEGIES), "keys": list(frameworks.FSDP_KEYS)},
        },
    }


def _read(training_type: str, given: str, value: Any) -> tuple[str, Any]:
    """Finds the name that is meant, and reads its value."""
    names = known(training_type)
    name = given
    if given not in names:
        name = table.ALIASES.get(given, given)
    if given == "lora_bias" and str(value) in ("none", "all", "lora_only") and "bias" in names:
        name = "bias"  # peft has both: which biases are trained, and whether the adapter has its own
    if name not in names:
        raise ConfigError(_unknown(training_type, given))
    return name, _value(given, names[name], value)


def _unknown(training_type: str, name: str) -> str:
    instead = table.RESERVED.get(name)
    for prefix, what in table.RESERVED_PREFIXES.items():
        if name.startswith(prefix):
            instead = what
    if instead:
        return f"{name} is not a hyperparameter: it is set by {instead}"
    others = [t for t in table.TYPES if table.ALIASES.get(name, name) in known(t)]
    if others:
        return f"{name} is a hyperparameter of {', '.join(others)}, not of {training_type}"
    candidates = [*known(training_type), *(a for a, of in table.ALIASES.items() if of in known(training_type))]
    near = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    hint = f": did you mean {near[0]}?" if near else f"; `python -m mind_runner names {training_type}` lists them"
    return f"{name} is not a hyperparameter of {training_type}{hint}"


def _value(name: str, spec: Spec, value: Any) -> Any:
    text = _text(value)
    if name.endswith("_modules") and text.isidentifier() and text.lower() not in _NULL:
        return [text]  # peft takes a single text as a pattern of whole paths
    nothing = "null" in spec["kinds"] and text.lower() in _NULL
    if (
        "choices" in spec
        and text not in spec["choices"]
        and not nothing
        and set(spec["kinds"]) <= {"str", "int", "null"}
    ):
        raise ConfigError(f"{name} is {_clip(text)}, and must be one of {', '.join(spec['choices'])}")
    for kind in spec["kinds"]:
        if kind == "str" and "choices" in spec and text not in spec["choices"]:
            continue
        try:
            read = _list(text, spec) if kind == "list" else _PARSERS[kind](text)
        except (ValueError, TypeError):
            continue
        _in_bounds(name, spec, text, read)
        return read
    must = " or ".join(
        _CALLED[kind] for kind in spec["kinds"] if kind != "null" and not (kind == "str" and "choices" in spec)
    )
    if "choices" in spec:
        must = " or ".join(filter(None, [must, "one of " + ", ".join(spec["choices"])]))
    raise ConfigError(f"{name} is {_clip(text)}, and must be {must}")


def _in_bounds(name: str, spec: Spec, text: str, read: Any) -> None:
    if isinstance(read, bool) or not isinstance(read, (int, float)) or read == spec.get("default"):
        return
    if "least" in spec and read < spec["least"]:
        raise ConfigError(f"{name} is {_clip(text)}, and must be at least {spec['least']:g}")
    if "above" in spec and read <= spec["above"]:
        raise ConfigError(f"{name} is {_clip(text)}, and must be more than {spec['above']:g}")


def _clip(text: str) -> str:
    return json.dumps(text if len(text) <= 64 else text[:61] + "...")


_NULL = ("", "none", "null")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_CALLED = {
    "bool": "true or false", "float": "a number", "int": "a whole number", "list": "a list such as a,b",
    "object": "a JSON object", "str": "a text",
}  # fmt: skip


def _null(text: str) -> None:
    if text.lower() not in _NULL:
        raise ValueError


def _bool(text: str) -> bool:
    value = text.lower()
    if value not in ("true", "1", "false", "0"):
        raise ValueError
    return value in ("true", "1")


def _int(text: str) -> int:
    if _INT.fullmatch(text) is None:
        raise ValueError
    return int(text)


def _float(text: str) -> float:
    if _FLOAT.fullmatch(text) is None or math.isinf(float(text)):
        raise ValueError
    return float(text)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


def _list(text: str, spec: Spec) -> list[Any]:
    if text.startswith("["):
        value = json.loads(text)
        if not isinstance(value, list):
            raise ValueError
        return value
    if "," not in text and "str" in spec["kinds"]:
        raise ValueError
    items = _PARSERS[spec.get("items", "str")]
    return [items(part.strip()) for part in text.split(",")]


_PARSERS: dict[str, Any] = {
    "null": _null, "bool": _bool, "int": _int, "float": _float, "object": _object, "str": str,
}  # fmt: skip


def _group_of(training_type: str, name: str) -> str:
    return next(group for group in reversed(table.TYPES[training_type]) if name in _group(group))


@functools.cache
def _group(group: str) -> dict[str, Spec]:
    if group not in _CONFIGS:
        own: dict[str, Spec] = getattr(table, group.upper())
        return {name: _bounded(name, dict(spec)) for name, spec in own.items()}
    module, name = _CONFIGS[group]
    config = getattr(__import__(module, fromlist=[name]), name)
    hints = typing.get_type_hints(config)
    specs = {}
    for field in dataclasses.fields(config):
        managed = field.name in table.LORA_MANAGED if group == "lora" else _reserved(field.name)
        if managed or not field.init:
            continue
        specs[field.name] = _spec(field, hints[field.name])
    return specs


def _reserved(name: str) -> bool:
    return name in table.RESERVED or name.startswith(tuple(table.RESERVED_PREFIXES))


def _spec(field: dataclasses.Field[Any], hint: Any) -> Spec:
    kinds: set[str] = set()
    choices: list[str] = []
    items: list[str] = []
    _kinds(hint, kinds, choices, items)
    default = field.default
    if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if isinstance(default, enum.Enum):
        default = default.value
    spec: Spec = {"kinds": [kind for kind in _ORDER if kind in kinds]}
    if choices and not any("[" in choice for choice in choices):  # such as pissa_niter_[number of iters]
        spec["choices"] = sorted(set(choices))
    if items and items[0] != "str":
        spec["items"] = items[0]
    spec["default"] = default if isinstance(default, (bool, int, float, str, list, dict, type(None))) else None
    if default is None and "null" not in kinds:
        spec["kinds"].insert(0, "null")
    return _bounded(field.name, spec)


def _bounded(name: str, spec: Spec) -> Spec:
    if name in table.LEAST:
        spec["least"] = table.LEAST[name]
    if name in table.ABOVE:
        spec["above"] = 0
    return spec


def _kinds(hint: Any, kinds: set[str], choices: list[str], items: list[str]) -> None:
    origin = typing.get_origin(hint)
    plain = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}
    if origin in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        # `SchedulerType | str`: the text is made a SchedulerType.
        named = any(isinstance(m, type) and issubclass(m, enum.Enum) for m in members)
        for member in members:
            if not (named and member is str):
                _kinds(member, kinds, choices, items)
    elif origin is typing.Literal:
        for value in typing.get_args(hint):
            if isinstance(value, str):
                kinds.add("str")
                choices.append(value)
            else:
                kinds.add(plain[type(value)])
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        kinds.add("str")
        choices.extend(str(member.value) for member in hint)
    elif hint in plain:
        kinds.add(plain[hint])
    elif origin in (list, tuple, set, Sequence):
        kinds.add("list")
        items.extend(plain.get(of, "str") for of in typing.get_args(hint)[:1])
    else:
        kinds.add("object")  # a dictionary, or a configuration that is made of one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m mind_runner names`."""
    parser.add_argument(
        "training_type", nargs="?", choices=list(table.TYPES), help="list the names of this type as lines"
    )
    parser.add_argument("--output", metavar="FILE", help="write the JSON to FILE")


def run(args: argparse.Namespace) -> int:
    """Runs `python -m mind_runner names`."""
    if args.training_type:
        for name, spec in sorted(known(args.training_type).items()):
            kinds = " | ".join(spec.get("choices", [])) or " | ".join(k for k in spec["kinds"] if k != "null")
            print(f"{name}\t{kinds}\t{json.dumps(spec['default'])}")
        return 0
    text = json.dumps(everything(), indent=1, sort_keys=True) + "\n"
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0
