"""The calls of the client, each as an operation. ``Client`` and ``AsyncClient`` run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _operations as op
from ._download import download
from ._effects import Operation, Stream
from ._upload import send
from ._venv import within
from .models import Checkpoint, Core, Decision, Evaluation, Execution, Job, LogLine, id_of

if TYPE_CHECKING:
    from os import PathLike

    from .requests import Benchmark, EvaluationRequest, JobChanges, JobRequest, ResourceConfig

JobRef = str | Job
CheckpointRef = str | Checkpoint
EvaluationRef = str | Evaluation
CoreRef = str | Core
ExecutionRef = str | Execution
DecisionRef = str | Decision


class Api:
    """Operations, with what they share: how long they try again."""

    def __init__(self, retry_for: float) -> None:
        self.retry_for = retry_for

    def get(self, *parts: str, **query: Any) -> Operation[Any]:
        """Read something."""
        return op.call("GET", op.path(*parts), query=query, retry_for=self.retry_for)

    def post(self, *parts: str, body: Any = None, key: str | None = None) -> Operation[Any]:
        """Write something."""
        return op.call("POST", op.path(*parts), body=body or {}, key=key, retry_for=self.retry_for)

    def submit(
        self,
        name: str,
        request: JobRequest,
        venv: bool | str | PathLike[str],
        upload: str | PathLike[str] | None,
        key: str | None,
    ) -> Operation[Job]:
        """Submit a job."""
        body = within(venv, {"name": name, **request})
        if upload is not None:
            if "command_config" not in body:
                raise ValueError("upload: only a job with a command_config has one")
            sent = yield from send(upload, self.retry_for)
            body["command_config"] = {**body["command_config"], "upload": sent}
        return Job.of((yield from self.post("jobs", body=body, key=key)))

    def job(self, job: JobRef) -> Operation[Job]:
        """Read a job."""
        return Job.of((yield from self.get("jobs", id_of(job, "job_id"))))

    def jobs(
        self,
        status: str | Iterable[str],
        queue: str | None,
        labels: Mapping[str, str],
        order_by: str | None,
        limit: int | None,
    ) -> Stream[Job]:
        """List jobs."""
        query = {
            "status": [status] if isinstance(status, str) and status else list(status),
            "queue": queue,
            "label": [f"{name}={value}" for name, value in labels.items()],
            "order_by": order_by,
        }
        return op.pages(op.path("jobs"), "jobs", query, limit, Job.of, self.retry_for)

    def tasks(self, job: JobRef, status: str | Iterable[str], limit: int | None) -> Stream[dict[str, Any]]:
        """List the elements of an array."""
        where = op.path("jobs", id_of(job, "job_id"), "tasks")
        query = {"status": [status] if isinstance(status, str) and status else list(status)}
        return op.pages(where, "tasks", query, limit, dict, self.retry_for)

    def wait(self, job: JobRef, timeout: float | None) -> Operation[Job]:
        """Wait for the end of a job."""
        where = op.path("jobs", id_of(job, "job_id"))
        data = yield from op.poll(where, until=lambda d: Job.of(d).done, timeout=timeout, retry_for=self.retry_for)
        return Job.of(data)

    def lifecycle(self, job: JobRef, what: str, body: dict[str, Any]) -> Operation[Job]:
        """Cancel, pause, resume, retry, hold or release a job."""
        given = {name: value for name, value in body.items() if value is not None}
        return Job.of((yield from self.post("jobs", id_of(job, "job_id"), what, body=given)))

    def update(self, job: JobRef, changes: JobChanges) -> Operation[Job]:
        """Change what a job asks for."""
        where = op.path("jobs", id_of(job, "job_id"))
        return Job.of((yield from op.call("PATCH", where, body=dict(changes), retry_for=self.retry_for)))

    def logs(
        self, job: JobRef, follow: bool, tail: int | None, rank: int | None, attempt: int | None, since: str | None
    ) -> Stream[LogLine]:
        """Read what a job prints."""
        where = op.path("jobs", id_of(job, "job_id"), "logs")
        query = {"follow": follow, "tail": tail, "rank": rank, "attempt": attempt, "since": since}
        return op.events(where, query, LogLine.of, self.retry_for)

    def metrics(self, job: JobRef, follow: bool) -> Stream[dict[str, Any]]:
        """Read the lines of metrics that a job reports."""
        where = op.path("jobs", id_of(job, "job_id"), "metrics", "stream")
        return op.events(where, {"follow": follow}, dict, self.retry_for)

    def newest_metrics(self, job: JobRef) -> Operation[dict[str, Any]]:
        """Read the newest value of each metric."""
        return self.get("jobs", id_of(job, "job_id"), "metrics")

    def explain(
        self, job: JobRef, what_if: Mapping[str, object] | None, at: int | str | None
    ) -> Operation[dict[str, Any]]:
        """Read why a job is where it is, or was."""
        suppose = [f"{key}={value}" for key, value in (what_if or {}).items()]
        return self.get("jobs", id_of(job, "job_id"), "explain", what_if=suppose, at=at)

    def nodes(self) -> Operation[list[dict[str, Any]]]:
        """List the nodes."""
        return list((yield from self.get("cluster", "nodes"))["nodes"])

    def series(
        self, job: JobRef, names: Iterable[str], points: int | None, attempt: int | None
    ) -> Operation[list[dict[str, Any]]]:
        """Read the history of metrics."""
        query = {"name": [names] if isinstance(names, str) else list(names), "points": points, "attempt": attempt}
        data = yield from self.get("jobs", id_of(job, "job_id"), "metrics", "series", **query)
        return list(data["series"])

    def checkpoints(self, job: JobRef) -> Operation[list[Checkpoint]]:
        """List the checkpoints of a job."""
        data = yield from self.get("jobs", id_of(job, "job_id"), "checkpoints")
        return [Checkpoint.of(c) for c in data["checkpoints"]]

    def checkpoint(self, checkpoint: CheckpointRef) -> Operation[Checkpoint]:
        """Read a checkpoint."""
        return Checkpoint.of((yield from self.get("checkpoints", id_of(checkpoint, "checkpoint_id"))))

    def pin(self, checkpoint: CheckpointRef, what: str) -> Operation[Checkpoint]:
        """Pin or unpin a checkpoint."""
        return Checkpoint.of((yield from self.post("checkpoints", id_of(checkpoint, "checkpoint_id"), what)))

    def download(self, checkpoint: CheckpointRef, to: str | Path) -> Operation[Path]:
        """Fetch the files of a checkpoint."""
        where = op.path("checkpoints", id_of(checkpoint, "checkpoint_id"), "download")
        return download(where, Path(to), self.retry_for)

    def evaluate(
        self, benchmarks: Iterable[str | Benchmark], request: EvaluationRequest, key: str | None
    ) -> Operation[Evaluation]:
        """Submit an evaluation."""
        body = {"benchmarks": [{"name": b} if isinstance(b, str) else b for b in benchmarks], **request}
        return Evaluation.of((yield from self.post("evaluations", body=body, key=key)))

    def evaluation(self, evaluation: EvaluationRef) -> Operation[Evaluation]:
        """Read an evaluation."""
        return Evaluation.of((yield from self.get("evaluations", id_of(evaluation, "evaluation_id"))))

    def evaluations(self, job: JobRef | None, limit: int | None) -> Stream[Evaluation]:
        """List evaluations."""
        query = {"job_id": id_of(job, "job_id") if job else None}
        return op.pages(op.path("evaluations"), "evaluations", query, limit, Evaluation.of, self.retry_for)

    def wait_evaluation(self, evaluation: EvaluationRef, timeout: float | None) -> Operation[Evaluation]:
        """Wait for the end of an evaluation."""
        where = op.path("evaluations", id_of(evaluation, "evaluation_id"))
        data = yield from op.poll(
            where, until=lambda d: Evaluation.of(d).done, timeout=timeout, retry_for=self.retry_for
        )
        return Evaluation.of(data)

    def compare(self, evaluations: Iterable[EvaluationRef]) -> Operation[dict[str, Any]]:
        """Compare evaluations."""
        ids = ",".join(id_of(e, "evaluation_id") for e in evaluations)
        return self.get("evaluations", "compare", ids=ids)

    def core_call(self, method: str, *parts: str, body: Any = None, key: str | None = None) -> Operation[Any]:
        """Make a call about Cores."""
        where = op.core_path(*parts)
        return op.call(method, where, body=body if method == "GET" else body or {}, key=key, retry_for=self.retry_for)

    def create_core(self, name: str, source: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Operation[Core]:
        """Make a Core."""
        body = {"name": name, **({"source": source} if source else {}), **more}
        return Core.of((yield from self.core_call("POST", "cores", body=body)))

    def core(self, core: CoreRef) -> Operation[Core]:
        """Read a Core."""
        return Core.of((yield from self.core_call("GET", "cores", id_of(core, "id"))))

    def cores(self, limit: int | None) -> Stream[Core]:
        """List Cores."""
        return op.cursor_pages(op.core_path("cores"), "cores", {}, limit, Core.of, self.retry_for)

    def start_core(self, core: CoreRef, timeout: float | None) -> Operation[Core]:
        """Start a Core, and wait until it runs."""
        name = id_of(core, "id")
        yield from self.core_call("POST", "cores", name, "start")
        where = op.core_path("cores", name)
        data = yield from op.poll(
            where, until=lambda d: d["status"] != "starting", timeout=timeout, retry_for=self.retry_for
        )
        return Core.of(data)

    def control_core(self, core: CoreRef, what: str) -> Operation[Core]:
        """Stop, restart, pause or resume a Core."""
        return Core.of((yield from self.core_call("POST", "cores", id_of(core, "id"), what)))

    def delete_core(self, core: CoreRef) -> Operation[None]:
        """Delete a Core."""
        where = op.core_path("cores", id_of(core, "id"))
        yield from op.call("DELETE", where, retry_for=self.retry_for)

    def invoke(self, core: CoreRef, given: Any, flow: str | None, wait: int, key: str | None) -> Operation[Execution]:
        """Start an execution."""
        body = {"input": given, "flow": flow, "wait_seconds": wait}
        return Execution.of(
            (yield from self.core_call("POST", "cores", id_of(core, "id"), "invoke", body=body, key=key))
        )

    def send(self, core: CoreRef, event: str, data: Any) -> Operation[dict[str, Any]]:
        """Send an event to a Core."""
        body = {"event_name": event, "data": data}
        return dict((yield from self.core_call("POST", "cores", id_of(core, "id"), "events", body=body)))

    def execution(self, execution: ExecutionRef) -> Operation[Execution]:
        """Read an execution."""
        return Execution.of((yield from self.core_call("GET", "executions", id_of(execution, "execution_id"))))

    def executions(self, core: CoreRef | None, status: str | None, limit: int | None) -> Stream[Execution]:
        """List executions."""
        query = {"core_id": id_of(core, "id") if core else None, "status": status}
        return op.cursor_pages(op.core_path("executions"), "executions", query, limit, Execution.of, self.retry_for)

    def wait_execution(self, execution: ExecutionRef, until_asked: bool, timeout: float | None) -> Operation[Execution]:
        """Wait for the end of an execution."""

        def over(data: Any) -> bool:
            now = Execution.of(data)
            return now.done or (until_asked and now.asks)

        where = op.core_path("executions", id_of(execution, "execution_id"))
        return Execution.of((yield from op.poll(where, until=over, timeout=timeout, retry_for=self.retry_for)))

    def control_execution(self, execution: ExecutionRef, what: str, body: dict[str, Any]) -> Operation[Execution]:
        """Cancel, pause, resume, retry or signal an execution."""
        given = {name: value for name, value in body.items() if value is not None}
        name = id_of(execution, "execution_id")
        return Execution.of((yield from self.core_call("POST", "executions", name, what, body=given)))

    def decisions(self, core: CoreRef | None, status: str | None, limit: int | None) -> Stream[Decision]:
        """List decisions."""
        query = {"core_id": id_of(core, "id") if core else None, "status": status}
        return op.cursor_pages(op.core_path("checkpoints"), "checkpoints", query, limit, Decision.of, self.retry_for)

    def decision(self, decision: DecisionRef) -> Operation[Decision]:
        """Read a decision."""
        return Decision.of((yield from self.core_call("GET", "checkpoints", id_of(decision, "id"))))

    def decide(self, decision: DecisionRef, what: str, body: dict[str, Any]) -> Operation[Decision]:
        """Answer, cancel or reassign a decision."""
        given = {name: value for name, value in body.items() if value is not None}
        return Decision.of((yield from self.core_call("POST", "checkpoints", id_of(decision, "id"), what, body=given)))

    def events(self, topics: str | Iterable[str], since_index: int | None) -> Stream[dict[str, Any]]:
        """Watch changes."""
        query = {"topic": [topics] if isinstance(topics, str) else list(topics), "since_index": since_index}
        return op.events(op.path("events"), query, dict, self.retry_for)

    def retry_body(self, checkpoint: CheckpointRef | None, resources: ResourceConfig | None) -> dict[str, Any]:
        """Make the body of a resume or a retry."""
        chosen = id_of(checkpoint, "checkpoint_id") if checkpoint else None
        return {"checkpoint_id": chosen, "modify_resources": resources}
