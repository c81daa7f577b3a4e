"""What a training reports, and how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lifetime import ends_with_this
from mindcoordinator import training


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_report_is_a_line_of_figures(mind: Path) -> None:
    import torch

    with training.Reporter() as reporter:
        reporter.report(1, loss=0.5)
        reporter.report(2, total_steps=10, loss=torch.tensor(0.25), epoch=1)
        reporter.report(2, checkpoint_seconds=1)
    assert lines(mind / "metrics.jsonl") == [
        {"step": 1, "loss": 0.5},
        {"step": 2, "total_steps": 10, "loss": 0.25, "epoch": 1},
        {"step": 2, "total_steps": 10, "checkpoint_seconds": 1},
    ]
    with pytest.raises(TypeError, match="loss is list: report a number"):
        training.report(3, loss=[1])


def test_events_are_as_documented(mind: Path) -> None:
    training.phase("EVALUATING")
    training.progress(200, 1000)
    training.checkpoint(mind / "c", 200, {"loss": 0.3})
    training.checkpoint(mind / "m", 200, kind="model")
    training.error("OOM", "no room", rank=1)
    training.evaluation_result("mmlu", {"acc": 0.7}, num_samples=100)
    training.evaluation_result("humaneval", error="no sandbox")
    assert lines(mind / "events.jsonl") == [
        {"event": "phase", "phase": "EVALUATING"},
        {"event": "progress", "step": 200, "total_steps": 1000},
        {"event": "checkpoint", "path": str(mind / "c"), "step": 200, "metrics": {"loss": 0.3}},
        {"event": "checkpoint", "path": str(mind / "m"), "step": 200, "kind": "model"},
        {"event": "error", "error_type": "OOM", "message": "no room", "rank": 1},
        {"event": "evaluation_result", "benchmark": "mmlu", "metrics": {"acc": 0.7}, "num_samples": 100},
        {"event": "evaluation_result", "benchmark": "humaneval", "error": "no sandbox"},
    ]
    with pytest.raises(ValueError, match='"checkpoint" or "model"'):
        training.checkpoint("c", 1, kind="modle")


ASKS = """
import json, os, sys
from mindcoordinator import training
answer = training.gate("Go on?", name="warm", options=["go", {"id": "stop", "cancels": True}], context={"loss": 0.5}, timeout="7d")
if answer is None:
    sys.exit(training.STOPPED)
print(answer.resolution, answer.resolved_by, answer.comment, answer.expired)
"""


def test_a_gate_asks_and_waits_for_the_notice(mind: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ASKS], preexec_fn=ends_with_this())
    events = mind / "events.jsonl"
    while not (events.exists() and events.read_text().endswith("\n")):
        assert child.poll() is None
        time.sleep(0.01)
    assert lines(events) == [
        {
            "event": "gate",
            "name": "warm",
            "prompt": "Go on?",
            "options": ["go", {"id": "stop", "cancels": True}],
            "context": {"loss": 0.5},
            "timeout": "7d",
        }
    ]
    child.send_signal(signal.SIGUSR1)
    assert child.wait() == training.STOPPED


def test_a_gate_that_nobody_would_be_asked_about_is_an_error(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, why in (
        ({"name": "a b"}, "the name 'a b'"),
        ({"options": ["yes", "yes"]}, "an id of its own"),
        ({"options": ["x; y"]}, "the id of an option"),
        ({"context": "x" * 9000}, "more than 8 KiB"),
        ({"priority": "urgent"}, "'urgent' is not known"),
        ({"timeout": "soon"}, "'soon' is not one such as"),
        ({"on_timeout": "resolve:no"}, "on_timeout is 'resolve:no'"),
        ({"on_timeout": "no"}, "on_timeout is 'no'"),
    ):
        with pytest.raises(ValueError, match=why):
            training.gate("Go on?", **wrong)  # type: ignore[arg-type]
    assert not (mind / "events.jsonl").exists()
    monkeypatch.setattr("mindcoordinator.training._gate._NOTICE_SECONDS", 0)
    with pytest.raises(TimeoutError, match="has not stopped this job for the gate 'gate'"):
        training.gate("Go on?", timeout="1h30m", on_timeout="resolve:continue")


def test_a_gate_that_was_passed_has_its_answer(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {
        "warm": {"resolution": "go", "resolved_by": "ann", "comment": "fine"},
        "late": {"resolution": "", "expired": True},
    }
    monkeypatch.setenv("MIND_GATES", json.dumps(passed))
    assert training.gate("Go on?", name="warm") == training.Answer("go", "ann", "fine")
    assert training.gate("Go on?", name="late") == training.Answer("", expired=True)
    assert not (mind / "events.jsonl").exists()


def test_a_gate_outside_of_mind_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIND_EVENTS_FILE", raising=False)
    monkeypatch.delenv("MIND_GATES", raising=False)
    assert training.gate("Go on?") == training.Answer("continue")
    assert training.gate("Go on?", options=[{"id": "yes"}, "no"]) == training.Answer("yes")


def test_an_error_names_the_rank_of_its_process(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    training.error("DIVERGED", "x" * 10_000)
    (event,) = lines(mind / "events.jsonl")
    assert event["rank"] == 3
    assert len(event["message"]) < 4200


def test_outside_of_mind_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MIND_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    # Tests before this one may have asked within Mind.
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    training.report(1, loss=1)
    training.phase("TRAINING")
    training.checkpoint("nowhere", 1)
    training.error("OOM", "x")
    assert training.resume_path() is None
    assert training.should_stop() is False
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    assert training.checkpoint_dir() == "checkpoints"
    assert list(tmp_path.iterdir()) == []


def test_lines_of_threads_and_processes_never_mix(mind: Path) -> None:
    code = "import sys; from mindcoordinator import training\nfor i in range(2000): training.report(i, who=int(sys.argv[1]), text='x' * (i % 97))"
    others = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(n)], env=os.environ | {"PYTHONPATH": "src"}, cwd=Path(__file__).parents[2]
        )
        for n in (1, 2)
    ]
    threads = [threading.Thread(target=lambda n=n: [training.report(i, who=n) for i in range(2000)]) for n in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.wait() for p in others] == [0, 0]
    seen: dict[int, list[int]] = {}
    for line in lines(mind / "metrics.jsonl"):
        seen.setdefault(line["who"], []).append(line["step"])
    assert seen == {n: list(range(2000)) for n in (1, 2, 3, 4, 5)}


def test_a_full_disk_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with training.Reporter("/dev/full", "/dev/full") as reporter:
        with pytest.warns(RuntimeWarning, match="reports are lost"):
            reporter.report(1, loss=1)
        reporter.progress(1, 2)
        with pytest.raises(OSError, match="No space left"):  # a checkpoint that nobody hears of is worth an error
            reporter.checkpoint("c", 1)


def test_a_checkpoint_is_there_completely_or_not_at_all(mind: Path) -> None:
    with training.checkpoint_at(5, metrics={"loss": 1.0}) as path:
        (path / "sub").mkdir()
        (path / "sub" / "weights").write_text("five")
        assert not (mind / "checkpoints" / "checkpoint-5").exists()
    assert (mind / "checkpoints" / "checkpoint-5" / "sub" / "weights").read_text() == "five"
    events = lines(mind / "events.jsonl")
    assert [e.get("phase") for e in events] == ["CHECKPOINTING", None, "TRAINING"]
    assert events[1]["path"] == str(mind / "checkpoints" / "checkpoint-5")
    assert lines(mind / "metrics.jsonl")[0]["checkpoint_seconds"] > 0

    with training.checkpoint_at(5) as path:  # repeated after a restart
        (path / "weights").write_text("again")
    assert [p.name for p in (mind / "checkpoints").iterdir()] == ["checkpoint-5"]
    assert (mind / "checkpoints" / "checkpoint-5" / "weights").read_text() == "again"

    with pytest.raises(RuntimeError, match="disk"), training.checkpoint_at(6) as path:
        (path / "weights").write_text("half")
        raise RuntimeError("disk")
    assert [p.name for p in (mind / "checkpoints").iterdir()] == ["checkpoint-5"]


def test_the_notice_stops_at_a_step() -> None:
    code = """
