"""Directories that travel with their jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import mindcoordinator as mc
from mindcoordinator._upload import listed


def _write(top: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(content)


def test_the_code_travels_with_the_job(reach: Any, tmp_path: Path) -> None:
    _write(
        tmp_path,
        {"main.py": "import pkg.m; print(pkg.m.X)", "pkg/m.py": "X = 7", ".mindignore": "secret", "secret": "s"},
    )
    (tmp_path / "big").write_bytes(os.urandom(9_000_000))
    (tmp_path / "link").symlink_to("pkg")
    command: Any = {"argv": ["sh", "-c", "python3 main.py; ls; cat link/m.py"]}
    with mc.Client() as client:
        job = client.submit("up", command_config=command, resource_config={"gpu_count": 0}, upload=tmp_path)
        assert "upload" not in command
        client.wait(job, timeout=120).check()
        out = [line.message for line in client.logs(job) if line.stream == "stdout"]
        assert out == ["7", "big", "link", "main.py", "pkg", "X = 7"]
        # The same files have the same id.
        again = client.submit("up", command_config=command, resource_config={"gpu_count": 0}, upload=str(tmp_path))
        ids = [client.job(j).raw["command_config"]["upload"] for j in (job, again)]
        assert ids[0] == ids[1]


def test_what_is_refused(reach: Any, tmp_path: Path) -> None:
    command: Any = {"argv": ["true"]}
    with mc.Client() as client:

        def submit() -> None:
            client.submit("up", command_config=command, resource_config={"gpu_count": 0}, upload=tmp_path)

        with pytest.raises(ValueError, match="no file to send"):
            submit()
        (tmp_path / "out").symlink_to("/etc/passwd")
        with pytest.raises(mc.MindError, match="absolute links"):
            submit()
        (tmp_path / "out").unlink()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="neither a file nor a link"):
            submit()
        with pytest.raises(NotADirectoryError):
            client.submit("up", command_config=command, upload=tmp_path / "none")
        with pytest.raises(ValueError, match="command_config"):
            client.submit("up", training_config={}, upload=tmp_path)


PATTERNS = [
    "*.log", "!keep.log", "build/", "/top", "a/**/z", "**/cache", "docs/*.txt", "x?y", "[a-c]1", "[!a-c]2", r"\#literal",
    r"\!bang", "trail ", "deep/**", "!deep/kept/", "foo*bar*", "a/b", "[]]x", "sub/dir/", r"esc\*", "/**/m", "[x", "n/**/",
]  # fmt: skip
PATHS = [
    "a.log", "keep.log", "p/keep.log", "build/x", "p/build/y", "top", "p/top", "a/z", "a/b/c/z", "p/q/cache", "docs/a.txt",
    "docs/b/a.txt", "xzy", "a1", "d1", "a2", "d2", "#literal", "!bang", "trail", "deep/a", "deep/kept/b", "fooXbarY",
    "p/a/b", "]x", "sub/dir/f", "p/sub/dir/f", "esc*", "escx", "p/m", "[x", "n/o/p",
]  # fmt: skip


@pytest.mark.parametrize("patterns", [[one] for one in PATTERNS] + [PATTERNS])
def test_patterns_mean_the_same_as_to_git(patterns: list[str], tmp_path: Path) -> None:
    _write(tmp_path, dict.fromkeys(PATHS, "") | {".mindignore": "\n".join(patterns), "p/.mindignore": "!keep.log\n"})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    ask = ["git", "ls-files", "-o", "-z", "--exclude-per-directory=.mindignore"]
    out = subprocess.run(ask, cwd=tmp_path, capture_output=True, check=True).stdout
    assert sorted(listed(tmp_path)) == sorted(name.decode() for name in out.split(b"\0") if name)


def test_a_directory_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    _write(
        tmp_path,
        {".gitignore": "*.ckpt\nout\n", ".mindignore": "!best.ckpt\n", "a.ckpt": "", "best.ckpt": "", "out/x": ""},
    )
    _write(tmp_path, {"p/.git/config": "", "p/m": ""})
    (tmp_path / "folder").symlink_to("p")
    assert sorted(listed(tmp_path)) == [".gitignore", ".mindignore", "best.ckpt", "folder", "p/m"]


def test_a_git_that_fails(tmp_path: Path) -> None:
    from mindcoordinator._upload import listed

    (tmp_path / ".git").write_text("no link to a repository")
    (tmp_path / ".env").write_text("secret")
    with pytest.raises(ValueError, match="git does not list the files"):
        listed(tmp_path)
