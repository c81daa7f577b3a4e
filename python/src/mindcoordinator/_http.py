"""What both shells make of requests for httpx."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit

import httpx

from ._effects import Answer, Request
from ._version import __version__
from .target import Target

# A stream that is silent sends something every 15 seconds.
_SILENCE = 45.0


def options(target: Target, timeout: float) -> dict[str, Any]:
    """Return the arguments of an httpx client for a cluster."""
    headers = {"User-Agent": f"mindcoordinator/{__version__}", "X-Request-Timeout": f"{min(timeout, 300):g}"}
    if target.token:
        headers["Authorization"] = f"Bearer {target.token}"
    parts = urlsplit(target.addr)
    made: dict[str, Any] = {
        "base_url": target.addr,
        "headers": headers,
        # The gateway answers when the time is up; the rest is for the way.
        "timeout": httpx.Timeout(timeout + 5, connect=min(timeout, 10)),
        # No proxy of the environment leads to this machine.
        "trust_env": parts.hostname not in ("localhost", "127.0.0.1", "::1"),
    }
    if parts.scheme == "https" and target.ca_cert:
        made["verify"] = ssl.create_default_context(cafile=target.ca_cert)
    return made


def arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    made: dict[str, Any] = {"params": list(request.query), "headers": dict(request.headers)}
    if isinstance(request.body, bytes):
        made["content"] = request.body
        made["headers"]["Content-Type"] = "application/octet-stream"
    elif request.body is not None:
        made["json"] = request.body
    return {"method": request.method, "url": request.path, **made}


def stream_arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of httpx for a request whose answer is a stream."""
    made = arguments(request)
    made["timeout"] = httpx.Timeout(_SILENCE, connect=10)
    return made


def answer(response: httpx.Response, body: bytes = b"") -> Answer:
    """Make an answer of a response, whose body may still be to come."""
    return Answer(response.status_code, response.headers, body)
