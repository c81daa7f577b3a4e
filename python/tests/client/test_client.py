"""The client against a real cluster."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import mindcoordinator as mc
from mindcoordinator.requests import CommandConfig, ResourceConfig

CPU: ResourceConfig = {"gpu_count": 0}


def shell(text: str) -> CommandConfig:
    return {"argv": ["/bin/sh", "-c", text], "cwd": "/tmp"}


@pytest.fixture
def client(reach: Any) -> Any:
    with mc.Client() as c:
        yield c


def test_a_job_from_submit_to_its_logs_and_metrics(client: mc.Client) -> None:
    report = 'for i in 1 2 3; do echo "{\\"step\\": $i, \\"loss\\": 0.$i}" >> "$MIND_METRICS_FILE"; echo line $i; done'
    job = client.submit("figures", command_config=shell(report), resource_config=CPU, labels={"made-by": "test"})
    done = client.wait(job, timeout=120).check()
    assert done.job_id == job.job_id
    assert done.exit_code == 0
    assert done.finished_at is not None
    assert done.created_at is not None
    assert done.finished_at >= done.created_at
    assert [line.message for line in client.logs(job) if line.stream == "stdout"] == ["line 1", "line 2", "line 3"]
    assert [m["loss"] for m in client.metrics(job)] == [0.1, 0.2, 0.3]
    assert client.newest_metrics(job)["metrics"]["loss"] == 0.3
    assert "figures" in done._repr_html_()
    assert [j.job_id for j in client.jobs(labels={"made-by": "test"})] == [job.job_id]
    pandas = pytest.importorskip("pandas")
    frame = client.metrics_frame(job)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["loss"]) == [0.1, 0.2, 0.3]


def test_a_failed_job_says_why(client: mc.Client) -> None:
    job = client.submit("fails", command_config=shell("echo no luck >&2; exit 3"), resource_config=CPU)
    with pytest.raises(mc.JobFailed, match="no luck") as failed:
        client.wait(job, timeout=120).check()
    assert failed.value.job.exit_code == 3
    assert failed.value.code == "EXIT_NONZERO"


def test_errors_are_what_the_gateway_says(client: mc.Client, reach: Any) -> None:
    with pytest.raises(mc.NotFound) as missing:
        client.job("job_00000000000000000000000000")
    assert (missing.value.code, missing.value.status) == ("NOT_FOUND", 404)
    assert missing.value.request_id
    with pytest.raises(mc.InvalidRequest, match="command_confg") as invalid:
        client.submit("x", **{"command_confg": {}})  # type: ignore[typeddict-unknown-key, arg-type]
    assert invalid.value.code == "VALIDATION_ERROR"
    assert invalid.value.details
    with pytest.raises(mc.InvalidRequest):
        client.submit("x", command_config={"argv": ["true"], "cwd": "/"}, resource_config={"gpu_count": 99})
    job = client.wait(
        client.submit("done", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU), timeout=120
    )
    with pytest.raises(mc.Conflict):
        client.cancel(job)
    with mc.Client(reach.url, token="sgk_wrong") as stranger, pytest.raises(mc.NotAllowed) as denied:
        stranger.nodes()
    assert denied.value.code == "AUTH_TOKEN_INVALID"
    with pytest.raises(ValueError, match="is no job_id"):
        client.job("../nodes")


def test_one_key_is_one_job(client: mc.Client) -> None:
    key = uuid.uuid4().hex
    first = client.submit(
        "once", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU, idempotency_key=key
    )
    again = client.submit(
        "once", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU, idempotency_key=key
    )
    assert first.job_id == again.job_id
    with pytest.raises(mc.Conflict):
        client.submit("other", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU, idempotency_key=key)


def test_pause_resume_cancel(client: mc.Client) -> None:
    job = client.submit(
        "long", command_config=shell("trap 'exit 0' USR1 TERM; while :; do sleep 0.1; done"), resource_config=CPU
    )
    for event in client.events("job", since_index=0):
        if event["job_id"] == job.job_id and event["to"] == "RUNNING":
            running = event["index"]
            break
    client.pause(job)
    until(lambda: client.job(job).status == "PAUSED")
    then = client.explain(job, at=running)
    assert then["state"] == "RUNNING"
    assert then["at"]["index"] == running
    with pytest.raises(mc.InvalidRequest):
        client.explain(job, what_if={"gpus": 1}, at="tomorrow")
    assert client.resume(job).status in ("PENDING", "QUEUED", "SCHEDULING", "PREPARING", "TRAINING")
    client.cancel(job, reason="enough")
    assert client.wait(job, timeout=60).status == "CANCELLED"
    assert client.explain(job)["status"] == "CANCELLED"


def test_update_hold_release(client: mc.Client) -> None:
    job = client.submit(
        "waits",
        command_config={"argv": ["true"], "cwd": "/"},
        resource_config=CPU,
        scheduling_config={"not_before": "2099-01-01T00:00:00Z"},
    )
    changed = client.update(job, labels={"a": "b"}, scheduling_config={"priority": 9})
    assert (changed.raw["priority"], changed.raw["labels"]["a"]) == (9, "b")
    assert "held by a user: not yet" in client.hold(job, reason="not yet").raw["reason"]
    client.update(job, scheduling_config={"not_before": "2020-01-01T00:00:00Z"})
    client.release(job)
    assert client.wait(job, timeout=60).status == "COMPLETED"
    with pytest.raises(mc.Conflict):
        client.update(job, name="late")


def test_array(client: mc.Client) -> None:
    job = client.submit(
        "three",
        command_config=shell("exit $((MIND_ARRAY_INDEX % 2))"),
        resource_config=CPU,
        scheduling_config={"array": {"start": 0, "end": 2, "max_parallel": 2}},
    )
    done = client.wait(job, timeout=120)
    assert (done.status, done.exit_code) == ("FAILED", 1)
    assert [t["exit_code"] for t in client.tasks(job)] == [0, 1, 0]
    failed = list(client.tasks(job, status="FAILED"))
    assert [t["job_id"] for t in failed] == [f"{job.job_id}[1]"]
    assert client.job(f"{job.job_id}[1]").status == "FAILED"


def until(holds: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_wait_gives_up(client: mc.Client) -> None:
    job = client.submit("slow", command_config=shell("exec sleep 60"), resource_config=CPU)
    with pytest.raises(TimeoutError, match=r"after 0\.3 s"):
        client.wait(job, timeout=0.3)
    client.cancel(job)


def test_checkpoints(client: mc.Client) -> None:
    save = (
        'for i in 1 2; do d="$MIND_CHECKPOINT_DIR/c-$i"; mkdir "$d.tmp"; echo $i > "$d.tmp/f"; mv "$d.tmp" "$d"; done'
    )
    job = client.wait(client.submit("saves", command_config=shell(save), resource_config=CPU), timeout=120).check()
    saved = client.checkpoints(job)
    assert sorted(c.step for c in saved) == [1, 2]
    assert client.checkpoint(saved[0]).checkpoint_id == saved[0].checkpoint_id
    assert saved[0].job_id == job.job_id


def test_the_cluster(client: mc.Client) -> None:
    (node,) = client.nodes()
    assert client.node(node["node_id"])["state"] == "READY"
    assert client.cluster()["gpus_healthy"] == 4
    assert "jobs" in client.queue()


def test_pages_are_read_as_they_are_needed(client: mc.Client) -> None:
    for i in range(3):
        client.submit(
            f"page-{i}", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU, labels={"test": "pages"}
        )
    assert len(list(client.jobs(labels={"test": "pages"}, limit=2))) == 2
    assert len(list(client.jobs(labels={"test": "pages"}))) == 3


async def test_the_asynchronous_client(reach: Any) -> None:
    async with mc.AsyncClient() as client:
        jobs = await asyncio.gather(
            *(client.submit(f"a{i}", command_config=shell(f"echo hello {i}"), resource_config=CPU) for i in range(3))
        )
        ended = await asyncio.gather(*(client.wait(job, timeout=120) for job in jobs))
        assert [job.check().exit_code for job in ended] == [0, 0, 0]
        assert [line.message async for line in client.logs(jobs[1]) if line.stream == "stdout"] == ["hello 1"]
        with pytest.raises(mc.NotFound):
            await client.job("job_00000000000000000000000000")


def test_a_gateway_that_dies_costs_no_line(client: mc.Client, reach: Any, tmp_path: Path) -> None:
    """Five times the gateway is killed while a job's log is followed: every line comes, once and in order."""
    go = tmp_path / "go"
    script = f'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "{{\\"step\\": $i}}" >> "$MIND_METRICS_FILE"; echo $i; if [ $((i % 20)) = 0 ]; then sleep 0.02; fi; if [ $i = 2000 ]; then while [ ! -e {go} ]; do sleep 0.05; done; fi; done'
    job = client.submit("lines", command_config=shell(script), resource_config=CPU)
    steps: list[int] = []
    watcher = threading.Thread(target=lambda: steps.extend(m["step"] for m in client.metrics(job, follow=True)))
    watcher.start()
    seen: list[str] = []
    deaths = 0
    for line in client.logs(job):
        if line.stream != "stdout":
            continue
        seen.append(line.message)
        if deaths < 5 and len(seen) % 300 == 0:
            deaths += 1
            reach.kill_gateway()
            reach.start_gateway()
            assert client.job(job).job_id == job.job_id  # waits for it, too
            if deaths == 5:
                go.touch()
    watcher.join(timeout=120)
    assert seen == [str(i) for i in range(1, 3001)]
    assert steps == list(range(1, 3001))
    assert client.wait(job, timeout=60).check().done


