"""The trainer of each training type. All are trl's; the mixin of the runner makes them report and save."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mind_runner.data import Loaded
from mind_runner.errors import DATA_FORMAT, Failure, classify, config, described
from mind_runner.request import Request


def build(
    request: Request,
    mixin: type,
    args: Any,
    model: Any,
    tokenizer: Any,
    data: Loaded,
    adapter: Any | None,
    own: dict[str, Any],
    callbacks: list[Any],
) -> Any:
    """Makes the trainer: its data is tokenized, its model wrapped in the adapter."""
    import trl

    if data.conversational and tokenizer.chat_template is None:
        raise config(
            "the rows are conversations and the tokenizer has no chat template: give "
            "data_config.preprocess.chat_template, or a tokenizer_id that has one"
        )
    base = {"DPO": trl.DPOTrainer, "RLHF": trl.GRPOTrainer}.get(request.training_type, trl.SFTTrainer)
    options: dict[str, Any] = {
        "model": model,
        "args": args,
        "train_dataset": data.train,
        "eval_dataset": data.evaluation,
        "processing_class": tokenizer,
        "peft_config": adapter,
        "callbacks": callbacks,
    }
    if request.training_type == "RLHF":
        options["reward_funcs"] = rewards(own)
    kind = type(f"Mind{base.__name__}", (mixin, base), {})
    try:
        trainer = kind(**options)
    except (ValueError, KeyError, TypeError) as error:
        raise _explained(error) from error
    if hasattr(trainer.train_dataset, "__len__") and len(trainer.train_dataset) == 0:
        raise Failure(
            DATA_FORMAT, "no row is left after tokenization: rows may be longer than data_config.max_seq_length"
        )
    return trainer


def _explained(error: Exception) -> Failure:
    text = " ".join(str(error).split())
    if "chat_template" in text or "template" in type(error).__name__.lower():
        return Failure(DATA_FORMAT, f"the chat template does not fit the rows: {text[:400]}")
    return config(text[:500] or type(error).__name__)


def rewards(own: dict[str, Any]) -> list[Any]:
    """What scores completions: a function FILE.py:NAME or MODULE:NAME, or a reward model by path or name."""
    found: list[Any] = []
    if own.get("reward_function"):
        found.append(_function(str(own["reward_function"])))
    if own.get("reward_model_id"):
        found.append(str(own["reward_model_id"]))
    if not found:
        raise config(
            "RLHF needs a reward: give the hyperparameter reward_function (FILE.py:NAME or MODULE:NAME) "
            "or reward_model_id"
        )
    return found


def _function(name: str) -> Callable[..., Any]:
    where, _, attribute = name.rpartition(":")
    if not where:
        raise config(f"reward_function is {name!r}: write FILE.py:NAME or MODULE:NAME")
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise config(f"reward_function is {name!r}, and this node has no {path}: put it where every node has it")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise config(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise config(f"{where} has no function {attribute} (reward_function)")
    return _explaining(name, function)


def _explaining(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which says of what it raises that it is the reward's."""

    def explained(error: Exception) -> Failure:
        failure = classify(error)
        if failure.error_type is not None:
            return failure
        at = traceback.extract_tb(error.__traceback__)[-1]
        return config(
            f"the reward_function {name} raised {described(error)} ({Path(at.filename).name}, line {at.lineno})"
        )

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                raise explained(error) from error

        return later

    @functools.wraps(function)
    def score(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise explained(error) from error

    return score
