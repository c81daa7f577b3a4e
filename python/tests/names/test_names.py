"""Hyperparameters against the configurations of the installed libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="trl is not installed: make train-env")

from mind_runner import names, names_table

#: Hyperparameters that were taken before there was a list, and those that are published: none may be refused.
TAKEN = {
    "lora_r": "8", "lora_alpha": "16", "lora_dropout": "0.05", "lora_target_modules": "q_proj,v_proj", "lora_bias": "none",
    "learning_rate": "2e-4", "num_train_epochs": "3", "per_device_train_batch_size": "4", "warmup_ratio": "0.03",
    "lr_scheduler_type": "cosine", "optim": "adamw_torch", "weight_decay": "0.01", "max_grad_norm": "1", "packing": "true",
    "gradient_accumulation_steps": "8", "gradient_checkpointing": "true", "bf16": "true", "neftune_noise_alpha": "5",
    "adam_beta1": "0.9", "adam_beta2": "0.95", "adam_epsilon": "1e-8", "eval_steps": "50", "save_steps": "100", "seed": "1",
    "logging_steps": "10", "label_smoothing_factor": "0.1", "use_rslora": "true", "zero_stage": "2", "max_seq_length": "512",
}  # fmt: skip


def test_what_was_taken_before_is_still_taken() -> None:
    assert names.check("LORA", TAKEN) == []
    assert names.check("QLORA", TAKEN | {"quantization_bits": "4", "quantization_type": "nf4"}) == []
    assert names.check("DPO", {"beta": "0.1", "lora_r": "8", "num_epochs": "1", "batch_size": "2"}) == []
    assert names.check("RLHF", {"reward_model_id": "a/b", "algorithm": "grpo", "beta": "0.04"}) == []
    assert names.check("CONTINUED_PRETRAIN", {"packing": "true", "max_seq_length": "128", "max_steps": "5"}) == []


def test_what_is_wrong_together() -> None:
    assert names.check("SFT", {"bf16": "true", "fp16": "false"}) == []
    (both,) = names.check("SFT", {"bf16": "1", "fp16": "True"})
    assert "bf16 and fp16 are both true" in both
    for none in ({}, {"reward_function": "none"}):
        (reward,) = names.check("RLHF", none)
        assert "RLHF needs a reward" in reward


@pytest.mark.parametrize(
    ("training_type", "name", "value", "says"),
    [
        ("SFT", "learning_rte", "1", "did you mean learning_rate?"),
        ("SFT", "LoraR", "1", "LoraR is not a hyperparameter of SFT"),
        ("LORA", "LoraR", "1", "did you mean lora_r?"),
        ("SFT", "lora_r", "8", "is a hyperparameter of LORA, QLORA, DPO, RLHF, not of SFT"),
        ("SFT", "learning_rate", "fast", 'learning_rate is "fast", and must be a number'),
        ("SFT", "learning_rate", "nan", "must be a number"),
        ("SFT", "max_steps", "1.5", "must be a whole number"),
        ("SFT", "packing", "yes", "must be true or false"),
        ("SFT", "lr_scheduler_type", "cosin", "must be one of constant"),
        ("SFT", "output_dir", "/x", "it is set by output_config.output_dir"),
        ("SFT", "hub_token", "x", "it is set by output_config.export"),
        ("QLORA", "quantization_bits", "3", "must be one of 4, 8"),
        ("RLHF", "algorithm", "ppo", "must be one of grpo"),
        ("SFT", "lr_scheduler_kwargs", "[1", ""),
        ("LORA", "rank_pattern", "[1]", "must be a JSON object"),
        ("SFT", "max_steps", "0", 'max_steps is "0", and must be at least 1'),
        ("SFT", "max_steps", "-1", ""),
        ("SFT", "learning_rate", "-1", "must be at least 0"),
        ("SFT", "batch_size", "0", "must be at least 1"),
        ("LORA", "lora_r", "0", "must be at least 1"),
        ("SFT", "num_epochs", "0", "must be more than 0"),
        ("CONTINUED_PRETRAIN", "max_length", "0", "must be at least 1"),
    ],
)
def test_what_is_refused(training_type: str, name: str, value: str, says: str) -> None:
    problems = names.check(training_type, {name: value})
    if not says:  # transformers takes a text there, too; a default is always taken
        assert problems == []
        return
    assert len(problems) == 1
    assert says in problems[0]
    with pytest.raises(names.ConfigError, match="learning|LoraR|" + name):
        names.translate(training_type, {name: value})


def test_two_names_of_the_same() -> None:
    assert names.check("SFT", {"lr": "1", "learning_rate": "2"}) == [
        "learning_rate and lr are names of the same hyperparameter: give one of them"
    ]


def test_translate_makes_arguments_that_the_libraries_take(tmp_path: Path) -> None:
    from peft import LoraConfig
    from trl import SFTConfig

    given: dict[str, Any] = {
        "lora_r": "4", "lora_bias": "all", "lora_target_modules": "q_proj", "lr": "1e-3", "max_steps": 3, "packing": False,
        "warmup_ratio": "0.1", "max_seq_length": "64", "zero_stage": "1", "layers_to_transform": "0,1", "layers_pattern": "layers",
        "lr_scheduler_kwargs": '{"a": 1}', "label_names": "labels", "bf16": "false", "max_grad_norm": "1",
    }  # fmt: skip
    config, peft, own = names.translate("LORA", given)
    sft = SFTConfig(output_dir=str(tmp_path), use_cpu=True, **config)
    assert (sft.learning_rate, sft.max_steps, sft.max_length, sft.warmup_steps) == (1e-3, 3, 64, 0.1)
    assert (sft.packing, sft.label_names, sft.lr_scheduler_kwargs) == (False, ["labels"], {"a": 1})
    lora = LoraConfig(**peft)
    assert (lora.r, lora.bias, lora.target_modules, lora.layers_to_transform) == (4, "all", {"q_proj"}, [0, 1])
    assert own == {"zero_stage": 1}
    _, _, own = names.translate("FULL_FINETUNE", {"packing": "true"})
    assert own == {"packing": True}


def test_every_default_is_of_its_own_type() -> None:
    for training_type in names_table.TYPES:
        for name, spec in names.known(training_type).items():
            text = spec["default"] if isinstance(spec["default"], str) else json.dumps(spec["default"])
            problems = names.check(training_type, {name: text})
            assert spec["default"] is None or [p for p in problems if "needs a reward" not in p] == [], name


def test_tables_name_what_there_is() -> None:
    everywhere = {name for training_type in names_table.TYPES for name in names.known(training_type)}
    assert set(names_table.ALIASES.values()) <= everywhere
    assert not everywhere & set(names_table.ALIASES)
    assert not everywhere & set(names_table.RESERVED)


def test_the_committed_list_is_that_of_the_tables() -> None:
    committed = json.loads(
        (Path(__file__).parents[3] / "coordinator" / "hyperparameters" / "names.json").read_text(encoding="utf-8")
    )
    now = names.everything()
    if committed["versions"] != now["versions"]:
        pytest.skip("other versions are installed than those of the list: make train-names")
    assert committed == json.loads(json.dumps(now)), "make train-names"
