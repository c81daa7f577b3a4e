"""What the libraries do not say of hyperparameters: other names, what Mind sets itself, and the runner's own.

`python -m mind_runner names` writes these tables and the fields of the libraries' configurations to one file, which the
coordinators check requests with.
"""

from __future__ import annotations

from typing import Any

#: Other names of a hyperparameter, as other tools call it.
ALIASES: dict[str, str] = {
    "adam_eps": "adam_epsilon",
    "batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "eval_batch_size": "per_device_eval_batch_size",
    "grad_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "lora_modules_to_save": "modules_to_save",
    "lora_r": "r",
    "lora_rank": "r",
    "lora_target_modules": "target_modules",
    "lr": "learning_rate",
    "lr_scheduler": "lr_scheduler_type",
    "max_gradient_norm": "max_grad_norm",
    "max_seq_len": "max_length",
    "max_seq_length": "max_length",
    "micro_batch_size": "per_device_train_batch_size",
    "num_epochs": "num_train_epochs",
    "optimizer": "optim",
    "random_seed": "seed",
    "reward_model": "reward_model_id",
    "train_batch_size": "per_device_train_batch_size",
    # A warmup_steps below 1 is a share of all steps, which is what warmup_ratio was.
    "warmup_ratio": "warmup_steps",
}

#: Numbers below which a value means nothing, though the libraries take it; the default is always taken. What is one of
#: ABOVE must be greater than 0.
LEAST: dict[str, float] = {
    "gradient_accumulation_steps": 1, "learning_rate": 0, "lora_alpha": 1, "lora_dropout": 0,
    "max_completion_length": 1, "max_grad_norm": 0, "max_length": 1, "max_steps": 1, "num_generations": 2,
    "per_device_eval_batch_size": 1, "per_device_train_batch_size": 1, "r": 1, "warmup_steps": 0, "weight_decay": 0,
}  # fmt: skip
ABOVE: frozenset[str] = frozenset({"eval_steps", "logging_steps", "num_train_epochs", "save_steps"})

#: Fields of the configurations that are not the user's: where what they say comes from instead.
RESERVED: dict[str, str] = {
    "accelerator_config": "the framework; use training_config.framework.config",
    "ddp_backend": "training_config.framework.distributed.backend",
    "ddp_timeout": "the launcher",
    "deepspeed": "training_config.framework.config of the framework DEEPSPEED",
    "do_eval": "data_config.validation_split",
    "do_predict": "the training type",
    "do_train": "the training type",
    "enable_jit_checkpoint": "Mind, which tells a training to stop",
    "fsdp": "training_config.framework.type FSDP",
    "fsdp_config": "training_config.framework.distributed.config",
    "load_best_model_at_end": "output_config.keep_best",
    "local_rank": "the launcher",
    "model_init_kwargs": "training_config.base_model.model_kwargs",
    "output_dir": "output_config.output_dir",
    "parallelism_config": "training_config.framework.config",
    "project": "the name of the job",
    "push_to_hub": "output_config.export",
    "report_to": "Mind, which reads the reports",
    "resume_from_checkpoint": "training_config.resume_from_checkpoint",
    "run_name": "the name of the job",
    "save_on_each_node": "the runner, which looks at the file system",
    "save_only_model": "the runner, which needs the rest to go on",
    "save_strategy": "output_config.checkpoint_interval_steps",
    "save_total_limit": "output_config.keep_checkpoints",
    "skip_memory_metrics": "the runner",
    "trust_remote_code": "training_config.base_model.trust_remote_code",
    "use_cpu": "resource_config.gpu_count",
}

#: The same for all fields that begin like this.
RESERVED_PREFIXES: dict[str, str] = {
    "hub_": "output_config.export",
    "trackio_": "Mind, which reads the reports",
}

#: Fields of peft.LoraConfig that are the runner's or peft's.
LORA_MANAGED = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_config", "megatron_core",
        "peft_type", "peft_version", "revision", "runtime_config", "task_type",
    }
)  # fmt: skip

#: Hyperparameters of the runner's own, for all training types and for some.
OWN: dict[str, dict[str, Any]] = {
    "zero_stage": {"kinds": ["int"], "choices": ["0", "1", "2", "3"], "default": None},
}
OWN_QLORA: dict[str, dict[str, Any]] = {
    "quantization_bits": {"kinds": ["int"], "choices": ["4", "8"], "default": 4},
    "quantization_type": {"kinds": ["str"], "choices": ["nf4", "fp4"], "default": "nf4"},
}
OWN_RLHF: dict[str, dict[str, Any]] = {
    "algorithm": {"kinds": ["str"], "choices": ["grpo"], "default": "grpo"},
    "reward_function": {"kinds": ["str", "null"], "default": None},
    "reward_model_id": {"kinds": ["str", "null"], "default": None},
}
OWN_TEXT: dict[str, dict[str, Any]] = {
    "assistant_only_loss": {"kinds": ["bool"], "default": False},
    "completion_only_loss": {"kinds": ["bool", "null"], "default": None},
    "max_length": {"kinds": ["int", "null"], "default": 1024},
    "packing": {"kinds": ["bool"], "default": False},
}
OWN_STREAM: dict[str, dict[str, Any]] = {
    "streaming": {"kinds": ["bool"], "default": False},
}

#: The groups of names that a training type takes; a later one replaces what an earlier one says of the same name.
TYPES: dict[str, list[str]] = {
    "SFT": ["own", "own_stream", "sft"],
    "LORA": ["own", "own_stream", "sft", "lora"],
    "QLORA": ["own", "own_stream", "sft", "lora", "own_qlora"],
    "DPO": ["own", "dpo", "lora"],
    "RLHF": ["own", "grpo", "lora", "own_rlhf"],
    "CONTINUED_PRETRAIN": ["own", "own_stream", "trainer", "own_text"],
    "FULL_FINETUNE": ["own", "own_stream", "trainer", "own_text"],
}
