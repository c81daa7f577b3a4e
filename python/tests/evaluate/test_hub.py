"""The real loading code of the libraries, against a local hub in a process of its own (HF_ENDPOINT is read when they are imported)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="lm_eval is not installed: make train-env")


def _hub() -> Any:
    spec = importlib.util.spec_from_file_location("hub", Path(__file__).with_name("hub.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub"] = module  # its annotations are looked up there
    spec.loader.exec_module(module)
    return module


SCRIPT = """
import datasets, transformers
model = transformers.AutoModelForCausalLM.from_pretrained("acme/tiny")
tokenizer = transformers.AutoTokenizer.from_pretrained("acme/tiny")
print(model.config.hidden_size, len(tokenizer("two and two")["input_ids"]) > 0, flush=True)
rows = datasets.load_dataset("acme/parity", split="test")
print(len(rows), rows[0]["answer"], flush=True)
from mind_runner import __main__
raise SystemExit(__main__.main(["evaluate"]))
"""

TASK = """
task: hub_parity
dataset_path: acme/parity
test_split: test
output_type: multiple_choice
doc_to_text: '{{prompt}}'
doc_to_choice: choices
doc_to_target: '{{choices.index(answer)}}'
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


def test_a_model_and_a_dataset_of_the_hub_are_loaded_and_scored(tiny: Path, tmp_path: Path) -> None:
    root, tasks = tmp_path / "hub", tmp_path / "tasks"
    (root / "models" / "acme").mkdir(parents=True)
    os.symlink(tiny, root / "models" / "acme" / "tiny")
    data = root / "datasets" / "acme" / "parity"
    data.mkdir(parents=True)
    rows = [
        {"prompt": f"{n} is", "answer": "even" if n % 2 == 0 else "odd", "choices": ["even", "odd"]} for n in range(12)
    ]
    (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks.mkdir()
    (tasks / "parity.yaml").write_text(TASK)
    config, events = tmp_path / "config.json", tmp_path / "events.jsonl"
    config.write_text(
        json.dumps({"evaluation_config": {"benchmarks": [{"name": "hub_parity", "dataset": str(tasks)}]}})
    )
    with _hub().Hub(root) as hub:
        environment = {
            **os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
            "MIND_CONFIG": str(config), "MIND_EVENTS_FILE": str(events), "MIND_MODEL_PATH": str(tiny),
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False, timeout=300
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}\n{hub.asked}"
    assert "32 True" in done.stdout
    assert "12 even" in done.stdout
    assert any("/acme/tiny/resolve/" in asked and "model.safetensors" in asked for asked in hub.asked)
    assert any("/datasets/acme/parity/resolve/" in asked for asked in hub.asked)
    result = next(
        event for event in map(json.loads, events.read_text().splitlines()) if event["event"] == "evaluation_result"
    )
    assert result["benchmark"] == "hub_parity"
    assert result["num_samples"] == 12
    assert 0 <= result["metrics"]["acc"] <= 1
    assert "acc_stderr" in result["metrics"]
