"""Makes a model of a few thousand weights with a fixed seed, a tokenizer trained on the license, and rows to train on.

The license does not change: figures of one run are those of the next.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% else %}<|assistant|>{% generation %}"
    "{{ m.content }}<eos>{% endgeneration %}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<eos>", "<|user|>", "<|assistant|>"]
TEXT = Path(__file__).parents[3] / "LICENSE"


def make(folder: Path) -> None:
    lines = [line.strip() for line in TEXT.read_text().splitlines() if len(line) > 40]
    make_model(folder / "model", lines)
    chance = random.Random(0)
    sums = [(chance.randrange(10), chance.randrange(10)) for _ in range(64)]
    write(folder / "text.jsonl", [{"text": chance.choice(lines)} for _ in range(64)])
    write(folder / "chat.jsonl", [{"messages": chat(f"{a} plus {b}?", f"it is {a + b}")} for a, b in sums])
    write(folder / "completion.jsonl", [{"prompt": f"{a} plus {b}?", "completion": f" it is {a + b}"} for a, b in sums])
    write(
        folder / "pairs.jsonl",
        [{"prompt": f"{a} plus {b}?", "chosen": f" it is {a + b}", "rejected": " no"} for a, b in sums],
    )
    write(folder / "prompts.jsonl", [{"prompt": f"{a} plus {b}?", "answer": str(a + b)} for a, b in sums])
    (folder / "reward.py").write_text(
        "def short(completions, answer, **columns):\n    return [float(a in c) - len(c) / 100 for c, a in zip(completions, answer)]\n"
    )


def chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_model(folder: Path, lines: list[str]) -> None:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, eos_token_id=1, bos_token_id=1,
        tie_word_embeddings=False, attention_dropout=0.1,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
