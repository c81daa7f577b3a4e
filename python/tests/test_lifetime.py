"""What tests start ends with them, also when they are killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Another run of tests, which is killed.
DOOMED = """
import sys
from pathlib import Path
import conftest
running = conftest.Cluster(Path(sys.argv[1]))
running.kill_gateway()
running.start_gateway()
print("ready", flush=True)
sys.stdin.read()  # with the test that started this, it ends as well
running.stop()
"""


def processes_of(folder: Path) -> dict[int, str]:
    """Find the processes whose command line or environment names a path below a folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                argv = (entry / "cmdline").read_bytes()
                if f"{folder}".encode() in argv + (entry / "environ").read_bytes():
                    found[int(entry.name)] = argv.replace(b"\0", b" ").decode()
    return found


def test_a_killed_run_leaves_no_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    doomed = subprocess.Popen(
        [sys.executable, "-c", DOOMED, f"{folder}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{HERE}"},
    )
    assert doomed.stdin is not None
    assert doomed.stdout is not None
    with doomed, doomed.stdin, doomed.stdout:
        assert doomed.stdout.readline() == b"ready\n"
        started = processes_of(folder)
        started.pop(doomed.pid)  # it is told the folder, too
        for kind in ("dev", "coordinator", "agent", "gateway", "shim"):
            assert any(f" {kind} " in argv for argv in started.values()), started
        # Handles, because a number may become another's.
        ends = {os.pidfd_open(pid): argv for pid, argv in started.items()}
        doomed.kill()
        left = [argv for handle, argv in ends.items() if not ended(handle)]
        for handle in ends:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
    assert left == []
    assert processes_of(folder) == {}


def ended(handle: int) -> bool:
    """Wait for the end of a process, for a minute at most."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(60_000))
