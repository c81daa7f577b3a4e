"""How much memory of the host a process may still take, by the machine and by its control groups."""

from __future__ import annotations

from pathlib import Path

# What is left for everything else.
_SHARE = 0.8


def fits(needed: int) -> bool:
    """Whether so many bytes more fit into the memory of the host."""
    return needed <= _SHARE * available()


def available(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes that may still be taken; 0 where the system does not say."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return 0
    return min([free, *_left(proc, groups)])


def _left(proc: Path, groups: Path) -> list[int]:
    """What is left to each control group (version 2) of this process that has a limit."""
    try:
        name = next(line[3:] for line in (proc / "self" / "cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    left = []
    group = groups / name.lstrip("/")
    while group != groups.parent:
        try:
            limit = (group / "memory.max").read_text().strip()
            if limit != "max":
                used = int((group / "memory.current").read_text())
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                # Pages of files are given back when memory is short.
                left.append(max(0, int(limit) - used + int(stat.get("inactive_file", 0))))
        except OSError:
            pass  # the root has no limit
        group = group.parent
    return left
