"""What the switch ``MIND_AUTO`` does to ``transformers.Trainer``, and with it to trl and to published scripts."""

from __future__ import annotations

import functools
from typing import Any

from _mindcoordinator_auto import complain
from mindcoordinator import training

from ._switch import Once, careful


def patch(module: Any) -> None:
    """Let each trainer have the callback, continue from the checkpoint of the job, and end as a stopped job ends."""
    trainer = module.Trainer
    trainer.__init__ = _with_callback(trainer.__init__)
    trainer.train = _told(trainer.train, Once())


def _with_callback(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            from .huggingface import MindCallback

            # A script that brings the callback itself does the rest itself, too.
            if not any(isinstance(c, MindCallback) for c in self.callback_handler.callbacks):
                self.mind_callback = careful(MindCallback)()
                self.add_callback(self.mind_callback)
        except Exception as e:
            complain("adds no callback", e)

    return wrapped


def _told(train: Any, once: Once) -> Any:
    @functools.wraps(train)
    def wrapped(self: Any, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **kwargs: Any) -> Any:
        callback = getattr(self, "mind_callback", None)
        # None: the script says nothing. True, False and a path are its own choice; a trial begins at the beginning.
        if callback is not None and resume_from_checkpoint is None and trial is None:
            resume_from_checkpoint = once.path("trainer_state.json")
        out = train(self, resume_from_checkpoint, trial, *args, **kwargs)
        if callback is not None and callback.stopped:
            # What follows in the script is for the end of a training: it would take what is half trained for a model.
            raise SystemExit(training.STOPPED)
        return out

    return wrapped
