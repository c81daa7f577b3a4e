"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
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


class AsyncClient:
    """``Client`` with ``await`` and ``async for``.

    It tries again and follows streams as that does. It belongs to one event loop.
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
        self._http = httpx.AsyncClient(**_http.options(self.target, timeout))

    def __repr__(self) -> str:
        return f"AsyncClient({self.target.addr!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # Jobs.

    async def submit(
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
        return await self._run(self._api.submit(name, request, venv, upload, idempotency_key))

    async def job(self, job: JobRef) -> Job:
        """Read a job as it is now."""
        return await self._run(self._api.job(job))

    def jobs(
        self,
        *,
        status: str | Iterable[str] = (),
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        order_by: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """List jobs, the newest first, reading pages as they are needed."""
        return self._stream(self._api.jobs(status, queue, labels or {}, order_by, limit))

    def tasks(
        self, job: JobRef, *, status: str | Iterable[str] = (), limit: int | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """List the elements of a job array by number, with how each one stands."""
        return self._stream(self._api.tasks(job, status, limit))

    async def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        """Wait for the end of a job; TimeoutError after ``timeout`` seconds."""
        return await self._run(self._api.wait(job, timeout))

    async def cancel(self, job: JobRef, reason: str | None = None) -> Job:
        """Cancel a job."""
        return await self._run(self._api.lifecycle(job, "cancel", {"reason": reason}))

    async def pause(self, job: JobRef, save_checkpoint: bool = True) -> Job:
        """Pause a job, by default after it has saved a checkpoint."""
        return await self._run(self._api.lifecycle(job, "pause", {"save_checkpoint": save_checkpoint}))

    async def resume(self, job: JobRef, checkpoint: CheckpointRef | None = None) -> Job:
        """Let a paused job continue, from its newest checkpoint or from the given one."""
        return await self._run(self._api.lifecycle(job, "resume", self._api.retry_body(checkpoint, None)))

    async def retry(
        self, job: JobRef, checkpoint: CheckpointRef | None = None, modify_resources: ResourceConfig | None = None
    ) -> Job:
        """Run a job that has ended again, under the same id."""
        return await self._run(self._api.lifecycle(job, "retry", self._api.retry_body(checkpoint, modify_resources)))

    async def update(self, job: JobRef, **changes: Unpack[JobChanges]) -> Job:
        """Change what a job asks for, before it is over.

        ``update(job, scheduling_config={"priority": 9})``. What is not named stays as it is. Resources, the queue and
        ``not_before`` change only while the job waits or is paused.
        """
        return await self._run(self._api.update(job, changes))

    async def hold(self, job: JobRef, reason: str | None = None) -> Job:
        """Keep a job that waits from starting, until it is released."""
        return await self._run(self._api.lifecycle(job, "hold", {"reason": reason}))

    async def release(self, job: JobRef) -> Job:
        """Let a job start that was held."""
        return await self._run(self._api.lifecycle(job, "release", {}))

    async def explain(
        self, job: JobRef, *, what_if: Mapping[str, object] | None = None, at: int | str | None = None
    ) -> dict[str, Any]:
        """Say why a job is where it is.

        With ``what_if``, say what would become of a waiting job with something different, such as
        ``{"gpus": 4, "queue.max_gpus": "none"}``. With ``at``, say it as of an earlier moment: the index of a log
        entry, a time as ``2026-01-02T03:04:05Z``, or a duration back from now as ``10m``.
        """
        return await self._run(self._api.explain(job, what_if, at))

    def logs(
        self,
        job: JobRef,
        *,
        follow: bool = True,
        tail: int | None = None,
        rank: int | None = None,
        attempt: int | None = None,
        since: str | None = None,
    ) -> AsyncIterator[LogLine]:
        """Give the lines that a job prints, until it has ended; each once, whatever breaks in between."""
        return self._stream(self._api.logs(job, follow, tail, rank, attempt, since))

    # Metrics.

    def metrics(self, job: JobRef, *, follow: bool = False) -> AsyncIterator[dict[str, Any]]:
        """Give the lines of metrics that a job has reported; with ``follow``, those to come as well."""
        return self._stream(self._api.metrics(job, follow))

    async def newest_metrics(self, job: JobRef) -> dict[str, Any]:
        """Read the newest value of each metric, and the progress."""
        return await self._run(self._api.newest_metrics(job))

    async def metrics_frame(self, job: JobRef) -> pd.DataFrame:
        """Return the metrics of a job as a pandas frame with a row for each line; it needs pandas."""
        import pandas

        return pandas.DataFrame.from_records([line async for line in self.metrics(job)])

    async def metric_series(
        self, job: JobRef, names: Iterable[str] = (), *, points: int | None = None, attempt: int | None = None
    ) -> list[dict[str, Any]]:
        """Read the history of metrics, of GPUs as well: least, greatest and last value of each of ``points`` spans."""
        return await self._run(self._api.series(job, names, points, attempt))

    # Checkpoints.

    async def checkpoints(self, job: JobRef) -> list[Checkpoint]:
        """List the checkpoints of a job."""
        return await self._run(self._api.checkpoints(job))

    async def checkpoint(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Read a checkpoint."""
        return await self._run(self._api.checkpoint(checkpoint))

    async def pin(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Keep a checkpoint until it is unpinned."""
        return await self._run(self._api.pin(checkpoint, "pin"))

    async def unpin(self, checkpoint: CheckpointRef) -> Checkpoint:
        """Let retention have a checkpoint again."""
        return await self._run(self._api.pin(checkpoint, "unpin"))

    async def download(self, checkpoint: CheckpointRef, to: str | Path) -> Path:
        """Fetch the files of a DURABLE checkpoint to a new directory."""
        return await self._run(self._api.download(checkpoint, to))

    # Evaluations.

    async def evaluate(
        self,
        benchmarks: Iterable[str | Benchmark],
        *,
        idempotency_key: str | None = None,
        **request: Unpack[EvaluationRequest],
    ) -> Evaluation:
        """Submit an evaluation of a job (``job_id``), a checkpoint (``checkpoint_id``) or a model (``model_uri``)."""
        return await self._run(self._api.evaluate(benchmarks, request, idempotency_key))

    async def evaluation(self, evaluation: EvaluationRef) -> Evaluation:
        """Read an evaluation, with the results so far."""
        return await self._run(self._api.evaluation(evaluation))

    def evaluations(self, *, job: JobRef | None = None, limit: int | None = None) -> AsyncIterator[Evaluation]:
        """List evaluations, the newest first."""
        return self._stream(self._api.evaluations(job, limit))

    async def wait_evaluation(self, evaluation: EvaluationRef, timeout: float | None = None) -> Evaluation:
        """Wait for the end of an evaluation; TimeoutError after ``timeout`` seconds."""
        return await self._run(self._api.wait_evaluation(evaluation, timeout))

    async def compare(self, evaluations: Iterable[EvaluationRef]) -> dict[str, Any]:
        """Compare 2 to 20 evaluations, metric by metric."""
        return await self._run(self._api.compare(evaluations))

    # Cores.

    async def create_core(self, name: str, source: Mapping[str, Any] | None = None, **more: Any) -> Core:
        """Make a Core of a program; ``more`` are the other fields of the REST request."""
        return await self._run(self._api.create_core(name, source, more))

    async def core(self, core: CoreRef) -> Core:
        """Read a Core, by its slug or its id."""
        return await self._run(self._api.core(core))

    def cores(self, limit: int | None = None) -> AsyncIterator[Core]:
        """List the Cores of the tenant."""
        return self._stream(self._api.cores(limit))

    async def start_core(self, core: CoreRef, timeout: float | None = 30.0) -> Core:
        """Start a Core, and wait until it runs or has an error."""
        return await self._run(self._api.start_core(core, timeout))

    async def stop_core(self, core: CoreRef) -> Core:
        """Stop a Core; its executions are held."""
        return await self._run(self._api.control_core(core, "stop"))

    async def delete_core(self, core: CoreRef) -> None:
        """Delete a Core that is stopped."""
        await self._run(self._api.delete_core(core))

    async def invoke(
        self,
        core: CoreRef,
        input: Any = None,
        *,
        flow: str | None = None,
        wait: int = 0,
        idempotency_key: str | None = None,
    ) -> Execution:
        """Start an execution, and wait up to ``wait`` seconds (at most 60) for its end."""
        return await self._run(self._api.invoke(core, input, flow, wait, idempotency_key))

    async def send(self, core: CoreRef, event: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a Core."""
        return await self._run(self._api.send(core, event, data))

    async def execution(self, execution: ExecutionRef) -> Execution:
        """Read an execution as it is now."""
        return await self._run(self._api.execution(execution))

    def executions(
        self, core: CoreRef | None = None, *, status: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Execution]:
        """List executions, the newest first."""
        return self._stream(self._api.executions(core, status, limit))

    async def wait_execution(
        self, execution: ExecutionRef, timeout: float | None = None, *, until_asked: bool = False
    ) -> Execution:
        """Wait for the end of an execution, or with ``until_asked`` until only people can let it go on."""
        return await self._run(self._api.wait_execution(execution, until_asked, timeout))

    async def cancel_execution(
        self, execution: ExecutionRef, reason: str | None = None, *, force: bool = False
    ) -> Execution:
        """Cancel an execution; its on_cancel and compensations run first, unless ``force``."""
        return await self._run(self._api.control_execution(execution, "cancel", {"reason": reason, "force": force}))

    async def retry_execution(
        self, execution: ExecutionRef, from_step: str | None = None, bindings: Mapping[str, Any] | None = None
    ) -> Execution:
        """Have a failed execution go on from a step, by default the failed one, with other bindings."""
        return await self._run(
            self._api.control_execution(execution, "retry", {"from": from_step, "bindings": bindings})
        )

    def decisions(
        self, core: CoreRef | None = None, *, status: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Decision]:
        """List decisions, those that are pending by default."""
        return self._stream(self._api.decisions(core, status, limit))

    async def decision(self, decision: DecisionRef) -> Decision:
        """Read a decision."""
        return await self._run(self._api.decision(decision))

    async def resolve(
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
        return await self._run(self._api.decide(decision, "resolve", body))

    async def reassign(self, decision: DecisionRef, assignee: str) -> Decision:
        """Ask somebody else: ``user:ID``, ``group:ID`` or ``role:NAME``."""
        return await self._run(self._api.decide(decision, "reassign", {"assignee": assignee}))

    # The cluster.

    async def cluster(self) -> dict[str, Any]:
        """Read capacity, what of it is in use, and the coordinators."""
        return await self._run(self._api.get("cluster"))

    async def nodes(self) -> list[dict[str, Any]]:
        """List the nodes."""
        return await self._run(self._api.nodes())

    async def node(self, node_id: str) -> dict[str, Any]:
        """Read a node."""
        return await self._run(self._api.get("cluster", "nodes", node_id))

    async def queue(self, queue: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """List the jobs that wait, in their order."""
        return await self._run(self._api.get("queue", queue=queue, limit=limit))

    def events(
        self, topics: str | Iterable[str] = (), *, since_index: int | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Give the changes of the cluster, each once, as they come."""
        return self._stream(self._api.events(topics, since_index))

    # How operations run here.

    async def _run(self, operation: Operation[T]) -> T:
        stream = _Open(self._http)
        try:
            effect = next(operation)
            while True:
                try:
                    result = await stream.carry_out(effect)
                except httpx.TransportError as e:
                    effect = operation.throw(e)
                else:
                    effect = operation.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            operation.close()
            await stream.close()

    async def _stream(self, operation: Stream[T]) -> AsyncIterator[T]:
        stream = _Open(self._http)
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = next(operation)
                    continue
                try:
                    result = await stream.carry_out(effect)
                except httpx.TransportError as e:
                    effect = operation.throw(e)
                else:
                    effect = operation.send(result)
        except StopIteration:
            return
        finally:
            operation.close()
            await stream.close()


class _Open:
    """Carries out effects; it has the response that is open."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._response: httpx.Response | None = None
        self._bytes: AsyncIterator[bytes] | None = None

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()
            self._response = None

    async def carry_out(self, effect: Any) -> Answer | bytes | None:
        if isinstance(effect, Send):
            response = await self._http.request(**_http.arguments(effect.request))
            return _http.answer(response, response.content)
        if isinstance(effect, Open):
            await self.close()
            self._response = await self._http.send(
                self._http.build_request(**_http.stream_arguments(effect.request)), stream=True
            )
            if self._response.status_code >= 300:
                return _http.answer(self._response, await self._response.aread())
            self._bytes = self._response.aiter_bytes()
            return _http.answer(self._response)
        if isinstance(effect, Read):
            assert self._bytes is not None
            return await anext(self._bytes, b"")
        if isinstance(effect, Sleep):
            await asyncio.sleep(effect.seconds)
        else:
            await self.close()
        return None
