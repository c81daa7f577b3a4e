"""Server-sent events, decoded from bytes as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One event. ``data`` is None for an id that came alone."""

    name: str
    data: str | None
    id: str


class Decoder:
    """Makes events of the bytes of one connection.

    Only LF, CR and CRLF end a line, as the standard says: logs may contain any other character, which is why lines are
    split here rather than by the HTTP library.
    """

    def __init__(self, last_id: str = "") -> None:
        self._rest = b""
        self._id = last_id
        self._name = ""
        self._data: list[str] = []
        self._changed = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take some bytes, and give the events that are complete."""
        data = self._rest + data
        # A CR at the end may be half of a CRLF.
        self._rest = b""
        if data.endswith(b"\r"):
            data, self._rest = data[:-1], b"\r"
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + self._rest
        for line in lines:
            event = self._line(line.decode("utf-8", "replace"))
            if event:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            name, data, changed = self._name, self._data, self._changed
            self._name, self._data, self._changed = "", [], False
            if not data and not changed:
                return None
            return Event(name or "message", "\n".join(data) if data else None, self._id)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id, self._changed = value, True
        return None
