"""A tiny model that these tests score: two layers, made from a configuration with a fixed seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TEXT = [
    "the quick brown fox jumps over the lazy dog",
    "two and two are four",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
]


def make_model(folder: Path) -> Path:
    """Writes a model and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>", pad_token="<eos>")
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=256, eos_token_id=0, bos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: make train-env")
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def evaluate(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs an evaluation as a launcher would, in this process; returns its exit code and its events."""
    from mind_runner import __main__ as runner

    def run(*benchmarks: dict[str, Any], model: Path | None = tiny) -> tuple[int, list[dict[str, Any]]]:
        config, events = tmp_path / "config.json", tmp_path / "events.jsonl"
        config.write_text(json.dumps({"evaluation_config": {"model_uri": str(model), "benchmarks": list(benchmarks)}}))
        events.write_text("")  # the reporter keeps the file open
        monkeypatch.setenv("MIND_EVENTS_FILE", str(events))
        monkeypatch.setenv("MIND_CONFIG", str(config))
        monkeypatch.setenv("MIND_MODEL_PATH", str(model))
        code = runner.main(["evaluate"])
        lines = events.read_text().splitlines()
        return code, [json.loads(line) for line in lines]

    return run
