"""The decoder of event streams, and of times."""

from __future__ import annotations

from datetime import datetime, timezone

from mindcoordinator._sse import Decoder, Event
from mindcoordinator.models import Job

STREAM = (
    ': keepalive\n\nid: 7\n\nid: 8\nevent: log\ndata: {"a":\ndata: 1}\n\nevent: x\r\ndata:b\u2028c\r\n\r\ndata: d\r\rdata: half'
).encode()
EVENTS = [
    Event("message", None, "7"),
    Event("log", '{"a":\n1}', "8"),
    Event("x", "b\u2028c", "8"),
    Event("message", "d", "8"),
]


def test_events_are_the_same_however_the_bytes_arrive() -> None:
    for size in range(1, len(STREAM) + 1):
        decoder = Decoder()
        seen = [e for i in range(0, len(STREAM), size) for e in decoder.feed(STREAM[i : i + size])]
        assert seen == EVENTS, size


def test_times_with_and_without_fractions() -> None:
    job = Job.of(
        {"job_id": "j", "created_at": "2026-01-31T08:00:00Z", "started_at": "2026-01-31T08:00:00.123456789Z", "more": 1}
    )
    assert job.created_at == datetime(2026, 1, 31, 8, tzinfo=timezone.utc)
    assert job.started_at == datetime(2026, 1, 31, 8, 0, 0, 123456, tzinfo=timezone.utc)
    assert job.raw["more"] == 1
