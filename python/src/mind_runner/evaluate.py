"""`python -m mind_runner evaluate`: scores the model of a request, and reports each result with its standard error.

A benchmark is a published task of lm-eval, a task of one's own (a folder of lm-eval's YAML, or a JSONL file), or the
perplexity of a text. One that fails is reported as a result with its error; the others go on.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mind_runner import errors
from mindcoordinator import training

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """One benchmark of the request."""

    name: str
    num_samples: int | None
    dataset: str
    parameters: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m mind_runner evaluate`."""
    parser.add_argument(
        "--config", default=os.environ.get("MIND_CONFIG"), help="file with the request (default: $MIND_CONFIG)"
    )


def run(args: argparse.Namespace) -> int:
    """Scores, and returns the exit code: 0 when at least one benchmark has a result."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        benchmarks = read(args.config)
        training.phase("EVALUATING")
        from mind_runner import evaluate_model

        model = evaluate_model.load(os.environ.get("MIND_MODEL_PATH"), _batch_size(benchmarks))
    except Exception as error:
        return _give_up(error)
    failed: list[errors.Failure] = []
    for done, benchmark in enumerate(benchmarks):
        training.progress(done, len(benchmarks))
        problem = _score(model, benchmark)
        if problem:
            failed.append(problem)
    training.progress(len(benchmarks), len(benchmarks))
    if len(failed) == len(benchmarks):
        return _give_up(errors.Failure(failed[0].error_type, f"no benchmark has a result: {failed[0].message}"))
    return 0


def read(path: str | None) -> list[Benchmark]:
    """Reads the benchmarks of a request."""
    if not path:
        raise errors.config("no request: give --config FILE, or set MIND_CONFIG")
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    given = request.get("evaluation_config", {}).get("benchmarks", [])
    if not given:
        raise errors.config("the request has no evaluation_config.benchmarks")
    return [
        Benchmark(
            b["name"], int(b.get("num_samples") or 0) or None, b.get("dataset", ""), dict(b.get("parameters", {}))
        )
        for b in given
    ]


def _score(model: Any, benchmark: Benchmark) -> errors.Failure | None:
    """Scores and reports one benchmark; returns what went wrong."""
    from mind_runner import evaluate_tasks

    try:
        results = evaluate_tasks.score(model, benchmark)
        for result in results:
            training.evaluation_result(result.name, result.metrics, num_samples=result.num_samples)
            log.info("%s: %s (%d samples)", result.name, _shown(result.metrics), result.num_samples)
        return None
    except Exception as error:
        if not isinstance(error, errors.Failure):
            traceback.print_exc()
        failure = errors.classify(error)
        message = failure.message
        if failure.error_type == errors.OOM:
            size = benchmark.parameters.get("batch_size", "8")
            message = f"out of memory: give the parameter batch_size a smaller value than {size}"
        training.evaluation_result(benchmark.name, error=message)
        print(f"{benchmark.name}: {message}", file=sys.stderr)
        return errors.Failure(failure.error_type, f"{benchmark.name}: {message}")


def _batch_size(benchmarks: list[Benchmark]) -> int:
    """The smallest batch size that a benchmark asks for; the model has one for all of them."""
    sizes = [b.parameters["batch_size"] for b in benchmarks if "batch_size" in b.parameters]
    try:
        return min((int(size) for size in sizes), default=8)
    except ValueError:
        raise errors.config(f"parameters.batch_size is {sizes}, and must be a whole number") from None


def _shown(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def _give_up(error: Exception) -> int:
    if not isinstance(error, errors.Failure):
        traceback.print_exc()
    failure = errors.classify(error)
    training.error(failure.error_type or errors.EXIT_NONZERO, failure.message)
    print(f"{failure.error_type or 'error'}: {failure.message}", file=sys.stderr)
    return 1
