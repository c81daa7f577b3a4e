"""Patterns of what is not sent, in the syntax of .gitignore."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple


class _Rule(NamedTuple):
    match: re.Pattern[str]
    back: bool  # it begins with "!"
    only_folders: bool


class Ignorer:
    """Decides what is left out, by files with patterns, in any folder.

    The patterns of a file hold for its folder and below, the last one that matches decides, and what is in a folder
    that is left out is left out.
    """

    def __init__(self, top: Path, names: tuple[str, ...]) -> None:
        self._top, self._names = top, names
        self._rules: dict[str, list[_Rule]] = {}
        self._folders: dict[str, bool] = {"": False}

    def leaves_out(self, name: str, folder: bool = False) -> bool:
        """Say whether a path is left out."""
        if folder and name in self._folders:
            return self._folders[name]
        parent = os.path.dirname(name)
        out = self.leaves_out(parent, folder=True) or self._matches(name, folder)
        if folder:
            self._folders[name] = out
        return out

    def _matches(self, name: str, folder: bool) -> bool:
        at = os.path.dirname(name)
        while True:
            relative = name[len(at) + 1 :] if at else name
            for rule in reversed(self._of(at)):
                if (folder or not rule.only_folders) and rule.match.fullmatch(relative):
                    return not rule.back
            if not at:
                return False
            at = os.path.dirname(at)

    def _of(self, folder: str) -> list[_Rule]:
        if folder not in self._rules:
            rules = []
            for name in self._names:
                file = self._top / folder / name
                if file.is_file():
                    lines = file.read_text(errors="surrogateescape").split("\n")
                    rules += [rule for line in lines if (rule := _parsed(line.rstrip("\r")))]
            self._rules[folder] = rules
        return self._rules[folder]


def _parsed(line: str) -> _Rule | None:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    back = line.startswith("!")
    line = line[back:]
    only_folders = line.endswith("/")
    line = line[: len(line) - only_folders]
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    return _Rule(re.compile(("" if anchored else "(?:.*/)?") + _expression(line), re.DOTALL), back, only_folders)


def _expression(pattern: str) -> str:
    made, i = "", 0
    while i < len(pattern):
        rest, start = pattern[i:], i == 0 or pattern[i - 1] == "/"
        if start and rest.startswith("**/"):
            made, i = made + "(?:.*/)?", i + 3
        elif start and rest == "**":
            made, i = made + ".+", i + 2
        elif rest[0] == "*":
            made, i = made + "[^/]*", i + len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            made, i = made + "[^/]", i + 1
        elif rest[0] == "[":
            one, length = _class(rest)
            made, i = made + one, i + length
        elif rest[0] == "\\" and len(rest) > 1:
            made, i = made + re.escape(rest[1]), i + 2
        else:
            made, i = made + re.escape(rest[0]), i + 1
    return made


def _class(text: str) -> tuple[str, int]:
    found = re.match(r"\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]", text, re.DOTALL)
    if not found or not found[2]:
        return "(?!)", len(text)  # it has no end: the pattern matches nothing
    inner = re.sub(r"([\[\]^&|~])", r"\\\1", found[2])
    return f"[{'^/' if found[1] else ''}{inner}]", found.end()
