"""What the switch ``MIND_AUTO`` does to the trainer of Lightning."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import Any

from _mindcoordinator_auto import complain
from mindcoordinator import training

from ._directories import publish, staging
from ._switch import Once, careful

_FILE = "lightning.ckpt"


def patch(module: Any) -> None:
    """Let each trainer have the callback, and what it saves count as checkpoints of the job."""
    trainer = module.Trainer
    trainer.__init__ = _with_callback(trainer.__init__)
    trainer.fit = _told(trainer.fit, Once())
    trainer.save_checkpoint = _counted(trainer.save_checkpoint)


def _with_callback(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            from .lightning import MindCallback

            # A script that brings the callback itself does the rest itself, too.
            if not any(isinstance(c, MindCallback) for c in self.callbacks):
                self.mind_callback = careful(MindCallback)()
                self.callbacks.insert(0, self.mind_callback)  # those that save stay the last
        except Exception as e:
            complain("adds no callback", e)

    return wrapped


def _told(fit: Any, once: Once) -> Any:
    @functools.wraps(fit)
    def wrapped(
        self: Any,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: Any = None,
        ckpt_path: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        callback = getattr(self, "mind_callback", None)
        if callback is not None and ckpt_path is None:
            path = once.path(_FILE)
            ckpt_path = os.path.join(path, _FILE) if path else None
        out = fit(self, model, train_dataloaders, val_dataloaders, datamodule, ckpt_path, *args, **kwargs)
        if callback is not None and callback.stopped:
            # What follows in the script is for the end of a training: it would take what is half trained for a model.
            raise SystemExit(training.STOPPED)
        return out

    return wrapped


def _counted(save: Any) -> Any:
    @functools.wraps(save)
    def wrapped(self: Any, filepath: Any, weights_only: Any = None, *args: Any, **kwargs: Any) -> None:
        save(self, filepath, weights_only, *args, **kwargs)
        if not hasattr(self, "mind_callback") or weights_only or not self.is_global_zero:
            return
        try:
            _register(Path(filepath), self)
        except Exception as e:
            complain("registers no checkpoint", e)

    return wrapped


def _register(file: Path, trainer: Any) -> None:
    """Make a directory of a file that Lightning has saved: only directories are checkpoints of a job."""
    from .lightning import figures

    step = trainer.global_step
    final = Path(training.checkpoint_dir()) / f"checkpoint-{step}"
    # Of several files of one step the first counts. A strategy that writes a shard for each rank leaves a directory,
    # which is not gathered here.
    if getattr(trainer, "mind_step", None) == step or not file.is_file():
        return
    trainer.mind_step = step
    if file.name == _FILE:
        return  # the callback saves it, in its directory
    path = staging(final)
    try:
        os.link(file, path / _FILE)  # Lightning writes a new file each time
    except OSError:
        shutil.copyfile(file, path / _FILE)
    publish(path, final)
    training.checkpoint(final, step, figures(trainer))
