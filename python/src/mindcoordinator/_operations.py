"""What the client does, as operations that either shell runs."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from ._effects import Answer, Close, Emit, Open, Operation, Read, Request, Send, Sleep, Stream
from ._sse import Decoder
from .errors import MindError, StreamLost, Unavailable, error_of
from .target import API, CORES

# How long calls and streams are tried again when no gateway or no coordinator answers.
RETRY_FOR = 60.0
# Answers after which the same request, with its idempotency key, may be sent again.
AGAIN = {429, 502, 503, 504}

T = TypeVar("T")


class Pauses:
    """Growing pauses between tries, as long as there is time left."""

    def __init__(self, retry_for: float) -> None:
        self._until = time.monotonic() + retry_for
        self._next = 0.1

    def after(self, problem: MindError) -> Sleep:
        """Return the pause before the next try; raise the problem when there is no time left for it."""
        pause = self._next * random.uniform(0.5, 1.0)
        if problem.retry_after:
            pause = problem.retry_after * random.uniform(1.0, 1.2)
        if time.monotonic() + pause > self._until:
            raise problem
        self._next = min(2 * self._next, 5.0)
        return Sleep(pause)


def unreachable(e: httpx.TransportError) -> Unavailable:
    return Unavailable(f"the gateway cannot be reached, is it running? {e or type(e).__name__}", code="UNREACHABLE")


def path(*parts: str) -> str:
    """Make the path of a call."""
    return API + "".join("/" + quote(part, safe="") for part in parts)


def core_path(*parts: str) -> str:
    """Make the path of a call about Cores."""
    return CORES + "".join("/" + quote(part, safe="") for part in parts)


def call(
    method: str,
    where: str,
    *,
    query: dict[str, Any] | None = None,
    body: Any = None,
    key: str | None = None,
    retry_for: float,
) -> Operation[Any]:
    """Make a call, again where that is safe and may help, and return the data of its answer."""
    headers = {}
    if method != "GET":
        # Without a key of the caller a repeated write could take effect twice.
        headers["Idempotency-Key"] = key or uuid.uuid4().hex
    request = Request(method, where, _query(query or {}), body, headers)
    pauses = Pauses(retry_for)
    while True:
        try:
            answer: Answer = yield Send(request)
        except httpx.TransportError as e:
            yield pauses.after(unreachable(e))
            continue
        if answer.status < 300:
            return json.loads(answer.body)["data"]
        problem = error_of(answer.status, answer.headers, answer.body)
        if answer.status not in AGAIN or problem.code == "QUOTA_EXCEEDED":
            raise problem
        yield pauses.after(problem)


def _query(values: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    def each() -> Iterator[tuple[str, str]]:
        for name, value in values.items():
            for one in value if isinstance(value, list | tuple) else [value]:
                if one is not None:
                    yield name, str(one).lower() if isinstance(one, bool) else str(one)

    return tuple(each())


def poll(where: str, *, until: Any, timeout: float | None, retry_for: float) -> Operation[Any]:
    """Read something until it is as wanted, at growing intervals; TimeoutError after ``timeout`` seconds."""
    began, pause = time.monotonic(), 0.1
    while True:
        data = yield from call("GET", where, retry_for=retry_for)
        if until(data):
            return data
        left = float("inf") if timeout is None else began + timeout - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{where.rpartition('/')[2]} is {data.get('status')} after {timeout:g} s")
        yield Sleep(min(pause, left))
        pause = min(1.3 * pause, 3.0)


def pages(where: str, items: str, query: dict[str, Any], limit: int | None, make: Any, retry_for: float) -> Stream[Any]:
    """Give the items of a list, page by page."""
    token, left = "", limit if limit is not None else float("inf")
    while left > 0:
        page = query | {"page_size": int(min(left, 100)), "page_token": token or None}
        data = yield from call("GET", where, query=page, retry_for=retry_for)
        for item in data[items][: int(min(left, 100))]:
            yield Emit(make(item))
            left -= 1
        token = data.get("next_page_token") or ""
        if not token:
            return


def cursor_pages(
    where: str, items: str, query: dict[str, Any], limit: int | None, make: Any, retry_for: float
) -> Stream[Any]:
    """Give the items of a list of ScaiCore, page by page."""
    cursor, left = "", limit if limit is not None else float("inf")
    while left > 0:
        page = query | {"limit": int(min(left, 500)), "cursor": cursor or None}
        data = yield from call("GET", where, query=page, retry_for=retry_for)
        for item in data[items][: int(min(left, 500))]:
            yield Emit(make(item))
            left -= 1
        cursor = data.get("next_cursor") or ""
        if not cursor:
            return


def events(where: str, query: dict[str, Any], make: Callable[[Any], T], retry_for: float) -> Stream[T]:
    """Give what the events of a stream carry, each once: after a break it goes on behind the last one that came."""
    last, pauses = "", Pauses(retry_for)
    while True:
        headers = {"Last-Event-ID": last} if last else {}
        try:
            answer: Answer = yield Open(Request("GET", where, _query(query), None, headers))
            if answer.status >= 300:
                problem = error_of(answer.status, answer.headers, answer.body)
                if answer.status not in AGAIN:
                    raise problem
                yield pauses.after(problem)
                continue
            decoder = Decoder(last)
            while data := (yield Read()):
                for event in decoder.feed(data):
                    pauses = Pauses(retry_for)
                    if event.name == "error" and event.data is not None:
                        yield Close()
                        _ended(event.data)
                        return
                    if event.data is not None:
                        yield Emit(make(json.loads(event.data)))
                    last = event.id  # after the caller has it: what it did not get comes again
            broken = Unavailable("the stream was closed before its end", code="UNREACHABLE")
        except httpx.TransportError as e:
            broken = unreachable(e)
        yield Close()
        yield pauses.after(broken)


def _ended(data: str) -> None:
    """Raise unless the stream has ended as it should."""
    end = json.loads(data)
    if end.get("code"):
        raise StreamLost(str(end.get("message") or end.get("error")), code=str(end["code"]))
