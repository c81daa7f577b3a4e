"""The examples of docs/use/python.md, in order, against a real cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "use" / "python.md"


def test_the_examples_run(reach: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pytest.importorskip("pandas")
    text = PAGE.read_text()
    blocks = [(m.start(), m.group(1)) for m in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    assert len(blocks) > 5
    monkeypatch.chdir(tmp_path)
    # As if it were installed: scripts find what lies beside them.
    (tmp_path / "mindcoordinator").symlink_to(ROOT / "python" / "src" / "mindcoordinator")
    names: dict[str, Any] = {}
    for at, code in blocks:
        file = re.match(r"# (\w+\.py)\n", code)
        if file:
            (tmp_path / file.group(1)).write_text(code)
            continue
        line = text.count("\n", 0, at) + 1
        # The line numbers of a traceback are those of the page.
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    for expected in (
        "0 hello from job_",
        "INVALID_ARGUMENT",
        "EXIT_NONZERO 3",
        "['COMPLETED', 'COMPLETED', 'COMPLETED']",
    ):
        assert expected in said