import os, sys
from mindcoordinator import training
training.should_stop()
print("ready", flush=True)
while not training.should_stop():
    pass
sys.exit(training.STOPPED)
"""
    env = os.environ | {"MIND_JOB_ID": "job_x", "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, preexec_fn=ends_with_this()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=30) == 75
    process.stdout.close()


def test_the_helper_needs_the_standard_library_alone() -> None:
    code = "import sys; import mindcoordinator.training; print(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    out = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]);" + code, env["PYTHONPATH"]],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [m for m in eval(out.stdout) if not m.startswith(("_", "sitecustomize", "distutils"))]
    assert loaded == ["mindcoordinator"]


def test_a_report_costs_microseconds(mind: Path) -> None:
    n = 20_000
    training.report(0, total_steps=n, loss=0.5, grad_norm=1.5, learning_rate=1e-4, epoch=0.1)
    began = time.perf_counter()
    for step in range(n):
        training.report(step, total_steps=n, loss=0.5, grad_norm=1.5, learning_rate=1e-4, epoch=0.1)
    micros = (time.perf_counter() - began) / n * 1e6
    print(f"{micros:.1f} us a report of 4 figures")
    assert micros < 500  # usually below 15; a machine that does ten things at once is slower


def test_a_checkpoint_in_the_copy_of_an_upload_stays(mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindcoordinator.training._directories import lasting

    upload, stays = mind / "upload", mind / "checkpoints"
    saved = upload / "out" / "checkpoint-5"
    (saved / "part").mkdir(parents=True)
    (saved / "part" / "weights").write_text("weights")
    monkeypatch.setenv("MIND_CHECKPOINT_DIR", str(stays))
    assert lasting(saved, 5) == saved, "there is no upload"
    monkeypatch.setenv("MIND_UPLOAD_DIR", str(upload))
    stays.mkdir()
    assert lasting(stays, 5) == stays, "it is elsewhere"
    for _ in range(2):  # another attempt repeats the step
        assert lasting(saved, 5) == stays / "checkpoint-5"
        weights = stays / "checkpoint-5" / "part" / "weights"
        assert weights.read_text() == "weights"
        assert weights.stat().st_ino == (saved / "part" / "weights").stat().st_ino, "it costs no room"
    assert [p.name for p in stays.iterdir()] == ["checkpoint-5"]


def test_progress_is_written_once_a_second_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    events = tmp_path / "events.jsonl"

    def written() -> list[Any]:
        return [(e["event"], e.get("step")) for e in lines(events)]

    with training.Reporter(events_file=str(events)) as reporter:
        for step in range(1, 1001):
            reporter.progress(step, 5000)
        assert written() == [("progress", 1)]
        reporter.phase("EVALUATING")
        assert written()[1:] == [("progress", 1000), ("phase", None)]
        now += 1
        reporter.progress(1001, 5000)
        reporter.progress(5000, 5000)
        assert written()[3:] == [("progress", 1001), ("progress", 5000)]
        reporter.progress(7)
    assert written()[5:] == [("progress", 7)]
