"""Evaluations with the real lm-eval, a tiny model and data of their own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="lm_eval is not installed: make train-env")

from mind_runner import evaluate_own, evaluate_tasks

ROWS = [{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(4) for b in range(3)]


def results(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {e["benchmark"]: e for e in events if e["event"] == "evaluation_result"}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_texts_and_tasks_of_a_folder(evaluate: Any, tmp_path: Path) -> None:
    rows = write(tmp_path / "sums.jsonl", ROWS)
    choices = write(
        tmp_path / "choices.jsonl",
        [
            {"prompt": f"{n} is", "answer": "even" if n % 2 == 0 else "odd", "choices": ["even", "odd"]}
            for n in range(10)
        ],
    )
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox\n\njumps over\n\nthe lazy dog\n")
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "capitals.yaml").write_text(
        "task: capitals\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {choices}}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{prompt}}'\ndoc_to_choice: choices\n"
        "doc_to_target: '{{choices.index(answer)}}'\n"
        "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    )
    code, events = evaluate(
        {
            "name": "sums",
            "dataset": str(rows),
            "num_samples": 6,
            "parameters": {"metric": "all", "max_tokens": "4", "seed": "3"},
        },
        {"name": "parity", "dataset": f"file://{choices}"},
        {"name": "reading", "dataset": str(text)},
        {"name": "capitals", "dataset": str(folder), "num_samples": 8},
        {"name": "nothing", "dataset": str(folder)},
        {"name": "arc_easyy"},
    )
    assert code == 0
    assert events[0] == {"event": "phase", "phase": "EVALUATING"}
    assert events[-1] == {"event": "progress", "step": 6, "total_steps": 6}
    found = results(events)
    sums = found["sums"]["metrics"]
    assert set(sums) == {m + e for m in evaluate_own.METRICS for e in ("", "_stderr")}
    assert found["sums"]["num_samples"] == 6
    accuracy = found["parity"]["metrics"]["acc"]
    assert found["parity"]["metrics"]["acc_stderr"] == pytest.approx(math.sqrt(accuracy * (1 - accuracy) / 9), abs=1e-9)
    assert found["parity"]["num_samples"] == 10
    assert found["capitals"]["num_samples"] == 8
    reading = found["reading"]["metrics"]
    assert 50 < reading["perplexity"] < 2000  # of an untrained model with 400 tokens
    assert reading["perplexity_stderr"] > 0
    assert reading["byte_perplexity"] < reading["perplexity"]
    assert found["nothing"]["error"] == f"{folder} has no task nothing; it has capitals"
    assert "did you mean arc_easy?" in found["arc_easyy"]["error"]


def test_an_adapter_is_put_on_its_model(evaluate: Any, tiny: Path, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny), LoraConfig(r=4, target_modules="all-linear"))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(tmp_path / "adapter")
    text = tmp_path / "t.txt"
    text.write_text("the quick brown fox\n\njumps over\n")
    _, plain = evaluate({"name": "p", "dataset": str(text)})
    code, adapted = evaluate({"name": "p", "dataset": str(text)}, model=tmp_path / "adapter")
    assert code == 0
    assert results(plain)["p"]["metrics"]["perplexity"] != results(adapted)["p"]["metrics"]["perplexity"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", ":2 is not JSON"),
        ("[1]", ":2 is not an object"),
        ('{"answer": "x"}', ":2 has no text prompt"),
        ('{"prompt": "x"}', ":2 has no answer"),
        ('{"prompt": "x", "answer": "c", "choices": ["a"]}', ":2: answer must be one of choices"),
    ],
)
def test_malformed_rows_are_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"prompt": "p", "answer": "a"}\n' + line + "\n")
    with pytest.raises(evaluate_own.errors.Failure, match=says) as failure:
        evaluate_own.task("x", path, {})
    assert failure.value.error_type == "DATA_FORMAT"


def test_a_dataset_that_the_node_has_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"index": 0, "path": "s3://b/rows.jsonl", "dir": "/tasks/1/data/0", "files": ["rows.jsonl"]},
        {"index": 1, "path": "hf://datasets/acme/tasks", "dir": "/tasks/1/data/1", "files": ["a.yaml", "b.yaml"]},
    ]
    manifest = tmp_path / "data.json"
    manifest.write_text(json.dumps({"version": 1, "sources": entries}))
    monkeypatch.setenv("MIND_DATA_MANIFEST", str(manifest))
    assert evaluate_tasks._path("s3://b/rows.jsonl") == Path("/tasks/1/data/0/rows.jsonl")
    assert evaluate_tasks._path("hf://datasets/acme/tasks") == Path("/tasks/1/data/1")
    with pytest.raises(evaluate_tasks.errors.Failure, match=r"dataset s3://b/other was not fetched"):
        evaluate_tasks._path("s3://b/other")


def test_what_fails_is_a_result_and_all_of_it_an_exit(evaluate: Any, tmp_path: Path) -> None:
    code, events = evaluate(
        {"name": "a", "dataset": "hf://acme/data"},
        {"name": "b", "dataset": str(tmp_path / "none.jsonl")},
        {"name": "c", "dataset": str(write(tmp_path / "r.jsonl", ROWS)), "parameters": {"metric": "bleurt"}},
        {"name": "d", "parameters": {"few_shots": "1"}},
    )
    assert code == 1
    found = results(events)
    assert "give the path of a folder of tasks" in found["a"]["error"]
    assert "is not on this node" in found["b"]["error"]
    assert "must be one of exact_match" in found["c"]["error"]
    assert "parameters.few_shots is not known; there are apply_chat_template" in found["d"]["error"]
    assert events[-1]["event"] == "error"
    assert events[-1]["error_type"] == "CONFIG"
    assert events[-1]["message"].startswith("no benchmark has a result: a: ")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (None, "there is no folder"),
        ({}, "it is not the folder of a model"),
        ({"adapter_config.json": '{"base_model_name_or_path": "/no/base"}'}, "is an adapter of /no/base"),
        ({"config.json": '{"model_type": "llama"}'}, "cannot be loaded"),
    ],
)
def test_a_model_that_is_missing(evaluate: Any, tmp_path: Path, files: dict[str, str] | None, says: str) -> None:
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    code, events = evaluate({"name": "x"}, model=folder)
    assert code == 1
    assert events[-1]["event"] == "error"
    assert events[-1]["error_type"] == "MODEL_NOT_FOUND"
    assert says in events[-1]["message"]


def test_metrics_of_answers() -> None:
    metrics = evaluate_own.METRICS
    assert metrics["exact_match"]("The Eiffel Tower.", ["eiffel tower"]) == 1
    assert metrics["contains"]("it is the Eiffel tower!", ["Eiffel Tower"]) == 1
    assert metrics["starts_with"]("it is", ["x", "It"]) == 1
    assert metrics["f1"]("a red fox", ["red dog"]) == pytest.approx(0.5)
    assert metrics["f1"]("", ["x"]) == 0


def test_perplexity_of_a_known_model() -> None:
    class Uniform:
        """Each token has the probability 1/4; the second text twice the loss of the first per token."""

        def tok_encode(self, text: str) -> list[int]:
            return [0] * len(text)

        def loglikelihood_rolling(self, asked: list[Any]) -> list[float]:
            return [-len(request.arguments[0]) * math.log(4) for request in asked]

    found, n = evaluate_own.perplexity(Uniform(), ["ab", "abcd", "a"])
    assert n == 3
    assert found["perplexity"] == pytest.approx(4)
    assert found["perplexity_stderr"] == pytest.approx(0, abs=1e-9)


def test_figures_of_a_row() -> None:
    row = {
        "alias": "x",
        "acc,none": 0.5,
        "acc_stderr,none": "N/A",
        "em,strict": 1,
        "em_stderr,strict": 0.1,
        "f,none": float("nan"),
    }
    assert evaluate_tasks.figures(row) == {"acc": 0.5, "em/strict": 1.0, "em/strict_stderr": 0.1}
