from __future__ import annotations

from pathlib import Path

from mind_runner import memory


def system(folder: Path, group: str) -> tuple[Path, Path]:
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "meminfo").write_text("MemTotal: 4000 kB\nMemAvailable: 3000 kB\n")
    (folder / "proc" / "self" / "cgroup").write_text(f"0::{group}\n")
    (folder / "groups").mkdir()
    return folder / "proc", folder / "groups"


def limit(group: Path, most: str, used: int, files: int) -> None:
    group.mkdir(exist_ok=True)
    (group / "memory.max").write_text(f"{most}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {files}\n")


def test_the_machine_says_what_is_left_without_limits(tmp_path: Path) -> None:
    proc, groups = system(tmp_path, "/task")
    limit(groups / "task", "max", 5, 5)
    assert memory.available(proc, groups) == 3000 << 10


def test_the_tightest_limit_above_counts(tmp_path: Path) -> None:
    proc, groups = system(tmp_path, "/jobs/task")
    limit(groups / "jobs", "1000000", 900_000, 50_000)
    limit(groups / "jobs" / "task", "500000", 100_000, 0)
    assert memory.available(proc, groups) == 150_000


def test_this_machine() -> None:
    assert memory.fits(1)
    assert not memory.fits(1 << 60)
