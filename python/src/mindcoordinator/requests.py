"""The requests that the client sends, typed: the objects of the REST interface, by their names there.

``docs/use/rest.md`` says what each field means. All are optional here; the coordinators check what belongs
together.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

TrainingType = Literal["SFT", "LORA", "QLORA", "DPO", "RLHF", "CONTINUED_PRETRAIN", "FULL_FINETUNE"]
FrameworkType = Literal["HF_TRAINER", "DEEPSPEED", "FSDP", "MEGATRON", "CUSTOM"]


class CommandConfig(TypedDict, total=False):
    """What a job runs: a program with its arguments, or a command for /bin/sh."""

    argv: list[str]
    command: str
    cwd: str
    environment: dict[str, str]
    upload: str
    mounts: list[str]


class BaseModel(TypedDict, total=False):
    """The model that a training begins with."""

    model_id: str
    revision: str
    source: str
    tokenizer_id: str
    dtype: str
    trust_remote_code: bool
    model_kwargs: dict[str, str]


class Distributed(TypedDict, total=False):
    """How the processes of a training work together."""

    world_size: int
    backend: str
    strategy: str
    config: dict[str, str]


class Framework(TypedDict, total=False):
    """What trains."""

    type: FrameworkType
    config: dict[str, str]
    distributed: Distributed
    custom_script_path: str


class TrainingConfig(TypedDict, total=False):
    """What is trained, and how. Values of ``hyperparameters`` are texts."""

    training_type: TrainingType
    base_model: BaseModel
    framework: Framework
    hyperparameters: dict[str, str]
    environment: dict[str, str]
    mounts: list[str]
    resume_from_checkpoint: str


class DataSource(TypedDict, total=False):
    """Where a part of the data is."""

    path: str
    type: str
    split: str
    format: str
    columns: list[str]
    filters: dict[str, Any]
    sampling: dict[str, Any]


class DataConfig(TypedDict, total=False):
    """What a training reads."""

    sources: list[DataSource]
    preprocess: dict[str, Any]
    max_seq_length: int
    batch_size: int
    gradient_accumulation_steps: int
    num_workers: int
    pin_memory: bool
    validation_split: float
    seed: int


class ResourceConfig(TypedDict, total=False):
    """What a job needs. ``gpu_count`` counts the GPUs of all nodes together."""

    gpu_count: int
    gpu_type: str
    node_count: int
    gpu_fraction: float
    gpu_memory_mb: int
    cpu_count: int
    memory_mb: int
    node_selector: dict[str, str]
    topology: str
    topology_level: str
    topology_segment: int
    exclude_nodes: list[str]
    placement: Literal["pack", "spread"]


class OutputConfig(TypedDict, total=False):
    """What a job leaves."""

    output_dir: str
    checkpoint_interval_steps: int
    checkpoint_async: bool
    keep_checkpoints: int
    keep_best: int
    keep_best_metric: str
    export: Literal["safetensors", "adapter", "sharded", "none"]


class Dependency(TypedDict, total=False):
    """A job that another one waits for."""

    job_id: str
    condition: Literal["ok", "fail", "any"]


class ArraySpec(TypedDict, total=False):
    """Which elements a job array has, by number, and how many of them run at the same time at most."""

    start: int
    end: int
    max_parallel: int


class SchedulingConfig(TypedDict, total=False):
    """When a job runs, and what happens when it fails."""

    queue: str
    priority: int
    max_retries: int
    retry_on: list[Literal["node_lost", "gpu_fault", "launch_failed", "data_fetch", "exit"]]
    restartable: bool
    preemptible: bool
    max_runtime_seconds: int
    not_before: str
    lost_after_seconds: int
    give_up_after_seconds: int
    grace_period_seconds: int
    dependencies: list[Dependency]
    array: ArraySpec
    allow_pending_capacity: bool


class NotifyConfig(TypedDict, total=False):
    """A URL that is told of a job by signed webhooks, and of what."""

    url: str
    on: list[Literal["started", "failed", "ended", "waiting"]]
    waiting_after_seconds: int


class JobRequest(TypedDict, total=False):
    """A job, but for its name: ``command_config``, or ``training_config`` with ``data_config``."""

    command_config: CommandConfig
    training_config: TrainingConfig
    data_config: DataConfig
    resource_config: ResourceConfig
    output_config: OutputConfig
    scheduling_config: SchedulingConfig
    notify_config: NotifyConfig
    labels: dict[str, str]


class SchedulingChange(TypedDict, total=False):
    """What ``update`` changes about when a job runs, and about what happens when it fails."""

    queue: str
    priority: int
    max_retries: int
    retry_on: list[Literal["node_lost", "gpu_fault", "launch_failed", "data_fetch", "exit"]]
    restartable: bool
    preemptible: bool
    max_runtime_seconds: int
    not_before: str
    notice_before_limit_seconds: int
    allow_pending_capacity: bool


class JobChanges(TypedDict, total=False):
    """What ``update`` changes. An empty label is taken away."""

    name: str
    labels: dict[str, str]
    resource_config: ResourceConfig
    scheduling_config: SchedulingChange


class Benchmark(TypedDict, total=False):
    """One benchmark of an evaluation."""

    name: str
    num_samples: int
    dataset: str
    parameters: dict[str, str]


class EvaluationRequest(TypedDict, total=False):
    """An evaluation: of a job, a checkpoint or a model."""

    job_id: str
    checkpoint_id: str
    model_uri: str
    name: str
    resource_config: ResourceConfig
    scheduling_config: SchedulingConfig
    labels: dict[str, str]
