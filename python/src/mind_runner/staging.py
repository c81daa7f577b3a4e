"""The state of a training, copied to memory, so that a thread can write it while the training goes on.

The small parts of a checkpoint (random states, learning rate, tokenizer) are written at once. Weights and optimizer
are copied by torch.distributed.checkpoint's stager, which keeps its buffers, pinned where there is a GPU. What was
gathered from other ranks is a copy already. The files are those that the trainer would have written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils import _pytree as pytree

from mind_runner import memory
from mind_runner.group import Group

log = logging.getLogger(__name__)

# The names that the trainer and accelerate give their files, and look for on a resume.
_FSDP_WEIGHTS, _FSDP_OPTIMIZER = "pytorch_model_fsdp", "optimizer"
_OPTIMIZER, _SCHEDULER, _ARGUMENTS = "optimizer.pt", "scheduler.pt", "training_args.bin"


class Staging:
    """Takes what a checkpoint is made of, and leaves what is to be written later."""

    def __init__(self, beside: Group) -> None:
        # The group over which the threads that write agree.
        self.beside = beside
        self.later: list[Callable[[], None]] = []
        self._stager: Any = None
        self._room: bool | None = None

    def take(self) -> list[Callable[[], None]]:
        """What is to be written; the next checkpoint begins with nothing."""
        taken, self.later = self.later, []
        return taken

    def weights(self, trainer: Any, folder: Path) -> bool:
        """Stages the weights; False if the trainer has to write them itself, as those of an adapter."""
        if not self._stageable(trainer) or not isinstance(trainer.model, transformers.PreTrainedModel):
            return False
        if _sharded(trainer):
            return True  # the trainer writes them beside the optimizer alone
        if trainer.is_fsdp_enabled:
            state = self._own(_fsdp_weights(trainer), trainer)
        elif trainer.args.should_save:
            state = self._own(dict(trainer.model.state_dict()), trainer)
        if not trainer.args.should_save:
            return True
        folder.mkdir(parents=True, exist_ok=True)
        if trainer.is_fsdp_enabled:
            self._save(state, folder / f"{_FSDP_WEIGHTS}.bin")
        model = trainer.model
        # The last: it takes entries out of the dictionary.
        self.later.append(lambda: model.save_pretrained(folder, state_dict=dict(state), is_main_process=True))
        if trainer.processing_class is not None:
            trainer.processing_class.save_pretrained(folder)
        torch.save(trainer.args, folder / _ARGUMENTS)
        return True

    def optimizer(self, trainer: Any, folder: Path) -> bool:
        """Stages the optimizer; False if the trainer has to write it itself, as that of DeepSpeed."""
        if not self._stageable(trainer):
            return False
        if trainer.is_fsdp_enabled:
            if not isinstance(trainer.model, transformers.PreTrainedModel):
                return False  # an adapter
            if _sharded(trainer):
                self._shard({"model": _fsdp_weights(trainer)}, folder / f"{_FSDP_WEIGHTS}_0", trainer)
                self._shard({"optimizer": _fsdp_optimizer(trainer)}, folder / f"{_FSDP_OPTIMIZER}_0", trainer)
            else:
                state = self._own(_fsdp_optimizer(trainer), trainer)
                if trainer.args.should_save:
                    self._save(state, folder / f"{_FSDP_OPTIMIZER}.bin")
        elif trainer.args.should_save:
            self._save(self._own(trainer.optimizer.state_dict(), trainer), folder / _OPTIMIZER)
        if trainer.args.should_save:
            torch.save(trainer.lr_scheduler.state_dict(), folder / _SCHEDULER)
        return True

    def _stageable(self, trainer: Any) -> bool:
        if trainer.is_deepspeed_enabled:
            return False
        if self._room is None:
            # Asked once, by all ranks: the buffers are kept.
            self._stager = _stager()
            self._room = not self.beside.any(self._stager is None or not memory.fits(_needed(trainer)))
            if not self._room:
                log.warning(
                    "%s: the training stands still while a checkpoint is written",
                    f"torch {torch.__version__} cannot copy the state of a training"
                    if self._stager is None
                    else f"the memory of the hosts has no room for a copy of the state ({_needed(trainer) >> 20} MiB)",
                )
        return self._room

    def _save(self, state: Any, path: Path) -> None:
        self.later.append(lambda: torch.save(state, path))

    def _shard(self, state: dict[str, Any], folder: Path, trainer: Any) -> None:
        """Every rank writes its share, and rank 0 says where what is."""
        import torch.distributed.checkpoint as dcp

        folder.mkdir(parents=True, exist_ok=True)
        own = self._own(state, trainer)
        self.later.append(
            lambda: dcp.save(own, storage_writer=dcp.FileSystemWriter(folder), process_group=self.beside.processes)
        )

    def _own(self, state: Any, trainer: Any) -> Any:
        """The state with copies in place of all that the training will change."""
        live = _live(trainer)
        leaves, shape = pytree.tree_flatten(state)
        shared = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and _is_live(leaf, live)]
        # All in one: it waits once for the copies from a GPU.
        for i, copy in zip(shared, self._stager.stage([leaves[i] for i in shared]), strict=True):
            leaves[i] = copy
        return pytree.tree_unflatten(leaves, shape)


def _stager() -> Any:
    """What copies tensors; None with a torch that has no such thing yet."""
    try:
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    except ImportError:
        return None
    cuda = torch.cuda.is_available()
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=cuda, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=cuda
        )
    )


def _sharded(trainer: Any) -> bool:
    return bool(trainer.is_fsdp_enabled) and "SHARDED" in str(trainer.accelerator.state.fsdp_plugin.state_dict_type)


def _options(trainer: Any) -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions

    full = not _sharded(trainer)
    gather = full and trainer.args.world_size > 1
    return StateDictOptions(full_state_dict=full, cpu_offload=gather, broadcast_from_rank0=gather)


def _fsdp_weights(trainer: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    state: dict[str, Any] = get_model_state_dict(trainer.model, options=_options(trainer))
    return state


def _fsdp_optimizer(trainer: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    state: dict[str, Any] = get_optimizer_state_dict(trainer.model, trainer.optimizer, options=_options(trainer))
    return state


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _kept(trainer: Any) -> list[torch.Tensor]:
    """What the training keeps its state in."""
    state = pytree.tree_leaves(list(trainer.optimizer.state.values()))
    # The weights of an adapter are not staged, and those of its base do not change.
    whole = isinstance(trainer.model, transformers.PreTrainedModel)
    weights = [*trainer.model.parameters(), *trainer.model.buffers()] if whole else []
    return [*weights, *(value for value in state if isinstance(value, torch.Tensor))]


def _live(trainer: Any) -> set[int]:
    """Where in memory that is."""
    return {_local(tensor).untyped_storage().data_ptr() for tensor in _kept(trainer)}


def _needed(trainer: Any) -> int:
    """The bytes of memory that a copy takes, of all ranks of this node that make one."""
    if _sharded(trainer):
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", trainer.args.world_size))
        return ranks * sum(int(_local(tensor).nbytes) for tensor in _kept(trainer))
    return sum(int(tensor.nbytes) for tensor in _kept(trainer)) if trainer.args.should_save else 0


def _is_live(tensor: torch.Tensor, live: set[int]) -> bool:
    local = _local(tensor)
    return local.device.type != "cpu" or local.untyped_storage().data_ptr() in live
