"""Jobs in the Python environment of the program that submits them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import mindcoordinator as mc
from mindcoordinator._venv import within


def test_a_job_has_the_python_that_submits_it(reach: Any, tmp_path: Path) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("needs a virtual environment")
    which = {"argv": ["python", "-c", "import sys; print(sys.prefix)"], "cwd": "/tmp"}
    with mc.Client() as client:
        job = client.submit("prefix", command_config=which, resource_config={"gpu_count": 0}, venv=True)
        client.wait(job, timeout=120).check()
        assert [line.message for line in client.logs(job) if line.stream == "stdout"] == [sys.prefix]
        job = client.submit("none", command_config=which, resource_config={"gpu_count": 0}, venv=tmp_path)
        with pytest.raises(mc.JobFailed, match="VIRTUAL_ENV") as failed:
            client.wait(job, timeout=120).check()
        assert failed.value.code == "LAUNCH_FAILED"


def test_the_environment_of_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = {"name": "a", "command_config": {"argv": ["x"], "environment": {"A": "b"}}}
    assert within(False, command) is command
    assert within(tmp_path, command) == {
        "name": "a",
        "command_config": {"argv": ["x"], "environment": {"A": "b", "VIRTUAL_ENV": str(tmp_path)}},
    }
    assert command["command_config"] == {"argv": ["x"], "environment": {"A": "b"}}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    assert within("conda", {"training_config": {"training_type": "LORA"}}) == {
        "training_config": {"training_type": "LORA", "environment": {"CONDA_PREFIX": str(tmp_path / "conda")}},
    }
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(ValueError, match="in no virtual environment"):
        within(True, command)
