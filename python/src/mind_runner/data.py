"""The data of a request: its sources as data sets with the columns that the training type needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mind_runner import rows, streams
from mind_runner.errors import DATA_FETCH, DATA_FORMAT, Failure, config
from mind_runner.place import Place
from mind_runner.request import Request, Source

# What a training type can be trained on: the first set of columns that a source has is used.
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "SFT": (("messages",), ("prompt", "completion"), ("text",)),
    "DPO": (("prompt", "chosen", "rejected"), ("chosen", "rejected")),
    "RLHF": (("prompt",),),
    "CONTINUED_PRETRAIN": (("text",),),
}
SHAPES["LORA"] = SHAPES["QLORA"] = SHAPES["FULL_FINETUNE"] = SHAPES["SFT"]

# The loader of the datasets library by the end of a file's name, or by the format that the request gives.
LOADERS = {
    "jsonl": "json", "json": "json", "ndjson": "json", "csv": "csv", "tsv": "csv", "parquet": "parquet",
    "arrow": "arrow", "txt": "text", "text": "text", "md": "text",
}  # fmt: skip
EVALUATION_SPLITS = ("validation", "valid", "val", "dev", "eval", "evaluation")


@dataclass(frozen=True)
class Loaded:
    """What there is to train on, to evaluate on, and the columns that are used."""

    train: Any
    evaluation: Any | None
    columns: tuple[str, ...]
    # The files of lines of JSON, by source: where to look for a row that a library could not read.
    lines: tuple[tuple[Files, tuple[Path, ...]], ...] = ()

    @property
    def conversational(self) -> bool:
        """Whether a row is a list of messages rather than text."""
        first = next(iter(self.train))
        return any(isinstance(first[c], list) for c in self.columns if c in ("messages", "prompt", "chosen"))


@dataclass(frozen=True)
class Files:
    """The files of one source on this node."""

    name: str
    root: Path
    files: tuple[Path, ...]
    whole: bool

    def called(self, file: Path) -> str:
        """How the user knows a file: by the source it belongs to."""
        below = "" if file == self.root else str(file.relative_to(self.root))
        name = self.name.rstrip("/")
        # The node puts a source that is one file into a folder of its own, under its name.
        alone = len(self.files) == 1 and name.split("?")[0].endswith("/" + below) and not Path(name).is_dir()
        return self.name if not below or alone else f"{name}/{below}"


def load(request: Request, place: Place, streaming: bool = False) -> Loaded:
    """Loads all sources of the request."""
    import datasets

    if not request.data.sources:
        raise config("data_config.sources is empty: name at least one file, folder or data set")
    train: list[Any] = []
    evaluation: list[Any] = []
    lines = []
    for index, source in enumerate(request.data.sources):
        files = find(source, index, place)
        loader, chosen = _chosen(source, files)
        if loader == "json":
            lines.append((files, chosen))
        data = _source(request, source, files, loader, chosen, streaming)
        (evaluation if source.split.lower() in EVALUATION_SPLITS else train).append(data)
    if not train:
        raise config("data_config.sources has only sources of evaluation splits: add one to train on")
    columns = _common([set(d.column_names) for d in (*train, *evaluation)], request)
    joined = datasets.concatenate_datasets([d.select_columns(_kept(d, columns, request)) for d in train])
    held = datasets.concatenate_datasets([d.select_columns(list(columns)) for d in evaluation]) if evaluation else None
    if held is None and request.data.validation_split > 0:
        parts = joined.train_test_split(test_size=request.data.validation_split, seed=request.data.seed or 0)
        joined, held = parts["train"], parts["test"]
    if not streaming and len(joined) == 0:
        raise Failure(
            DATA_FORMAT, "no row is left to train on: look at the filters and the sampling of data_config.sources"
        )
    if streaming:
        joined = streams.endless(joined)
    return Loaded(joined, held, columns, tuple(lines))


def find(source: Source, index: int, place: Place) -> Files:
    """Finds what the node has of a source: by the manifest, or by the path where there is no manifest."""
    for entry in place.manifest.get("sources") or []:
        if entry.get("index") == index:
            root = Path(entry["dir"])
            names = entry.get("files")
            listed = [root / n for n in names] if names is not None else _walk(root)
            return Files(source.path, root, tuple(listed), source.path.startswith("hf://"))
    root = Path(source.path.removeprefix("file://"))
    if not root.exists():
        raise Failure(
            DATA_FETCH, f"data source {source.path} is not on this node: give a path that every node has, or a URL"
        )
    if root.is_file():
        return Files(source.path, root, (root,), False)
    return Files(source.path, root, tuple(_walk(root)), False)


def _walk(root: Path) -> list[Path]:
    found = (Path(folder) / f for folder, _, files in os.walk(root, followlinks=True) for f in files)
    return sorted(p for p in found if not p.name.startswith("."))


def _source(
    request: Request, source: Source, files: Files, loader: str, chosen: tuple[Path, ...], streaming: bool
) -> Any:
    import datasets

    single = files.name if len(files.files) == 1 else None
    try:
        if files.whole or (source.split and len(chosen) > 1):
            data = datasets.load_dataset(str(files.root), split=source.split or "train", streaming=streaming)
        else:
            options: dict[str, Any] = {"sep": "\t"} if chosen[0].suffix == ".tsv" else {}
            paths = [str(f) for f in chosen]
            data = datasets.load_dataset(loader, data_files=paths, split="train", streaming=streaming, **options)
        if streaming:
            data = streams.typed(data, files)
    except (datasets.exceptions.DatasetGenerationError, ValueError, TypeError, KeyError) as error:
        if loader == "json":
            rows.check_json(files, chosen, expected(request.training_type))
        cause = error.__cause__ or error
        raise Failure(
            DATA_FORMAT, f"{single or files.name} cannot be read as {loader}: {' '.join(str(cause).split())[:300]}"
        ) from error
    data = _renamed(request, source, files, data)
    if streaming:
        data = streams.checked(data, files, request.training_type)
    else:
        rows.check_columns(data, files, chosen if loader == "json" else (), request.training_type)
    return _sampled(source, _filtered(source, data), request.data.seed or 0)


def _chosen(source: Source, files: Files) -> tuple[str, tuple[Path, ...]]:
    """The files that hold rows, and their loader: those of the format that is given, else of the most frequent one."""
    by_loader: dict[str, list[Path]] = {}
    for file in files.files:
        name = file.name.lower().removesuffix(".gz").removesuffix(".zst")
        loader = LOADERS.get(name.rpartition(".")[2])
        # The README of a data set is no data, unless it is all there is.
        if loader and (len(files.files) == 1 or not name.startswith(("readme", "license"))):
            by_loader.setdefault(loader, []).append(file)
    if source.format:
        loader = LOADERS.get(source.format)
        if loader is None:
            raise config(
                f"data source {source.path} has the format {source.format!r}: give one of {', '.join(LOADERS)}"
            )
        return loader, tuple(by_loader.get(loader) or files.files)
    if not by_loader:
        raise Failure(
            DATA_FORMAT,
            f"{files.name} has no file with a known ending: give the format of the source ({', '.join(LOADERS)})",
        )
    loader = max(by_loader, key=lambda k: len(by_loader[k]))
    return loader, tuple(by_loader[loader])


def _renamed(request: Request, source: Source, files: Files, data: Any) -> Any:
    """Gives columns the names that the training needs: preprocess.field_mapping is {our name: name in the data}."""
    mapping = request.data.preprocess.get("field_mapping") or {}
    names = list(data.column_names)
    for ours, theirs in mapping.items():
        if theirs not in names:
            raise Failure(
                DATA_FORMAT,
                f"{files.name} has no column {theirs!r} (field_mapping of {ours}): it has {', '.join(names)}",
            )
    if source.columns:
        missing = [c for c in source.columns if c not in names]
        if missing:
            raise Failure(
                DATA_FORMAT, f"{files.name} has no column {missing[0]!r} (columns): it has {', '.join(names)}"
            )
        data = data.select_columns(list(source.columns))
    # A column that stands where another goes would make two of the same name.
    taken = [ours for ours, theirs in mapping.items() if ours != theirs and ours in data.column_names]
    if taken:
        data = data.remove_columns(taken)
    data = data.rename_columns({theirs: ours for ours, theirs in mapping.items() if ours != theirs})
    names = list(data.column_names)
    if not any(set(shape) <= set(names) for shape in SHAPES[request.training_type]):
        raise Failure(
            DATA_FORMAT,
            f"{files.name} has the columns {', '.join(names)}: "
            f"{request.training_type} needs {expected(request.training_type)} "
            "(data_config.preprocess.field_mapping gives columns other names)",
        )
    return data


def expected(kind: str) -> str:
    """Says which columns a training type needs."""
    return ", or ".join(" and ".join(shape) for shape in SHAPES[kind])


def _filtered(source: Source, data: Any) -> Any:
    for column, want in source.filters.items():
        if column not in data.column_names:
            raise config(f"filters of {source.path} name the column {column!r}, which it does not have")
        if isinstance(want, dict):
            low, high = want.get("min", float("-inf")), want.get("max", float("inf"))
            data = data.filter(lambda v, low=low, high=high: low <= v <= high, input_columns=[column])
        else:
            values = want if isinstance(want, list) else [want]
            data = data.filter(lambda v, values=values: v in values, input_columns=[column])
    return data


def _sampled(source: Source, data: Any, seed: int) -> Any:
    sampling = source.sampling
    unknown = set(sampling) - {"fraction", "max_samples", "shuffle", "seed"}
    if unknown:
        raise config(
            f"sampling of {source.path} has {sorted(unknown)[0]!r}: it takes fraction, max_samples, shuffle, seed"
        )
    if sampling.get("shuffle"):
        data = data.shuffle(seed=int(sampling.get("seed", seed)))
    most = sampling.get("max_samples")
    if "fraction" in sampling:
        if not hasattr(data, "__len__"):
            raise config(f"sampling.fraction of {source.path} cannot be taken from a stream: give max_samples")
        most = min(most or len(data), max(1, int(len(data) * float(sampling["fraction"]))))
    if most is None:
        return data
    return data.take(int(most)) if not hasattr(data, "__len__") else data.select(range(min(int(most), len(data))))


def _common(names: Iterable[set[str]], request: Request) -> tuple[str, ...]:
    """The first shape that all sources have."""
    all_ = list(names)
    for shape in SHAPES[request.training_type]:
        if all(set(shape) <= have for have in all_):
            return shape
    raise Failure(
        DATA_FORMAT,
        f"the sources have no columns in common that {request.training_type} can use: "
        f"{expected(request.training_type)}",
    )


def _kept(data: Any, columns: tuple[str, ...], request: Request) -> list[str]:
    # Reward functions get the other columns of a row, such as its answer.
    return list(data.column_names) if request.training_type == "RLHF" else list(columns)
