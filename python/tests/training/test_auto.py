"""The switch MIND_AUTO: scripts that know nothing of Mind report to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mindcoordinator import Client

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which Python reads the .pth file at its start, as it does where the package is installed."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(SOURCE)!r})")
    return {"PYTHONPATH": str(site), "MIND_AUTO": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run(*argv: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv], env=os.environ | env, cwd=cwd, capture_output=True, text=True, timeout=240
    )


def test_a_job_with_transformers_pauses_and_goes_on(installed: dict[str, str], reach: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with Client() as client:
        job = client.submit(
            "plain",
            command_config={
                "argv": [sys.executable, str(HERE / "plain_hf.py"), "60"],
                "cwd": str(tmp_path),
                "environment": installed,
            },
            resource_config={"gpu_count": 1},
            scheduling_config={"grace_period_seconds": 120},
        )
        for line in client.metrics(job, follow=True):
            if line.get("step") == 4 and "loss" in line:
                assert line["total_steps"] == 60
                break
        client.pause(job)
        while client.job(job).status != "PAUSED":
            time.sleep(0.05)
        (saved,) = client.checkpoints(job)
        assert saved.step is not None
        assert 4 <= saved.step < 60
        assert not (tmp_path / "final").exists()  # what follows the training is left to the attempt that ends it
        (tmp_path / "go").touch()
        done = client.wait(client.resume(job)).check()
        assert done.attempt == 2
        assert [c.step for c in client.checkpoints(job)] == sorted({saved.step, 20, 40, 60})
    assert (tmp_path / "seen.txt").read_text() == " ".join(map(str, range(1, 61)))
    assert (tmp_path / "final").is_dir()


def train(folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(str(HERE / "plain_lightning.py"), *argv, cwd=folder, **env)


def test_lightning_stops(installed: dict[str, str], mind: Path) -> None:
    pytest.importorskip("lightning")
    stopped = train(mind, "8", "5", **installed)
    assert stopped.returncode == 75, stopped.stderr[-2000:]
    assert "the end" not in stopped.stdout
    assert [e["step"] for e in lines(mind / "events.jsonl") if e["event"] == "checkpoint"] == [3, 5]
    assert [m["step"] for m in lines(mind / "metrics.jsonl") if "loss" in m] == [1, 2, 3, 4, 5]


@pytest.mark.long
def test_lightning_goes_on(installed: dict[str, str], mind: Path) -> None:
    pytest.importorskip("lightning")
    assert train(mind, "8", "5", **installed).returncode == 75
    done = train(mind, "8", **installed, MIND_RESUME_FROM=str(mind / "checkpoints" / "checkpoint-5"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert [m["step"] for m in lines(mind / "metrics.jsonl") if "loss" in m] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_python_starts_without_it_where_it_is_off(installed: dict[str, str], mind: Path) -> None:
    say = "import sys; print([m for m in sys.modules if 'mind' in m or m in ('typing', 'json', 'torch')])"
    assert run("-c", say, **installed).stdout == "['_mindcoordinator_auto']\n"
    assert run("-c", say, **installed | {"MIND_AUTO": ""}).stdout == "[]\n"
    assert run("-c", say, **installed | {"MIND_JOB_ID": ""}).stdout == "[]\n"


def test_what_fails_is_one_line(installed: dict[str, str], mind: Path, tmp_path: Path) -> None:
    package = tmp_path / "site" / "transformers"
    package.mkdir()
    (package / "__init__.py").touch()
    # Another transformers, of which this knows nothing.
    (package / "trainer.py").write_text("class Coach:\n    pass\n")
    done = run("-c", "import transformers.trainer; print(transformers.trainer.Coach.__name__)", **installed)
    assert done.stdout == "Coach\n"
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("mindcoordinator: MIND_AUTO does not reach transformers.trainer: AttributeError")


def test_the_runner_reports_itself(installed: dict[str, str], mind: Path) -> None:
    say = "import mind_runner, transformers.trainer; print('_mind' in str(transformers.trainer.Coach.__init__))"
    package = Path(installed["PYTHONPATH"], "transformers")
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "trainer.py").write_text("class Coach:\n    pass\n")
    assert run("-c", say, **installed).stderr == ""


def test_an_error_of_the_callback_is_no_error_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    from mindcoordinator.training._switch import careful

    class Callback:
        def on_step_end(self) -> None:
            raise OSError("no space left")

        def other(self) -> int:
            return 1

    callback = careful(Callback)()
    callback.on_step_end()
    callback.on_step_end()
    assert callback.other() == 1
    assert capsys.readouterr().err == "mindcoordinator: MIND_AUTO fails in on_step_end: OSError: no space left\n"
