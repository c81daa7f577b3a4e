"""The benchmarks of an evaluation: tasks of lm-eval, published or in a folder, and those of a file of one's own."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mind_runner import errors, evaluate_own
from mind_runner.evaluate import Benchmark

#: What `parameters` of a benchmark may have, and how each is read.
PARAMETERS: dict[str, Callable[[str], Any]] = {
    "apply_chat_template": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    "batch_size": int,
    "max_tokens": int,
    "metric": str,
    "num_fewshot": int,
    "seed": int,
    "system_instruction": str,
    "temperature": float,
    "top_p": float,
}


@dataclass(frozen=True)
class Result:
    """The figures of one benchmark, or of a part of it."""

    name: str
    metrics: dict[str, float]
    num_samples: int


def score(model: Any, benchmark: Benchmark) -> list[Result]:
    """Scores a model; the first result is that of the benchmark itself."""
    parameters = read_parameters(benchmark)
    path = _path(benchmark.dataset)
    if path is None:
        return _lm_eval(model, benchmark, parameters, _published(benchmark.name), benchmark.name)
    if path.is_dir():
        return _lm_eval(model, benchmark, parameters, _from_folder(path, benchmark.name), benchmark.name)
    if parameters.get("metric") == "perplexity" or path.suffix == ".txt":
        texts = evaluate_own.texts(path)
        return [Result(benchmark.name, *evaluate_own.perplexity(model, texts[: benchmark.num_samples]))]
    task = evaluate_own.task(benchmark.name, path, parameters)
    return _lm_eval(model, benchmark, parameters, None, task)


def read_parameters(benchmark: Benchmark) -> dict[str, Any]:
    """Reads the parameters of a benchmark; one that is not known is refused."""
    read = {}
    for name, text in benchmark.parameters.items():
        if name not in PARAMETERS:
            raise errors.config(f"parameters.{name} is not known; there are {', '.join(sorted(PARAMETERS))}")
        try:
            read[name] = PARAMETERS[name](text)
        except (ValueError, KeyError):
            raise errors.config(f"parameters.{name} is {text!r}, which cannot be read") from None
    return read


def _path(dataset: str) -> Path | None:
    """The file or folder that a dataset names; None: the benchmark has its own."""
    if not dataset:
        return None
    parts = urlsplit(dataset)
    if parts.scheme not in ("", "file"):
        return _fetched(dataset)
    path = Path(unquote(parts.path))
    if not path.is_absolute():
        path = Path(os.environ.get("MIND_DATA_DIR") or ".") / path
    if not path.exists():
        raise errors.Failure(errors.DATA_FETCH, f"dataset {path} is not on this node: put it where every node has it")
    return path


def _fetched(dataset: str) -> Path:
    """Where the node has put a dataset that is somewhere else: its only file, or the folder of its files."""
    manifest = os.environ.get("MIND_DATA_MANIFEST")
    sources = json.loads(Path(manifest).read_text(encoding="utf-8")).get("sources") or [] if manifest else []
    for entry in sources:
        if entry.get("path") == dataset:
            folder, files = Path(entry["dir"]), entry.get("files")
            return folder / files[0] if files and len(files) == 1 else folder
    raise errors.config(
        f"dataset {dataset} was not fetched to this node: update its agent, or give the path of a folder of tasks, "
        "a .jsonl or a .txt file"
    )


def _published(name: str) -> Any:
    from lm_eval.tasks import TaskManager

    manager = TaskManager()
    if name not in manager.all_tasks:
        import difflib

        near = difflib.get_close_matches(name, manager.all_tasks, n=1)
        hint = f": did you mean {near[0]}?" if near else "; `lm-eval ls tasks` lists them"
        raise errors.config(f"{name} is not a task of lm-eval{hint}")
    return manager


def _from_folder(folder: Path, name: str) -> Any:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    if name not in manager.all_tasks:
        raise errors.config(f"{folder} has no task {name}; it has {', '.join(sorted(manager.all_tasks)) or 'none'}")
    return manager


def _lm_eval(model: Any, benchmark: Benchmark, parameters: dict[str, Any], manager: Any, task: Any) -> list[Result]:
    import lm_eval

    generation = {to: parameters[name] for name, to in _GENERATION.items() if name in parameters}
    if "temperature" in parameters:
        generation["do_sample"] = parameters["temperature"] > 0
    seed = parameters.get("seed", 1234)
    found = lm_eval.simple_evaluate(
        model, tasks=[task], task_manager=manager, limit=benchmark.num_samples, bootstrap_iters=1000, log_samples=False,
        num_fewshot=parameters.get("num_fewshot"), gen_kwargs=generation or None,
        apply_chat_template=parameters.get("apply_chat_template", False),
        system_instruction=parameters.get("system_instruction"),
        random_seed=seed, numpy_random_seed=seed, torch_random_seed=seed, fewshot_random_seed=seed,
    )  # fmt: skip
    samples = {name: int(count["effective"]) for name, count in found.get("n-samples", {}).items()}
    results = {**found.get("groups", {}), **found["results"]}
    out = [
        Result(name, figures(row), samples.get(name) or sum(samples.values()))
        for name, row in results.items()
        if figures(row)
    ]
    if not out:
        raise errors.Failure(None, f"lm-eval has no figures of {benchmark.name}")
    return sorted(out, key=lambda result: result.name != benchmark.name)


_GENERATION = {"max_tokens": "max_gen_toks", "temperature": "temperature", "top_p": "top_p"}


def figures(row: dict[str, Any]) -> dict[str, float]:
    """Takes the figures of a row of lm-eval: `acc,none` is acc, `exact_match,strict` is exact_match/strict."""
    out = {}
    for key, value in row.items():
        metric, comma, chosen = key.partition(",")
        if not comma or not isinstance(value, (int, float)) or not math.isfinite(value):
            continue
        error = metric.endswith("_stderr")
        name = metric.removesuffix("_stderr") + ("" if chosen == "none" else f"/{chosen}")
        out[name + ("_stderr" if error else "")] = float(value)
    return out
