"""The table of docs/use/training.md: a row for each type and number of ranks, with the frameworks that gave its figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

HEAD = ("type", "ranks", "framework", "loss at step 1", "at step 8", "resume")


class Row(NamedTuple):
    """What came of a cell."""

    kind: str
    ranks: int
    figure: str
    first: float
    last: float
    equal: bool

    def columns(self, frameworks: str) -> tuple[str, ...]:
        first = f"{self.first:.3f}" if self.figure == "loss" else f"{self.figure} {self.first:.3f}"
        resume = "equal" if self.equal else "not equal"
        return (f"`{self.kind}`", str(self.ranks), frameworks, first, f"{self.last:.3f}", resume)


def record(row: Row, framework: str) -> None:
    """Adds a cell to the table in the file MIND_MATRIX; cells of earlier runs stay."""
    name = os.environ.get("MIND_MATRIX")
    if not name:
        return
    path = Path(name)
    mine = row.columns(framework)
    rows: dict[tuple[str, ...], list[str]] = {}
    for line in path.read_text().splitlines()[2:] if path.exists() else []:
        kind, ranks, frameworks, *figures = parts(line)
        # What this cell gave before goes.
        kept = [f for f in frameworks.split(", ") if (kind, ranks, f) != mine[:3]]
        rows[(kind, ranks, *figures)] = kept
    rows.setdefault((*mine[:2], *mine[3:]), []).append(framework)
    lines = sorted((key[0], key[1], ", ".join(sorted(names)), *key[2:]) for key, names in rows.items() if names)
    path.write_text("".join(f"| {' | '.join(line)} |\n" for line in [HEAD, ("---",) * len(HEAD), *lines]))


def parts(line: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in line.strip().strip("|").split("|"))