def test_an_asynchronous_stream_goes_on_as_well(reach: Any) -> None:
    async def follow() -> list[str]:
        async with mc.AsyncClient() as client:
            job = await client.submit(
                "async", command_config=shell("for i in 1 2 3 4; do echo $i; sleep 1; done"), resource_config=CPU
            )
            seen = []
            async for line in client.logs(job):
                if line.stream == "stdout":
                    seen.append(line.message)
                if seen == ["1", "2"]:
                    await asyncio.to_thread(reach.kill_gateway)
                    reach.start_gateway()
            return seen

    assert asyncio.run(follow()) == ["1", "2", "3", "4"]


class Swallow(threading.Thread):
    """A proxy that passes requests on, and drops the connection instead of the first answer."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self.to = (parts.hostname, parts.port)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addr = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.requests = 0

    def run(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:  # the test has closed it
                return
            with client, socket.create_connection(self.to) as gateway:
                while data := self._request(client):
                    gateway.sendall(data)
                    answer = gateway.recv(1 << 16)
                    self.requests += data.count(b"POST ")
                    if self.requests == 1:
                        break
                    client.sendall(answer)

    @staticmethod
    def _request(client: socket.socket) -> bytes:
        """Read a whole request, which may come in pieces; empty at the end."""
        data = b""
        while not (whole := re.search(rb"\r\n\r\n", data)):
            if not (more := client.recv(1 << 16)):
                return b""
            data += more
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data[: whole.end()])
        while len(data) < whole.end() + (int(length[1]) if length else 0):
            data += client.recv(1 << 16)
        return data


def test_a_lost_answer_makes_no_second_job(client: mc.Client, reach: Any) -> None:
    proxy = Swallow(reach.url)
    proxy.start()
    with proxy.server, mc.Client(proxy.addr, token=reach.token) as through:
        job = through.submit(
            "one", command_config={"argv": ["true"], "cwd": "/"}, resource_config=CPU, labels={"t": "lost"}
        )
    assert proxy.requests == 2
    assert [j.job_id for j in client.jobs(labels={"t": "lost"})] == [job.job_id]


def test_without_a_gateway_it_says_so_in_time() -> None:
    with mc.Client("127.0.0.1:1", token="t", retry_for=0.5) as client:
        began = time.monotonic()
        with pytest.raises(mc.Unavailable, match="cannot be reached"):
            client.nodes()
        with pytest.raises(mc.Unavailable, match="cannot be reached"):
            list(client.logs("job_x"))
        assert time.monotonic() - began < 10


def test_a_checkpoint_is_downloaded_as_it_was_saved(client: mc.Client, tmp_path: Path) -> None:
    save = (
        'd="$MIND_CHECKPOINT_DIR/c-7"; mkdir -p "$d.tmp/sub"; head -c 300000 /dev/urandom > "$d.tmp/sub/weights"; '
        'echo x > "$d.tmp/a"; ln -s sub/weights "$d.tmp/link"; mv "$d.tmp" "$d"'
    )
    job = client.wait(client.submit("saves", command_config=shell(save), resource_config=CPU), timeout=120).check()
    (saved,) = client.checkpoints(job)
    until(lambda: client.checkpoint(saved).state == "DURABLE")
    there = client.download(saved, tmp_path / "c")
    assert (there / "sub" / "weights").read_bytes() == (Path(saved.path) / "sub" / "weights").read_bytes()
    assert (there / "link").read_bytes() == (there / "sub" / "weights").read_bytes()
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith("config")] == ["c"]
    with pytest.raises(FileExistsError, match="name a directory that does not"):
        client.download(saved, tmp_path / "c")
    assert client.pin(saved).pinned
    assert not client.unpin(saved).pinned
    with pytest.raises(mc.NotFound):
        client.download("ckpt_00000000", tmp_path / "d")
    assert not (tmp_path / "d").exists()
