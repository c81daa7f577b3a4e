"""Looks for the row of the data that is wrong, to name its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mind_runner.errors import DATA_FORMAT, Failure

if TYPE_CHECKING:
    from mind_runner.data import Files

# Columns that are text, or a conversation: a list of messages.
_COLUMNS = ("messages", "text", "prompt", "completion", "chosen", "rejected")


def check_json(files: Files, chosen: Iterable[Path], expected: str) -> None:
    """Raises for the first line that is no JSON object, or whose value has another type than that of the lines before."""
    for file in chosen:
        if file.suffix not in (".jsonl", ".ndjson"):
            _check_document(files, file)
            continue
        first: dict[str, str] = {}
        for number, row in _lines(files, file, expected):
            for name, value in row.items():
                kind = type(value).__name__
                if name in _COLUMNS and value is not None and first.setdefault(name, kind) != kind:
                    raise Failure(
                        DATA_FORMAT,
                        f"{files.called(file)}, line {number}: {name} is {kind} here and {first[name]} in the lines before",
                    )


def _lines(files: Files, file: Path, expected: str) -> Iterable[tuple[int, dict[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise Failure(
                    DATA_FORMAT,
                    f"{files.called(file)}, line {number}: not JSON ({error}): each line must be one object with {expected}",
                ) from error
            if not isinstance(row, dict):
                raise Failure(
                    DATA_FORMAT,
                    f"{files.called(file)}, line {number}: it is {type(row).__name__}, and must be an object with {expected}",
                )
            yield number, row


def _check_document(files: Files, file: Path) -> None:
    try:
        json.loads(file.read_bytes())
    except ValueError as error:
        # A .json file may hold lines of JSON, too; then the loader has another reason.
        if "Extra data" not in str(error):
            raise Failure(DATA_FORMAT, f"{files.called(file)}: not JSON ({error})") from error


def check_columns(data: Any, files: Files, chosen: Iterable[Path], kind: str) -> None:
    """Raises when a column that is needed has a wrong type or a row without a value."""
    from mind_runner.data import SHAPES, expected

    shape = next(s for s in SHAPES[kind] if set(s) <= set(data.column_names))
    for name in shape:
        feature = data.features[name]
        text = str(getattr(feature, "dtype", "")) in ("string", "large_string")
        if not text and not _is_list(feature):
            what = getattr(feature, "dtype", feature)
            raise Failure(DATA_FORMAT, f"{files.name}: the column {name} is {what}, and must be text or a list of messages")
        if data.data.column(name).null_count:
            where = _first_null(files, chosen, name, expected(kind)) or f"{files.name}, row {_index_of_null(data, name)}"
            raise Failure(DATA_FORMAT, f"{where}: {name} is missing: each row must have {' and '.join(shape)}")
        if not text and name == "messages":
            _check_messages(data, files)


def _is_list(feature: Any) -> bool:
    return isinstance(feature, list) or type(feature).__name__ in ("List", "LargeList", "Sequence", "Json")


def _check_messages(data: Any, files: Files) -> None:
    messages = data[0]["messages"]
    if not messages or not all(isinstance(m, dict) and {"role", "content"} <= set(m) for m in messages):
        raise Failure(
            DATA_FORMAT, f"{files.name}, row 1: messages must be a list of objects with role and content, not {str(messages)[:120]}"
        )


def _first_null(files: Files, chosen: Iterable[Path], name: str, expected: str) -> str | None:
    for file in chosen:
        if file.suffix in (".jsonl", ".ndjson"):
            for number, row in _lines(files, file, expected):
                if row.get(name) is None:
                    return f"{files.called(file)}, line {number}"
    return None


def _index_of_null(data: Any, name: str) -> int:
    column = data.data.column(name)
    return next(i for i in range(len(column)) if not column[i].is_valid) + 1
