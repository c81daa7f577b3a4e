"""A small model, made from a configuration with a fixed seed, and data made of the documentation of this repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def make(folder: Path) -> tuple[Path, Path, Path]:
    """Make the model, the examples to train on, and a text to score with."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    pages = {page.name: page.read_text() for page in sorted((DOCS / "use").glob("*.md"))}
    held_out = pages.pop("concepts.md")

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(pages.values(), trainer)
    model = folder / "model"
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=128
    ).save_pretrained(model)
    torch.manual_seed(7)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1024,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).save_pretrained(model)

    data = folder / "train.jsonl"
    with data.open("w") as out:
        for prompt, completion in _examples(pages):
            out.write(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
    text = folder / "held-out.txt"
    text.write_text("\n\n".join(_paragraphs(held_out)[:20]))
    return model, data, text


def weights(model: Path) -> int:
    """Count the weights of a model."""
    from safetensors import safe_open

    with safe_open(model / "model.safetensors", "pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118 - it is no mapping


def count(data: Path) -> int:
    """Count examples."""
    return len(data.read_text().splitlines())


def _paragraphs(page: str) -> list[str]:
    return [p for p in page.split("\n\n") if re.match(r"[A-Z]", p) and len(p) > 80]


def _examples(pages: dict[str, str]) -> list[tuple[str, str]]:
    """Make a question of the first words of each paragraph, and an answer of the others."""
    made = []
    for page in pages.values():
        for paragraph in _paragraphs(page):
            words = paragraph.split()
            made.append((" ".join(words[:4]), " " + " ".join(words[4:])))
    return made
