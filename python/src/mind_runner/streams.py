"""Data that is read while the training goes on, for data sets that are larger than memory and disk caches allow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mind_runner import rows
from mind_runner.errors import DATA_FORMAT, Failure, config

if TYPE_CHECKING:
    from mind_runner.data import Files
    from mind_runner.request import Request


def check_length(request: Request, args: Any) -> None:
    """Refuses a training whose end is not known: a stream has no number of rows, and so no epochs."""
    if args.max_steps <= 0:
        raise config(
            f"{request.training_type} with streaming needs the hyperparameter max_steps: "
            "the number of rows of a stream is not known"
        )
    if request.data.validation_split > 0:
        raise config("a validation_split cannot be taken from a stream: give a source with split validation")


def typed(data: Any, files: Files) -> Any:
    """The columns of a stream are known when its first rows were read."""
    if next(iter(data), None) is None:
        raise Failure(DATA_FORMAT, f"{files.name} has no rows")
    # Public methods read the first rows, too, and forget their types.
    return data._resolve_features()


def checked(data: Any, files: Files, kind: str) -> Any:
    """Looks at each row when it is read, as rows.check_columns does before a training that does not stream."""
    from mind_runner.data import SHAPES

    shape = next(s for s in SHAPES[kind] if set(s) <= set(data.column_names))

    def check(*values: Any) -> bool:
        *columns, index = values
        for name, value in zip(shape, columns, strict=True):
            if not isinstance(value, str | list):
                what = "missing" if value is None else type(value).__name__
                raise Failure(
                    DATA_FORMAT,
                    f"{files.name}, row {index + 1}: {name} is {what}: "
                    f"each row must have {' and '.join(shape)}, as text or a list of messages",
                )
        return True

    return data.filter(check, with_indices=True, input_columns=list(shape))


def endless(data: Any) -> Any:
    """The rows again and again: so the number of samples is the place in the data, after the first pass, too."""
    return data.repeat(None)


def explained(error: Exception, sources: Iterable[tuple[Files, tuple[Path, ...]]], expected: str) -> Exception:
    """What a library says of a row that it cannot read names no line: looks for it in the files."""
    import datasets

    kinds = (datasets.exceptions.DatasetGenerationError, ValueError, TypeError, KeyError)
    if isinstance(error, Failure) or not isinstance(error, kinds):
        return error
    for files, chosen in sources:
        try:
            rows.check_json(files, chosen, expected)
        except Failure as failure:
            return failure
    return error
