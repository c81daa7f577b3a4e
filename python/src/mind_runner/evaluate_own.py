"""Benchmarks of one's own: rows of prompt and answer with a metric, and the perplexity of texts."""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

from mind_runner import errors

DATA_FORMAT = errors.DATA_FORMAT


def rows(path: Path) -> list[dict[str, Any]]:
    """Reads a JSONL file; the error names the line."""
    found = []
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    raise errors.Failure(DATA_FORMAT, f"{path}:{number} is not JSON: {error.msg}") from error
                if not isinstance(row, dict):
                    raise errors.Failure(DATA_FORMAT, f"{path}:{number} is not an object such as {_EXAMPLE}")
                found.append({**row, "_line": number})
        except UnicodeDecodeError as error:
            raise errors.Failure(DATA_FORMAT, f"{path} is not UTF-8: {error.reason}") from error
    if not found:
        raise errors.Failure(DATA_FORMAT, f"{path} has no rows")
    return found


_EXAMPLE = '{"prompt": "2 + 2 =", "answer": "4"}'


def task(name: str, path: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """Makes a task for lm-eval of a JSONL file with prompt and answer; with choices it is multiple choice."""
    docs = rows(path)
    metric = parameters.get("metric", "exact_match")
    for row in docs:
        _check(path, row)
    choice = "choices" in docs[0]
    if not choice and metric not in (*METRICS, "all"):
        raise errors.config(f"parameters.metric is {metric}, and must be one of {', '.join(METRICS)}, all, perplexity")
    common: dict[str, Any] = {
        "task": name,
        "custom_dataset": lambda **_: {"test": _dataset(docs)},
        "test_split": "test",
        "num_fewshot": 0,
        "doc_to_text": lambda doc: doc["prompt"],
        "metadata": {"version": 1},
    }
    if choice:
        return {
            **common,
            "output_type": "multiple_choice",
            "doc_to_choice": lambda doc: doc["choices"],
            "doc_to_target": lambda doc: doc["choices"].index(doc["answers"][0]),
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        }
    measured = list(METRICS) if metric == "all" else [metric]
    return {
        **common,
        "output_type": "generate_until",
        "doc_to_target": lambda doc: doc["answers"][0],
        "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 64},
        "process_results": lambda doc, results: {m: METRICS[m](results[0], doc["answers"]) for m in measured},
        "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in measured],
    }


def _dataset(docs: list[dict[str, Any]]) -> Any:
    import datasets

    columns = [{"prompt": row["prompt"], "answers": _answers(row), "choices": row.get("choices") or []} for row in docs]
    return datasets.Dataset.from_list(columns)


def _check(path: Path, row: dict[str, Any]) -> None:
    where = f"{path}:{row['_line']}"
    if not isinstance(row.get("prompt"), str):
        raise errors.Failure(DATA_FORMAT, f"{where} has no text prompt; expected is {_EXAMPLE}")
    answer, choices = row.get("answer"), row.get("choices")
    if choices is not None:
        if not isinstance(choices, list) or answer not in choices:
            raise errors.Failure(DATA_FORMAT, f"{where}: answer must be one of choices, which is a list of texts")
        return
    if not isinstance(answer, str) and not (
        isinstance(answer, list) and answer and all(isinstance(a, str) for a in answer)
    ):
        raise errors.Failure(
            DATA_FORMAT, f"{where} has no answer, which is a text or a list of texts; expected is {_EXAMPLE}"
        )


def _answers(doc: dict[str, Any]) -> list[str]:
    answer = doc["answer"]
    return [answer] if isinstance(answer, str) else list(answer)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal(text: str) -> str:
    """A text as SQuAD compares answers: lower case, without punctuation, articles and further spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _f1(said: str, answer: str) -> float:
    a, b = normal(said).split(), normal(answer).split()
    if not a or not b:
        return float(a == b)
    same = sum((Counter(a) & Counter(b)).values())
    return 2 * same / (len(a) + len(b))


#: Metrics of an answer that the model has written; with several right answers the best counts.
METRICS = {
    "exact_match": lambda said, answers: max(float(normal(said) == normal(a)) for a in answers),
    "contains": lambda said, answers: max(float(normal(a) in normal(said)) for a in answers),
    "starts_with": lambda said, answers: max(float(normal(said).startswith(normal(a))) for a in answers),
    "f1": lambda said, answers: max(_f1(said, a) for a in answers),
}


def texts(path: Path) -> list[str]:
    """The texts of a file: its paragraphs, or the column text of a JSONL file."""
    if path.suffix == ".jsonl":
        found = []
        for row in rows(path):
            if not isinstance(row.get("text"), str):
                raise errors.Failure(DATA_FORMAT, f"{path}:{row['_line']} has no column text")
            found.append(row["text"])
        return found
    try:
        whole = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise errors.Failure(DATA_FORMAT, f"{path} is not UTF-8: {error.reason}") from error
    found = [part.strip() for part in re.split(r"\n\s*\n", whole) if part.strip()]
    if not found:
        raise errors.Failure(DATA_FORMAT, f"{path} is empty")
    return found


def perplexity(model: Any, texts: list[str]) -> tuple[dict[str, float], int]:
    """The perplexity of texts by token and by byte; the standard errors are those of a ratio over the texts."""
    from lm_eval.api.instance import Instance

    asked = [
        Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text,), idx=i) for i, text in enumerate(texts)
    ]
    losses = [-float(value) for value in model.loglikelihood_rolling(asked)]
    if not all(math.isfinite(loss) for loss in losses):
        raise errors.Failure(None, "the loss of a text is not a number: the model has diverged")
    out: dict[str, float] = {}
    sizes = {
        "perplexity": [max(1, len(model.tok_encode(text))) for text in texts],
        "byte_perplexity": [len(text.encode()) for text in texts],
    }
    for name, size in sizes.items():
        mean = sum(losses) / sum(size)
        out[name] = math.exp(min(mean, 700.0))
        if len(texts) > 1:
            n = len(texts)
            residuals = sum((loss - mean * weight) ** 2 for loss, weight in zip(losses, size, strict=True))
            error = math.sqrt(residuals * n / (n - 1)) / sum(size)
            out[f"{name}_stderr"] = out[name] * error  # to first order
    return out, len(texts)
