"""python -m mind_runner train: carries out a training request on this rank."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from typing import Any

from mind_runner import arguments, data, errors, frameworks, place, request, streams
from mind_runner.place import Place
from mind_runner.request import Request
from mindcoordinator import training

log = logging.getLogger("mind_runner")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m mind_runner train`."""
    parser.add_argument(
        "--config",
        default=os.environ.get("MIND_CONFIG"),
        metavar="FILE",
        help="the request as JSON; default: $MIND_CONFIG",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the training. A failure is reported with its type, and its sentence is the last line of stderr."""
    place.single_process()
    here = place.here()
    level = logging.INFO if here.rank == 0 else logging.ERROR
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    # From here on the notice is noted; before, it ends the process, which has nothing to save.
    training.should_stop()
    batch: dict[str, int] = {}
    try:
        if not args.config:
            raise errors.config("give the request: --config FILE, or the variable MIND_CONFIG")
        asked = request.load(args.config)
        if asked.framework.type == "MEGATRON":
            from mind_runner import megatron

            return megatron.run(asked, here)
        return _train(asked, here, batch)
    except Exception as error:
        _fail(error, here, batch)
        return 1  # not reached


def _fail(error: Exception, here: Place, batch: dict[str, int]) -> None:
    failure = errors.classify(error, batch.get("size"), batch.get("accumulation", 1))
    traceback.print_exception(error)
    if not isinstance(failure, errors.Peer):
        training.error(failure.error_type or errors.EXIT_NONZERO, failure.message, rank=here.rank)
    sys.stdout.flush()
    print(f"rank {here.rank}: {failure.error_type or 'error'}: {failure.message}", file=sys.stderr, flush=True)
    # Not by way of Python's exit: it would wait for threads and for ranks that wait for this one.
    os._exit(1)


def _train(asked: Request, here: Place, batch: dict[str, int]) -> int:
    given, adapter_options, own = arguments.translate(asked)
    here.output_dir.mkdir(parents=True, exist_ok=True)
    here.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    import torch
    import torch.distributed as dist
    import transformers

    from mind_runner import export, loop, models, reports, resume, trainers, without_gpu
    from mind_runner.checkpoints import Checkpoints
    from mind_runner.group import Group

    if here.rank != 0:
        transformers.utils.logging.set_verbosity_error()
    adapter = models.adapter(asked, adapter_options)
    export.check(asked, adapter is not None)
    if torch.cuda.is_available():
        torch.cuda.set_device(here.local_rank)
    if asked.framework.type in ("FSDP", "DEEPSPEED"):
        place.group_of_one()
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        frameworks.join(asked.framework)
    group = Group(here)
    seeing = group.seeing(here.checkpoint_dir)
    begin = resume.agree(here, group)

    shared = len(seeing) == here.world_size
    args = arguments.build(asked, here, given, own, frameworks.options(asked, own, shared))
    resume.same_batch(args, here.world_size, begin.facts)
    batch |= {"size": args.per_device_train_batch_size, "accumulation": args.gradient_accumulation_steps}
    transformers.set_seed(args.seed)
    tokenizer = models.tokenizer(asked, here)
    streaming = bool(own.get("streaming"))
    if streaming:
        streams.check_length(asked, args)
    loaded = data.load(asked, here, streaming)
    if loaded.evaluation is not None and args.eval_strategy == "no":
        args.eval_strategy = transformers.trainer_utils.IntervalStrategy.EPOCH
    model = models.model(asked, here, own)
    models.check(asked, tokenizer, model, getattr(args, "max_length", None))
    told = reports.Reports(group, reports.flops_per_token(model, frozen=adapter is not None))
    facts = {
        "training_type": asked.training_type,
        "framework": asked.framework.type,
        "world_size": here.world_size,
        "samples_per_step": args.per_device_train_batch_size * args.gradient_accumulation_steps * here.world_size,
    }
    checkpoints = Checkpoints(here, group, seeing, facts, asked.output.checkpoint_async)
    run_ = loop.Run(checkpoints, told)
    without_gpu.spread(args)
    trainer = trainers.build(asked, loop.mixin(run_), args, model, tokenizer, loaded, adapter, own, [told])
    log.info("%s with %s on %d ranks", asked.training_type, asked.framework.type, here.world_size)

    try:
        trainer.train(resume_from_checkpoint=str(begin.path) if begin.path else None)
    except Exception as error:
        if streaming:
            raise streams.explained(error, loaded.lines, data.expected(asked.training_type)) from error
        raise
    group.barrier()
    begin.done()
    checkpoints.finish()
    if told.stopped:
        # Nobody may leave before the checkpoint is complete: the launcher ends all when one has ended.
        group.barrier()
        log.info("stopped after step %d, as told", trainer.state.global_step)
        _leave()
        return training.STOPPED
    export.export(trainer, asked, here, group, adapter is not None, told)
    _summary(trainer, told)
    _leave()
    return 0


def _summary(trainer: Any, told: Any) -> None:
    if told.group.rank == 0:
        log.info(
            "done after %d steps, loss %s -> %s, %.3f s spent on reports",
            trainer.state.global_step, told.first_loss, told.last_loss, told.spent,
        )  # fmt: skip


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
