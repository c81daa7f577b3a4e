"""FSDP on processors: accelerate spreads a model over GPUs alone, and trains with DDP elsewhere without a word."""

from __future__ import annotations

from typing import Any


def spread(args: Any) -> None:
    """Makes accelerate use FSDP for a training without a GPU.

    The state that its Accelerator would make is made before it, and says FSDP.
    """
    import torch
    from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, TorchDynamoPlugin  # type: ignore[import-untyped]

    if args.fsdp_plugin_args is None or torch.cuda.is_available():
        return
    # Every state takes this over from the one below it.
    args.distributed_state.distributed_type = DistributedType.FSDP
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "no"
    plugin = FullyShardedDataParallelPlugin(**args.fsdp_plugin_args)
    state = AcceleratorState(
        mixed_precision=precision,
        cpu=True,
        dynamo_plugin=TorchDynamoPlugin(),
        fsdp_plugin=plugin,
        _from_accelerator=True,
    )
    if precision != "no":
        plugin.set_mixed_precision(precision)
    state.fsdp_plugin = plugin
