"""The client for programs without an event loop: scripts and notebooks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from . import _http
from ._api import Api, CheckpointRef, CoreRef, DecisionRef, EvaluationRef, ExecutionRef, JobRef
from ._effects import Answer, Emit, Open, Operation, Read, Send, Sleep, Stream
from ._operations import RETRY_FOR
from .models import Checkpoint, Core, Decision, Evaluation, Execution, Job, LogLine
from .target import find

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    from typing_extensions import Unpack

    from .requests import Benchmark, EvaluationRequest, JobChanges, JobRequest, ResourceConfig

T = TypeVar("T")


class Client:
    """A client of one cluster: the one that the command line would use, unless arguments say otherwise.

    Calls are made again, for up to ``retry_for`` seconds, when no gateway or no coordinator answers: writes carry an
    idempotency key, so that none takes effect twice. ``timeout`` bounds one try. Threads may share a client.
    """

    def __init__(
        self,
        addr: str = "",
        *,
        token: str = "",
        ca_cert: str = "",
        context: str = "",
        timeout: float = 30.0,
        retry_for: float = RETRY_FOR,
    ) -> None:
        self.target = find(addr, token, ca_cert, context)
        self._api = Api(retry_for)
        self._http = httpx.Client(**_http.options(self.target, timeout))

    def __repr__(self) -> str:
        return f"Client({self.target.addr!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Jobs.

    def submit(
        self,
        name: str,
        *,
        venv: bool | str | PathLike[str] = False,
        upload: str | PathLike[str] | None = None,
        idempotency_key: str | None = None,
        **request: Unpack[JobRequest],
    ) -> Job:
        """Submit a job, and return it as it was accepted.

        With ``venv=True`` it finds the programs and packages of the Python environment (venv or conda) of this process;
        a path names another one. With ``upload="DIR"`` each attempt runs in a copy of the files of a directory.

        A second submit with the same ``idempotency_key`` and the same request returns the first job.
        """
        return self._run(self._api.submit(name, request, venv, upload, idempotency_key))

    def job(self, job: JobRef) -> Job:
        """Read a job as it is now."""
        return self._run(self._api.job(job))

    def jobs(
        self,
        *,
        status: str | Iterable[str] = (),
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        order_by: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Job]:
        """List jobs, the newest first, reading pages as they are needed."""
        return self._stream(self._api.jobs(status, queue, labels or {}, order_by, limit))

    def tasks(
        self, job: JobRef, *, status: str | Iterable[str] = (), limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """List the elements of a job array by number, with how each one stands."""
        return self._stream(self._api.tasks(job, status, limit))

    def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        """Wait for the end of a job; TimeoutError after ``timeout`` seconds.

        ``wait(job).check()`` raises if it has not succeeded.
        """
        return self._run(self._api.wait(job, timeout))

    def cancel(self, job: JobRef, reason: str | None = None) -> Job:
        """Cancel a job."""
        return self._run(self._api.lifecycle(job, "cancel", {"reason": reason}))

    def pause(self, job: JobRef, save_checkpoint: bool = True) -> Job:
        """Pause a job, by default after it has saved a checkpoint."""
        return self._run(self._api.lifecycle(job, "pause", {"save_checkpoint": save_checkpoint}))

    def resume(self, job: JobRef, checkpoint: CheckpointRef | None = None) -> Job:
        """Let a paused job continue, from its newest checkpoint or from the given one."""
        return self._run(self._api.lifecycle(job, "resume", self._api.retry_body(checkpoint, None)))

    def retry(
        self, job: JobRef, checkpoint: CheckpointRef | None = None, modify_resources: ResourceConfig | None = None
    ) -> Job:
        """Run a job that has ended again, under the same id."""
        return self._run(self._api.lifecycle(job, "retry", self._api.retry_body(checkpoint, modify_resources)))

    def update(self, job: JobRef, **changes: Unpack[JobChanges]) -> Job:
        """Change what a job asks for, before it is over.

        ``update(job, scheduling_config={"priority": 9})``. What is not named stays as it is. Resources, the queue and
        ``not_before`` change only while the job waits or is paused.
        """
        return self._run(self._api.update(job, changes))

    def hold(self, job: JobRef, reason: str | None = None) -> Job:
        """Keep a job that waits from starting, until it is released."""
        return self._run(self._api.lifecycle(job, "hold", {"reason": reason}))

    def release(self, job: JobRef) -> Job:
        """Let a job start that was held."""
        return self._run(self._api.lifecycle(job, "release", {}))

    def explain(
        self, job: JobRef, *, what_if: Mapping[str, object] | None = None, at: int | str | None = None
    ) -> dict[str, Any]:
        """Say why a job is where it is.

        With ``what_if``, say what would become of a waiting job with something different, such as
        ``{"gpus": 4, "queue.max_gpus": "none"}``. With ``at``, say it as of an earlier moment: the index of a log
        entry, a time as ``2026-01-02T03:04:05Z``, or a duration back from now as ``10m``.
        """
        return self._run(self._api.explain(job, what_if, at))

    def logs(
        self,
        job: JobRef,
        *,
        follow: bool = True,
        tail: int | None = None,
        rank: int | None = None,
        attempt: int | None = None,
        since: str | None = None,
    ) -> Iterator[LogLine]:
        """Give the lines that a job prints, until it has ended; each once, whatever breaks in between."""
        return self._stream(self._api.logs(job, follow, tail, rank, attempt, since))

    # Metrics.

    def metrics(self, job: JobRef, *, follow: bool = False) -> Iterator[dict[str, Any]]:
        """Give the lines of metrics that a job has reported; with ``follow``, those to come as well."""
        return self._stream(self._api.metrics(job, follow))

    def newest_metrics(self, job: JobRef) -> dict[str, Any]:
        """Read the newest value of each metric, and the progress."""
        return self._run(self._api.newest_metrics(job))

    def metrics_frame(self, job: JobRef) -> pd.DataFrame:
        """Return the metrics of a job as a pandas frame with a row for each line; it needs pandas."""
        import pandas

        return pandas.DataFrame.from_records(list(self.metrics(job)))

    def metric_series(
        self, job: JobRef, names: Iterable[str] = (), *, points: int | None = None, attempt: int | None = None
    ) -> list[dict[str, Any]]:
        """Read the history of metrics, of GPUs as well: least, greatest and last value of each of ``points`` spans."""
        return self._run(self._api.series(job, names, points, attempt))

    # Checkpoints.

    def checkpoints(self, job: JobRef) -> list[Checkpoint]:
        """List the checkpoints of a job."""
        return self._run(self._api.checkpoints(job))

    def checkpoint(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Read a checkpoint."""
        return self._run(self._api.checkpoint(checkpoint))

    def pin(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Keep a checkpoint until it is unpinned."""
        return self._run(self._api.pin(checkpoint, "pin"))

    def unpin(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Let retention have a checkpoint again."""
        return self._run(self._api.pin(checkpoint, "unpin"))

    def download(self, checkpoint: CheckpointRef, to: str | Path) -> Path:
        """Fetch the files of a DURABLE checkpoint to a new directory."""
        return self._run(self._api.download(checkpoint, to))

    # Evaluations.

    def evaluate(
        self,
        benchmarks: Iterable[str | Benchmark],
        *,
        idempotency_key: str | None = None,
        **request: Unpack[EvaluationRequest],
    ) -> Evaluation:
        """Submit an evaluation of a job (``job_id``), a checkpoint (``checkpoint_id``) or a model (``model_uri``)."""
        return self._run(self._api.evaluate(benchmarks, request, idempotency_key))

    def evaluation(self, evaluation: EvaluationRef) -> Evaluation:
        """Read an evaluation, with the results so far."""
        return self._run(self._api.evaluation(evaluation))

    def evaluations(self, *, job: JobRef | None = None, limit: int | None = None) -> Iterator[Evaluation]:
        """List evaluations, the newest first."""
        return self._stream(self._api.evaluations(job, limit))

    def wait_evaluation(self, evaluation: EvaluationRef, timeout: float | None = None) -> Evaluation:
        """Wait for the end of an evaluation; TimeoutError after ``timeout`` seconds."""
        return self._run(self._api.wait_evaluation(evaluation, timeout))

    def compare(self, evaluations: Iterable[EvaluationRef]) -> dict[str, Any]:
        """Compare 2 to 20 evaluations, metric by metric."""
        return self._run(self._api.compare(evaluations))

    # Cores.

    def create_core(self, name: str, source: Mapping[str, Any] | None = None, **more: Any) -> Core:
        """Make a Core of a program; ``more`` are the other fields of the REST request."""
        return self._run(self._api.create_core(name, source, more))

    def core(self, core: CoreRef) -> Core:
        """Read a Core, by its slug or its id."""
        return self._run(self._api.core(core))

    def cores(self, limit: int | None = None) -> Iterator[Core]:
        """List the Cores of the tenant."""
        return self._stream(self._api.cores(limit))

    def start_core(self, core: CoreRef, timeout: float | None = 30.0) -> Core:
        """Start a Core, and wait until it runs or has an error."""
        return self._run(self._api.start_core(core, timeout))

    def stop_core(self, core: CoreRef) -> Core:
        """Stop a Core; its executions are held."""
        return self._run(self._api.control_core(core, "stop"))

    def delete_core(self, core: CoreRef) -> None:
        """Delete a Core that is stopped."""
        self._run(self._api.delete_core(core))

    def invoke(
        self,
        core: CoreRef,
        input: Any = None,
        *,
        flow: str | None = None,
        wait: int = 0,
        idempotency_key: str | None = None,
    ) -> Execution:
        """Start an execution, and wait up to ``wait`` seconds (at most 60) for its end."""
        return self._run(self._api.invoke(core, input, flow, wait, idempotency_key))

    def send(self, core: CoreRef, event: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a Core."""
        return self._run(self._api.send(core, event, data))

    def execution(self, execution: ExecutionRef) -> Execution:
        """Read an execution as it is now."""
        return self._run(self._api.execution(execution))

    def executions(
        self, core: CoreRef | None = None, *, status: str | None = None, limit: int | None = None
    ) -> Iterator[Execution]:
        """List executions, the newest first."""
        return self._stream(self._api.executions(core, status, limit))

    def wait_execution(
        self, execution: ExecutionRef, timeout: float | None = None, *, until_asked: bool = False
    ) -> Execution:
        """Wait for the end of an execution, or with ``until_asked`` until only people can let it go on."""
        return self._run(self._api.wait_execution(execution, until_asked, timeout))

    def cancel_execution(self, execution: ExecutionRef, reason: str | None = None, *, force: bool = False) -> Execution:
        """Cancel an execution; its on_cancel and compensations run first, unless ``force``."""
        return self._run(self._api.control_execution(execution, "cancel", {"reason": reason, "force": force}))

    def retry_execution(
        self, execution: ExecutionRef, from_step: str | None = None, bindings: Mapping[str, Any] | None = None
    ) -> Execution:
        """Have a failed execution go on from a step, by default the failed one, with other bindings."""
        return self._run(self._api.control_execution(execution, "retry", {"from": from_step, "bindings": bindings}))

    def decisions(
        self, core: CoreRef | None = None, *, status: str | None = None, limit: int | None = None
    ) -> Iterator[Decision]:
        """List decisions, those that are pending by default."""
        return self._stream(self._api.decisions(core, status, limit))

    def decision(self, decision: DecisionRef) -> Decision:
        """Read a decision."""
        return self._run(self._api.decision(decision))

    def resolve(
        self,
        decision: DecisionRef,
        resolution: str | None = None,
        *,
        comment: str | None = None,
        data: Any = None,
        subject_digest: str | None = None,
    ) -> Decision:
        """Answer a decision: with the id of an option, or with ``data`` if it has a schema."""
        body = {"resolution": resolution, "comment": comment, "data": data, "subject_digest": subject_digest}
        return self._run(self._api.decide(decision, "resolve", body))

    def reassign(self, decision: DecisionRef, assignee: str) -> Decision:
        """Ask somebody else: ``user:ID``, ``group:ID`` or ``role:NAME``."""
        return self._run(self._api.decide(decision, "reassign", {"assignee": assignee}))

    # The cluster.

    def cluster(self) -> dict[str, Any]:
        """Read capacity, what of it is in use, and the coordinators."""
        return self._run(self._api.get("cluster"))

    def nodes(self) -> list[dict[str, Any]]:
        """List the nodes."""
        return self._run(self._api.nodes())

    def node(self, node_id: str) -> dict[str, Any]:
        """Read a node."""
        return self._run(self._api.get("cluster", "nodes", node_id))

    def queue(self, queue: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """List the jobs that wait, in their order."""
        return self._run(self._api.get("queue", queue=queue, limit=limit))

    def events(self, topics: str | Iterable[str] = (), *, since_index: int | None = None) -> Iterator[dict[str, Any]]:
        """Give the changes of the cluster, each once, as they come."""
        return self._stream(self._api.events(topics, since_index))

    # How operations run here.

    def _run(self, operation: Operation[T]) -> T:
        stream = _Open(self._http)
        try:
            effect = next(operation)
            while True:
                try:
                    result = stream.carry_out(effect)
                except httpx.TransportError as e:
                    effect = operation.throw(e)
                else:
                    effect = operation.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            operation.close()
            stream.close()

    def _stream(self, operation: Stream[T]) -> Iterator[T]:
        stream = _Open(self._http)
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = next(operation)
                    continue
                try:
                    result = stream.carry_out(effect)
                except httpx.TransportError as e:
                    effect = operation.throw(e)
                else:
                    effect = operation.send(result)
        except StopIteration:
            return
        finally:
            operation.close()
            stream.close()


class _Open:
    """Carries out effects; it has the response that is open."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._response: httpx.Response | None = None
        self._bytes: Iterator[bytes] = iter(())

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def carry_out(self, effect: Any) -> Answer | bytes | None:
        if isinstance(effect, Send):
            response = self._http.request(**_http.arguments(effect.request))
            return _http.answer(response, response.content)
        if isinstance(effect, Open):
            self.close()
            self._response = self._http.send(
                self._http.build_request(**_http.stream_arguments(effect.request)), stream=True
            )
            if self._response.status_code >= 300:
                return _http.answer(self._response, self._response.read())
            self._bytes = self._response.iter_bytes()
            return _http.answer(self._response)
        if isinstance(effect, Read):
            return next(self._bytes, b"")
        if isinstance(effect, Sleep):
            time.sleep(effect.seconds)
        else:
            self.close()
        return None
