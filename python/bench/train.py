"""What the runner costs a training: reports as a share of a step, and how long a checkpoint stops it.

usage: python bench/train.py [--repeats N] [--only reports|checkpoints]

Runs on processors, with a Llama of 21 million weights (252 MB with the two moments of Adam) whose steps take more than
50 ms. What is compared runs in turn in the same processes. Prints the medians.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "runner"))

import harness
import tiny

HERE = Path(__file__).resolve()
# Steps between two reports of the figures, as by default.
BLOCK = 10
STEPS = {"max_steps": "12", "learning_rate": "1e-4", "logging_steps": str(BLOCK)}
EVERY = 6
# What is measured with checkpoints: ranks, framework, and what FSDP writes.
LAYOUTS = {"1 rank": (1, "HF_TRAINER", ""), "FSDP 2": (2, "FSDP", ""), "sharded 2": (2, "FSDP", "SHARDED_STATE_DICT")}


def main() -> None:
    """Measures, or is one rank of what is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", metavar="CASES", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=3, help="how often each kind of training runs; default 3")
    parser.add_argument("--only", choices=["reports", "checkpoints"], help="measure this alone")
    args = parser.parse_args()
    if args.rank:
        rank(json.loads(Path(args.rank).read_text()))
        return
    with tempfile.TemporaryDirectory(prefix="bench-train-") as temporary:
        folder = Path(temporary)
        tiny.make(folder / "tiny")
        larger(folder / "tiny" / "model")
        if args.only != "checkpoints":
            for ranks in (1, 2):
                print(reports(folder, ranks, args.repeats), flush=True)
        if args.only != "reports":
            for name in LAYOUTS:
                print(checkpoints(folder, name, args.repeats), flush=True)


