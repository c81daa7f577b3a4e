"""What the operations of the client ask of the shell that runs them.

An operation is a generator: it yields effects, gets their results, and returns its value. It knows nothing of threads
or event loops, so ``Client`` and ``AsyncClient`` share all of it: paths, retries, streams that go on after a break.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request to the gateway; ``path`` begins behind its address."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Send:
    """Send a request; the result is an Answer."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request whose answer is a stream; the result is an Answer, without a body when it is a success."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Read from the open stream; the result is bytes, empty at its end."""


@dataclass(frozen=True)
class Close:
    """Close the open stream."""


@dataclass(frozen=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Give an item to the caller, who iterates."""

    item: T


@dataclass(frozen=True)
class Answer:
    """What the gateway has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


Effect = Send | Open | Read | Close | Sleep
Operation = Generator[Effect, Any, T]
Stream = Generator["Effect | Emit[T]", Any, None]
