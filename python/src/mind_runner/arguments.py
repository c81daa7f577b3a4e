"""Arguments of the trainer: defaults of the runner, then data_config, then the hyperparameters of the request."""

from __future__ import annotations

import math
from typing import Any

from mind_runner import names
from mind_runner.errors import config
from mind_runner.place import Place
from mind_runner.request import Request

# Trainers count steps in float where they compare; a number that no training reaches.
NEVER = 10**9

# Names of the runner's own that are arguments of trl's configuration.
_TEXT = ("assistant_only_loss", "completion_only_loss", "max_length", "packing")


def translate(request: Request) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Reads the hyperparameters: arguments of the trainer, of the adapter, and the runner's own."""
    try:
        return names.translate(request.training_type, request.hyperparameters)
    except names.ConfigError as error:
        raise config(str(error)) from error


def build(request: Request, place: Place, given: dict[str, Any], own: dict[str, Any], framework: dict[str, Any]) -> Any:
    """Makes the configuration object of the trainer."""
    options = {**_defaults(request, place), **_from_data(request), **given, **{k: own[k] for k in _TEXT if k in own}, **framework}
    _complete(request, options)
    kind = _class(request)
    try:
        return kind(**options)
    except (ValueError, TypeError) as error:
        raise config(" ".join(str(error).split())) from error


def _class(request: Request) -> Any:
    import trl

    return {"DPO": trl.DPOConfig, "RLHF": trl.GRPOConfig}.get(request.training_type, trl.SFTConfig)


def _defaults(request: Request, place: Place) -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    options: dict[str, Any] = {
        "output_dir": str(place.output_dir / "trainer"),
        "use_cpu": not cuda,
        "bf16": cuda and torch.cuda.is_bf16_supported(),
        # Recomputing saves memory that only a GPU is short of.
        "gradient_checkpointing": cuda,
        "dataloader_pin_memory": cuda,
        "logging_first_step": True,
        # The runner looks at each loss itself, and ends a training that diverged.
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "steps",
        "save_steps": request.output.checkpoint_interval_steps or NEVER,
        "ddp_find_unused_parameters": False,
        # Inputs are counted by the runner, without asking all ranks at each step.
        "include_num_input_tokens_seen": "no",
    }
    if place.world_size > 1:
        # Whatever the request or the launcher says: nccl needs a GPU.
        options["ddp_backend"] = "nccl" if cuda else "gloo"
    if request.training_type == "CONTINUED_PRETRAIN":
        options |= {"packing": True, "packing_strategy": "wrapped"}
    if request.training_type == "FULL_FINETUNE":
        options |= {"completion_only_loss": False}
    return options


def _from_data(request: Request) -> dict[str, Any]:
    data = request.data
    options: dict[str, Any] = {}
    if data.batch_size:
        options["per_device_train_batch_size"] = data.batch_size
        options["per_device_eval_batch_size"] = data.batch_size
    if data.gradient_accumulation_steps:
        options["gradient_accumulation_steps"] = data.gradient_accumulation_steps
    if data.num_workers:
        options["dataloader_num_workers"] = data.num_workers
    if data.pin_memory is not None:
        options["dataloader_pin_memory"] = data.pin_memory
    if data.seed is not None:
        options |= {"seed": data.seed, "data_seed": data.seed}
    if data.max_seq_length and request.training_type != "RLHF":
        options["max_length"] = data.max_seq_length
    return options


def _complete(request: Request, options: dict[str, Any]) -> None:
    """Settles what follows from other options."""
    # The order of the samples is that of the seed, not of how much chance was used before.
    options.setdefault("data_seed", options.get("seed", 42))
    if options.get("fp16"):
        options["bf16"] = False
    if request.output.checkpoint_interval_steps and "save_steps" in request.hyperparameters:
        if float(options["save_steps"]) != request.output.checkpoint_interval_steps:
            raise config("save_steps and output_config.checkpoint_interval_steps are different: give one of them")
    held_out = request.data.validation_split > 0 or any(s.split for s in request.data.sources)
    if held_out and "eval_strategy" not in options and "eval_steps" in options:
        options["eval_strategy"] = "steps"
    if request.training_type == "RLHF":
        _complete_generations(options)


def _complete_generations(options: dict[str, Any]) -> None:
    """GRPO compares completions of one prompt: their number has to divide the batch of all processes."""
    if "num_generations" in options or "generation_batch_size" in options:
        return
    batch = options.get("per_device_train_batch_size", 8) * options.get("gradient_accumulation_steps", 1)
    if batch % 8:
        options["num_generations"] = max(2, math.gcd(batch, 8))
