"""Cores against a real cluster."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

import mindcoordinator as mc


@pytest.fixture
def client(reach: Any) -> Any:
    with mc.Client() as c:
        yield c


def program(*body: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": list(body)}]}


def returns(value: str) -> dict[str, Any]:
    return {"kind": "rigid", "id": "end", "statements": [{"kind": "return", "value": value}]}


def core(client: mc.Client, *body: dict[str, Any]) -> mc.Core:
    made = client.create_core(f"core {uuid.uuid4().hex[:8]}", program(*body))
    started = client.start_core(made)
    assert started.status == "running", started.error
    return started


def test_a_flow_runs_a_job_asks_and_ends(client: mc.Client) -> None:
    spec = {"command_config": {"argv": ["true"], "cwd": "/tmp"}, "resource_config": {"gpu_count": 0}}
    made = core(
        client,
        {"kind": "compute", "id": "train", "action": "job", "spec": spec},
        {"kind": "checkpoint", "id": "ask", "prompt": "Ship {{train.job_id}}?", "options": ["ship", "drop"]},
        returns("ask.resolution + ' ' + train.job_id"),
    )
    begun = client.invoke(made, {"n": 1})
    asked = client.wait_execution(begun, timeout=120, until_asked=True)
    assert (asked.asks, asked.done) == (True, False)
    (decision,) = client.decisions(made)
    (job,) = client.jobs(labels={"execution": begun.execution_id})
    assert decision.prompt == f"Ship {job.job_id}?"
    with pytest.raises(mc.InvalidRequest, match="one of ship, drop"):
        client.resolve(decision, "maybe")
    assert client.resolve(decision, "ship", comment="fine").status == "resolved"
    with pytest.raises(mc.Conflict, match="it can be answered once"):
        client.resolve(decision, "ship")
    done = client.wait_execution(begun, timeout=60).check()
    assert (done.output, done.input) == (f"ship {job.job_id}", {"n": 1})
    assert [e.execution_id for e in client.executions(made)] == [begun.execution_id]
    client.stop_core(made)


def test_a_failed_execution_says_why_and_is_retried(client: mc.Client) -> None:
    bad = {"kind": "fail", "code": "DIVERGED", "message": "lr {{lr}}"}
    made = core(
        client,
        {"kind": "rigid", "id": "set", "statements": [{"kind": "assign", "name": "lr", "value": "0.5"}]},
        {
            "kind": "if",
            "id": "check",
            "cases": [{"when": "lr > 0.1", "body": [{"kind": "rigid", "id": "bad", "statements": [bad]}]}],
        },
        returns("lr"),
    )
    failed = client.invoke(made, wait=30)
    with pytest.raises(mc.ExecutionFailed, match=r"bad: lr 0\.5") as why:
        failed.check()
    assert why.value.code == "DIVERGED"
    client.retry_execution(failed, "check", {"lr": 0.01})
    assert client.wait_execution(failed, timeout=60).check().output == 0.01


def test_events_and_keys(client: mc.Client) -> None:
    made = core(client, {"kind": "wait", "id": "got", "event": "go"}, returns("got.n"))
    key = uuid.uuid4().hex
    first, again = (client.invoke(made, idempotency_key=key) for _ in range(2))
    assert first.execution_id == again.execution_id
    while client.send(made, "go", {"n": 7})["woken"] == 0:
        pass
    assert client.wait_execution(first, timeout=60).output == 7
    other = client.invoke(made)
    assert client.wait_execution(client.cancel_execution(other, "enough"), timeout=60).status == "canceled"


def test_async(client: mc.Client) -> None:
    made = core(client, returns("input * 2"))

    async def run() -> list[Any]:
        async with mc.AsyncClient() as c:
            done = await asyncio.gather(*(c.invoke(made, n, wait=30) for n in range(5)))
            assert len([e async for e in c.executions(made)]) == 5
            return [e.check().output for e in done]

    assert asyncio.run(run()) == [0, 2, 4, 6, 8]