def larger(folder: Path) -> None:
    """Makes the model that is measured; it has the tokenizer of the tiny one."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8192, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=256, pad_token_id=0, eos_token_id=1, bos_token_id=1,
        tie_word_embeddings=False,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def reports(folder: Path, ranks: int, repeats: int) -> str:
    """Blocks of ten steps with reports and without, in turn, in one training."""
    blocks = 4 * repeats * (2 if ranks == 1 else 1)
    case = harness.case(folder / "tiny", folder / f"reports-{ranks}", "SFT", max_steps=str((blocks + 1) * BLOCK))
    case.config["training_config"]["hyperparameters"]["logging_steps"] = str(BLOCK)
    case.config["data_config"]["batch_size"] = 1
    case.config["output_config"] = {"export": "none"}
    case.env["BENCH_BLOCKS"] = str(case.folder / "blocks")
    run(folder, [case], ranks)
    found = json.loads((case.folder / "blocks").read_text())
    found = found[1:]  # the first one warms up
    (on, busy), (off, idle) = (
        [statistics.median(b[what] for b in found if b["on"] is kind) / BLOCK for what in ("seconds", "processor")]
        for kind in (True, False)
    )
    spent = statistics.median(b["spent"] for b in found if b["on"]) / BLOCK
    name = "1 rank" if ranks == 1 else f"{ranks} ranks"
    return (
        f"reports, {name}: step {1000 * off:.1f} ms without, {1000 * on:.1f} ms with ({100 * (on / off - 1):+.2f} %); "
        f"of processor time {1000 * idle:.1f} and {1000 * busy:.1f} ms ({100 * (busy / idle - 1):+.2f} %); "
        f"in the reports themselves {1000 * spent:.3f} ms a step ({100 * spent / off:.2f} %)"
    )


def checkpoints(folder: Path, name: str, repeats: int) -> str:
    """Trainings that write while they stand still and while they go on, in turn."""
    ranks, framework, kind = LAYOUTS[name]
    cases = []
    for number in range(2 * repeats):
        case = harness.case(
            folder / "tiny", folder / f"{framework}{kind}{ranks}-{number}", "SFT", framework, "", **STEPS
        )
        case.config["data_config"]["batch_size"] = 1
        case.config["output_config"] = {
            "export": "none", "checkpoint_interval_steps": EVERY, "checkpoint_async": number % 2 == 1,
        }  # fmt: skip
        if kind:
            case.config["training_config"]["framework"]["config"] = {"state_dict_type": kind}
        cases.append(case)
    run(folder, cases, ranks)
    shown = []
    for word, chosen in (("stands still", cases[::2]), ("goes on", cases[1::2])):
        lines = [line for case in chosen for line in case.lines("metrics")]
        blocking, whole, all_ = (
            statistics.median(line[key] for line in lines if key in line)
            for key in ("checkpoint_blocking_seconds", "checkpoint_seconds", "train_runtime")
        )
        shown.append(f"{word} {blocking:.3f} s of {whole:.3f} s (training {all_:.2f} s)")
    size = json.loads((cases[0].folder / "size").read_text()) / 1e6
    return f"checkpoint of {size:.0f} MB, {name}: " + "; ".join(shown)


def run(folder: Path, cases: list[harness.Case], ranks: int) -> None:
    """Carries out the trainings, one after the other, as one group of processes."""
    ports = [str(harness.free_port()) for _ in cases]
    processes = []
    for number in range(ranks):
        listed = []
        for case, port in zip(cases, ports, strict=True):
            case.prepare()
            env = case.environment()
            if ranks > 1:
                env |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
                env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            listed.append({"env": env, "folder": str(case.folder)})
        path = folder / f"cases-{number}.json"
        path.write_text(json.dumps(listed))
        with (folder / f"log-{number}").open("wb") as out:
            argv = [sys.executable, str(HERE), "--rank", str(path)]
            processes.append(
                subprocess.Popen(
                    argv, env=harness.environment(), stdout=out, stderr=out, preexec_fn=harness.ends_with_this()
                )
            )
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        sys.exit((folder / f"log-{[bool(c) for c in codes].index(True)}").read_text()[-3000:])


def rank(cases: list[dict[str, Any]]) -> None:
    """Is one rank of all trainings."""
    from mind_runner import place, request, train
    from mind_runner import reports as module

    before = dict(os.environ)
    plain = module.Reports
    for case in cases:
        os.environ.clear()
        os.environ.update(before | case["env"])
        module.Reports = in_turn(plain) if "BENCH_BLOCKS" in os.environ else plain
        train._train(request.load(os.environ["MIND_CONFIG"]), place.here(), {})
        if os.environ.get("RANK", "0") == "0":
            saved = Path(os.environ["MIND_CHECKPOINT_DIR"])
            size = sum(f.stat().st_size for f in saved.glob("*/**/*") if f.is_file()) // max(
                1, len(list(saved.iterdir()))
            )
            (Path(case["folder"]) / "size").write_text(str(size))
            shutil.rmtree(saved)
        tidy()


def in_turn(plain: type) -> type:
    """Reports in every other block of steps."""

    class InTurn(plain):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.on = True
            self.blocks: list[dict[str, Any]] = []
            self.began = self.used = 0.0

        def count(self, inputs: Any) -> None:
            if self.on:
                super().count(inputs)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step % BLOCK:
                return
            now = time.perf_counter()
            if state.global_step:
                used = time.process_time() - self.used
                self.blocks.append({"on": self.on, "seconds": now - self.began, "processor": used, "spent": self.spent})
            # With, without, without, with: what drifts hits both.
            self.on = (state.global_step // BLOCK) % 4 in (0, 3)
            self.spent = 0.0
            self.resume_clock()
            self.began, self.used = time.perf_counter(), time.process_time()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            if self.on:
                super().on_step_end(*args, **kwargs)

        def on_log(self, *args: Any, **kwargs: Any) -> None:
            if self.on:
                super().on_log(*args, **kwargs)

        def on_train_end(self, *args: Any, **kwargs: Any) -> None:
            if self.group.rank == 0:
                Path(os.environ["BENCH_BLOCKS"]).write_text(json.dumps(self.blocks))

    return InTurn


def tidy() -> None:
    """Drops what libraries keep for the rest of the process."""
    import torch.distributed as dist
    from accelerate.state import AcceleratorState, PartialState

    if dist.is_initialized():
        dist.destroy_process_group()
    AcceleratorState._reset_state(True)
    PartialState._reset_state()
    gc.collect()


if __name__ == "__main__":
    main()
