"""Failures that a user can do something about: an error type of Mind and a sentence that says what to do."""

from __future__ import annotations

import errno

OOM = "OOM"
MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
DATA_FETCH = "DATA_FETCH"
DATA_FORMAT = "DATA_FORMAT"
CONFIG = "CONFIG"
DIVERGED = "DIVERGED"
EXIT_NONZERO = "EXIT_NONZERO"

# Distributions whose name is not that of the module, and those that an extra of mindcoordinator brings.
_DISTRIBUTIONS = {"yaml": "pyyaml", "sklearn": "scikit-learn", "PIL": "pillow", "google": "protobuf"}
_EXTRAS = {"torch", "transformers", "datasets", "accelerate", "peft", "trl", "safetensors"}


class Failure(Exception):
    """A failure with its error type. Without a type the failure is an exit like any other."""

    def __init__(self, error_type: str | None, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


class Peer(Failure):
    """A failure that another rank's has caused."""

    def __init__(self, message: str) -> None:
        super().__init__(None, message)


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
    full = _full_disk(error)
    if full:
        return Failure(None, f"no space left on the device: {full[:300]}: free some, or keep fewer checkpoints")
    if _is_peer(text):
        return Peer(f"another rank is gone, see what it says: {text[:200]}")
    return Failure(None, described(error))


def described(error: BaseException) -> str:
    """The type and the message of what was raised, in one line."""
    text = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _full_disk(error: BaseException) -> str:
    """What says that a disk is full: an error, or one that it was raised in place of; empty: nothing does."""
    seen: BaseException | None = error
    while seen is not None:
        text = " ".join(str(seen).split())
        if isinstance(seen, OSError) and seen.errno == errno.ENOSPC:
            return str(seen.filename or text)
        if any(words in text for words in _FULL):
            return text
        # torch's writer of files says where it failed, and not why.
        if isinstance(seen, RuntimeError) and any(words in text for words in _TORN):
            return f"torch could not write a file ({text})"
        seen = seen.__cause__ or seen.__context__
    return ""


_FULL = ("No space left on device", "os error 28", "Disk quota exceeded")
_TORN = ("inline_container.cc", "PytorchStreamWriter failed writing", "iostream error")


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
