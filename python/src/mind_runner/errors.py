"""Failures that a user can do something about: an error type of Mind and a sentence that says what to do."""

from __future__ import annotations

import errno

OOM = "OOM"
MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
DATA_FETCH = "DATA_FETCH"
DATA_FORMAT = "DATA_FORMAT"
CONFIG = "CONFIG"
DIVERGED = "DIVERGED"

# Distributions whose name is not that of the module, and those that an extra of mindcoordinator brings.
_DISTRIBUTIONS = {"yaml": "pyyaml", "sklearn": "scikit-learn", "PIL": "pillow", "google": "protobuf"}
_EXTRAS = {"torch", "transformers", "datasets", "accelerate", "peft", "trl", "safetensors"}


class Failure(Exception):
    """A failure with its error type. Without a type the failure is an exit like any other."""

    def __init__(self, error_type: str | None, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


def config(message: str) -> Failure:
    """A failure that the user repairs in the request, or the operator on the node."""
    return Failure(CONFIG, message)


def missing_package(module: str) -> Failure:
    """The failure for a module that is not installed, with the line that installs it."""
    name = module.split(".")[0]
    what = "'mindcoordinator[train]'" if name in _EXTRAS else _DISTRIBUTIONS.get(name, name)
    return config(f"the Python of this node has no {name}: run python3 -m pip install {what}")


def classify(error: BaseException, batch_size: int | None = None, accumulation: int = 1) -> Failure:
    """Turns any exception into a Failure. What a user cannot change keeps its own words, and no type."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name:
        return missing_package(error.name)
    text = " ".join(str(error).split())
    if _is_memory(error, text):
        return Failure(OOM, f"out of memory: {_smaller(batch_size, accumulation)} ({text[:200]})")
    if isinstance(error, ImportError):
        return config(text[:500])
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return Failure(
            None, f"no space left on the device: {error.filename or text}: free some, or keep fewer checkpoints"
        )
    if _is_peer(text):
        return Failure(None, f"another rank is gone, see what it says: {text[:200]}")
    return Failure(None, f"{type(error).__name__}: {text[:500]}")


def _is_memory(error: BaseException, text: str) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def _is_peer(text: str) -> bool:
    return any(
        s in text
        for s in ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL error: remote")
    )


def _smaller(batch_size: int | None, accumulation: int) -> str:
    if batch_size is not None and batch_size > 1:
        half = batch_size // 2
        more = -(-accumulation * batch_size // half)
        return (
            f"per_device_train_batch_size {batch_size} does not fit, try {half} "
            f"with gradient_accumulation_steps {more}, which trains the same"
        )
    return (
        "per_device_train_batch_size 1 does not fit: try gradient_checkpointing true, "
        "a smaller data_config.max_seq_length, LORA, or more GPUs with the framework FSDP"
    )
