"""SIGUSR1 at one rank: all ranks finish the same step, save, and exit; the next attempt ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import harness
from harness import case, same

from lifetime import ends_with_this


def torchrun(one: harness.Case, log: Path) -> subprocess.Popen[bytes]:
    one.prepare()
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={harness.free_port()}"]
    with log.open("wb") as out:
        return subprocess.Popen(
            [*argv, "-m", "mind_runner", "train"],
            env=harness.environment() | one.environment(),
            stdout=out,
            stderr=out,
            preexec_fn=ends_with_this(signal.SIGTERM),  # which it passes on to what it has started
        )


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_step(one: harness.Case, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not any(e["event"] == "progress" and e["step"] >= 1 for e in one.lines("events")):
        assert process.poll() is None, "the training ended before its first step"
        assert time.monotonic() < deadline, "no step within two minutes"
        time.sleep(0.05)  # what another process writes cannot be waited for


def test_notice(tiny: Path, tmp_path: Path) -> None:
    steps = {"max_steps": "60", "lr_scheduler_type": "constant", "learning_rate": "1e-3"}
    one = case(tiny, tmp_path / "noticed", "SFT", "FSDP", **steps)
    one.config["output_config"] = {}
    process = torchrun(one, tmp_path / "log")
    try:
        wait_for_step(one, process)
        # The second rank alone, as an agent of another node would.
        workers = sorted(children(process.pid))
        os.kill(workers[-1], signal.SIGUSR1)
        process.wait(120)
    finally:
        process.kill()
        process.wait()
    log = (tmp_path / "log").read_text()
    assert "exitcode  : 75" in log, log[-2000:]
    (checkpoint,) = one.checkpoints.iterdir()
    step = json.loads((checkpoint / "trainer_state.json").read_text())["global_step"]
    assert 1 <= step < 60
    assert checkpoint.name == f"checkpoint-{step}"

    whole = case(tiny, tmp_path / "whole", "SFT", "FSDP", **steps)
    whole.config["output_config"] = {}
    again = one.resumed("continued", checkpoint)
    harness.carry_out(tmp_path, [whole, again], 2)
    assert whole.result() == again.result() == {"code": 0}
    assert same(whole.checkpoints / "checkpoint-60", again.checkpoints / "checkpoint-60")
    assert same(whole.output / "model", again.output / "model")
