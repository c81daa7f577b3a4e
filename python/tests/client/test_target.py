"""Where the client finds its cluster: as the command line does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mindcoordinator.target import Target, find


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("MIND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_argument_then_variable_then_dev_then_context(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find() == Target("http://127.0.0.1:8080")
    (home / "mind").mkdir()
    contexts = "current: prod\ncontexts:\n  prod: {addr: https://prod, token: p, ca_cert: /ca}\n  test: {addr: test, token: t}\n"
    (home / "mind" / "config.yaml").write_text(contexts)
    assert find() == Target("https://prod", "p", "/ca")
    assert find(context="test") == Target("http://test", "t")
    assert find("https://prod/v1/modules/scaimind/") == Target("https://prod", "p", "/ca")
    assert find("https://other") == Target("https://other"), "another cluster is not given this one's token"
    with pytest.raises(ValueError, match="there is no context 'nope'"):
        find(context="nope")
    with pytest.raises(ValueError, match="must not go to another cluster"):
        find("https://other", context="prod")

    monkeypatch.setenv("MIND_DEV", str(home / "dev"))
    with pytest.raises(ValueError, match="start one with `mind dev --data-dir"):
        find()
    (home / "dev").mkdir()
    (home / "dev" / "dev.json").write_text(json.dumps({"gateway": {"url": "http://dev:1"}, "token": "d"}))
    assert find() == Target("http://dev:1", "d")
    monkeypatch.setenv("MIND_ADDR", "http://other")
    assert find() == Target("http://other")
    monkeypatch.setenv("MIND_TOKEN", " v\n")
    assert find("other/") == Target("http://other", "v")
    assert find("flag/") == Target("http://flag"), "the token is for the cluster at MIND_ADDR"
    monkeypatch.setenv("MIND_ADDR", "")
    assert find("flag/") == Target("http://flag", "v")


def test_what_is_wrong_is_said(home: Path) -> None:
    for bad in ("ftp://x", "http://", "http://x?y=1", "http://u@x"):
        with pytest.raises(ValueError, match="is not an address such as"):
            find(bad)
    with pytest.raises(ValueError, match="characters that no token has"):
        find("x", "a b")
    (home / "mind").mkdir()
    (home / "mind" / "config.yaml").write_text("current: [\n")
    with pytest.raises(ValueError, match="repair it, or remove it"):
        find()
    assert "secret" not in repr(find("x", "secret"))
