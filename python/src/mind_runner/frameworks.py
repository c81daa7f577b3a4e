"""How the frameworks of a request become arguments of the trainer. HF_TRAINER, which is DDP, needs none."""

from __future__ import annotations

import os
from typing import Any

from mind_runner.errors import config
from mind_runner.request import Framework, Request, literal

# Keys of accelerate's configuration of FSDP2 that a request may give, with or without "fsdp_" before them.
FSDP_KEYS = (
    "activation_checkpointing", "auto_wrap_policy", "cpu_offload", "cpu_ram_efficient_loading", "min_num_params",
    "reshard_after_forward", "state_dict_type", "transformer_layer_cls_to_wrap",
)  # fmt: skip
FSDP_STRATEGIES = {"": None, "fsdp": None, "full_shard": True, "shard_grad_op": False}
ZERO_STRATEGIES = {
    "": 2,
    "zero": 2,
    "deepspeed": 2,
    "zero0": 0,
    "zero1": 1,
    "zero2": 2,
    "zero3": 3,
    "zero_1": 1,
    "zero_2": 2,
    "zero_3": 3,
}


def options(request: Request, own: dict[str, Any], shared: bool) -> dict[str, Any]:
    """The arguments of the trainer for the framework.

    Shared says whether all ranks see the same checkpoint directory.
    """
    framework = request.framework
    if framework.type == "FSDP":
        return {"fsdp": True, "fsdp_config": fsdp(framework), "ddp_find_unused_parameters": None}
    if framework.type == "DEEPSPEED":
        return {"deepspeed": deepspeed(framework, own, shared), "ddp_find_unused_parameters": None}
    return {}


def fsdp(framework: Framework) -> dict[str, Any]:
    """FSDP2.

    A checkpoint is the full state by default: it is complete in one directory, and fits any number of ranks.
    """
    result: dict[str, Any] = {"version": 2, "state_dict_type": "FULL_STATE_DICT"}
    if framework.strategy not in FSDP_STRATEGIES:
        raise config(f"the strategy {framework.strategy!r} is none of FSDP's: choose full_shard or shard_grad_op")
    reshard = FSDP_STRATEGIES[framework.strategy]
    if reshard is not None:
        result["reshard_after_forward"] = reshard
    for key, value in framework.config.items():
        name = key.removeprefix("fsdp_")
        if name not in FSDP_KEYS:
            raise config(f"framework.config has {key!r}: FSDP takes {', '.join(FSDP_KEYS)}")
        result[name] = literal(value)
    return result


def deepspeed(framework: Framework, own: dict[str, Any], shared: bool) -> dict[str, Any]:
    """A configuration of DeepSpeed. What the trainer knows is "auto", and filled in by it.

    Keys of framework.config are paths in it, such as zero_optimization.overlap_comm; zero_stage, offload_optimizer and
    offload_param are short for the most common ones.
    """
    _without_gpu()
    given = dict(framework.config)
    stage = own.get("zero_stage")
    if stage is None:
        stage = literal(given.pop("zero_stage", ZERO_STRATEGIES.get(framework.strategy, 2)))
    given.pop("zero_stage", None)
    if stage not in (0, 1, 2, 3):
        raise config(f"zero_stage is {stage!r}: choose 0, 1, 2 or 3")
    if framework.strategy and framework.strategy not in ZERO_STRATEGIES:
        raise config(f"the strategy {framework.strategy!r} is none of DeepSpeed's: choose zero1, zero2 or zero3")
    result: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    if stage == 3:
        result["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] = True
    if not shared:
        result["checkpoint"] = {"use_node_local_storage": True}
    for short in ("offload_optimizer", "offload_param"):
        if short in given:
            device = given.pop(short)
            result["zero_optimization"][short] = {"device": device, "pin_memory": device == "cpu"}
    for path, value in given.items():
        part = result
        *parents, last = path.split(".")
        for name in parents:
            part = part.setdefault(name, {})
            if not isinstance(part, dict):
                raise config(f"framework.config has {path!r}, and {name!r} is no section of DeepSpeed's configuration")
        part[last] = literal(value)
    return result


def join(framework: Framework) -> None:
    """Tells DeepSpeed of the group of processes, which is there before the model is spread over it (ZeRO 3)."""
    if framework.type != "DEEPSPEED":
        return
    _without_gpu()
    import deepspeed

    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)


def _without_gpu() -> None:
    """Lets DeepSpeed train on the CPU: it does not look for that by itself."""
    import torch

    if torch.cuda.is_available():
        return
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    # Its own communication by shared memory is compiled when it is first used; gloo needs no compiler.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
