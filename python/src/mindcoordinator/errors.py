"""What the client raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class MindError(Exception):
    """A call failed. ``code`` is that of the REST interface; branch on it, or on the subclass."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        details: list[dict[str, str]] | None = None,
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details = details or []
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}" if self.code else self.message
        faults = "; ".join(f"{d.get('field', '')}: {d.get('message', '')}" for d in self.details)
        return f"{text} ({faults})" if faults and faults not in text else text


class InvalidRequest(MindError):
    """The request was refused for what it says (400, 413, 422); ``details`` names the fields of a 422."""


class NotAllowed(MindError):
    """The token is missing, not valid, or lacks the permission (401, 403)."""


class NotFound(MindError):
    """There is no such thing, or it belongs to another tenant (404)."""


class Conflict(MindError):
    """What it is about is in the wrong state, or the idempotency key was used with another request (409)."""


class QuotaExceeded(MindError):
    """The tenant may have no more of it, or too many requests were made (429)."""


class Unavailable(MindError):
    """No answer in time: no gateway, no leader, or too much work. Retries did not help, or were not made."""


class StreamLost(MindError):
    """A stream ended before its end: the token expired, or a part of a log was lost with its node."""


class JobFailed(MindError):
    """A job that was expected to succeed did not; ``job`` is the job."""

    def __init__(self, message: str, job: Any) -> None:
        super().__init__(message, code=job.error_type or job.status)
        self.job = job


class ExecutionFailed(MindError):
    """An execution that was expected to complete did not; ``execution`` is the execution."""

    def __init__(self, message: str, execution: Any) -> None:
        super().__init__(message, code=(execution.error or {}).get("code") or execution.status.upper())
        self.execution = execution


_KINDS: dict[int, type[MindError]] = {
    400: InvalidRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    422: InvalidRequest,
    429: QuotaExceeded,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> MindError:
    """Make the exception for an answer that is no success."""
    error: dict[str, Any] = {}
    try:
        answer = json.loads(body)
        error = answer["error"] if isinstance(answer["error"], dict) else {}
    except (ValueError, KeyError, TypeError):  # something before the gateway has answered
        pass
    retry_after = error.get("retry_after")
    if retry_after is None and headers.get("retry-after", "").isdigit():
        retry_after = float(headers["retry-after"])
    return _KINDS.get(status, MindError)(
        str(error.get("message") or f"the answer was HTTP {status}: is this the address of a gateway?"),
        code=str(error.get("code") or f"HTTP_{status}"),
        status=status,
        details=error.get("details"),
        retry_after=retry_after,
        request_id=headers.get("x-request-id", ""),
    )
