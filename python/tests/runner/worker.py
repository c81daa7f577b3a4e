"""Carries out several requests, one after the other, as one rank: importing the libraries once is most of the time.

usage: worker.py CASES.json, with RANK and WORLD_SIZE; a case is {"name", "env", "config"}. What came of each goes to the file
RESULT of the case, by rank.
"""

import contextlib
import gc
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from mind_runner import errors, place, request, train


def main() -> None:
    cases = json.loads(Path(sys.argv[1]).read_text())
    before = dict(os.environ)
    for case in cases:
        os.environ.clear()
        os.environ.update(before | case["env"])
        result = one(case)
        Path(case["result"] + f".{os.environ.get('RANK', '0')}").write_text(json.dumps(result))
        tidy()
        if result["code"] == "crash" and int(before.get("WORLD_SIZE", "1")) > 1:
            os._exit(1)  # the other rank may wait for this one for ever


def one(case: dict) -> dict:
    try:
        with samples_noted():
            code = train._train(request.load(case["config"]), place.here(), {})
        from accelerate.state import AcceleratorState

        kind = AcceleratorState().distributed_type.value
        Path(f"{case['result']}.{os.environ.get('RANK', '0')}.kind").write_text(kind)
        return {"code": code}
    except errors.Failure as failure:
        return {"code": 1, "type": failure.error_type, "message": failure.message}
    except Exception as error:
        traceback.print_exc()
        failure = errors.classify(error)
        return {"code": "crash", "type": failure.error_type, "message": failure.message}


@contextlib.contextmanager
def samples_noted() -> Iterator[None]:
    """Lets the runner write the tokens of each row of a batch to SAMPLES.RANK, a line for each batch."""
    name = os.environ.get("SAMPLES")
    if not name:
        yield
        return
    import torch

    from mind_runner.reports import Reports

    path = Path(f"{name}.{os.environ.get('RANK', '0')}")
    count = Reports.count

    def noted(self: Reports, inputs: dict) -> None:
        count(self, inputs)
        ids = inputs["input_ids"]
        mask = inputs.get("attention_mask", torch.ones_like(ids))
        with path.open("a") as file:
            file.write(json.dumps([row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True)]) + "\n")

    Reports.count = noted
    try:
        yield
    finally:
        Reports.count = count


def tidy() -> None:
    """What libraries keep for the rest of the process."""
    import torch.distributed as dist
    from accelerate.state import AcceleratorState, PartialState
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    if dist.is_initialized():
        dist.destroy_process_group()
    if "deepspeed" in sys.modules:
        import deepspeed

        # The groups of the case that ended, which torch has destroyed.
        deepspeed.comm.comm.cdb = None
        deepspeed.utils.groups._release_process_group_references(group=None)
    AcceleratorState._reset_state(True)
    PartialState._reset_state()
    unset_hf_deepspeed_config()
    gc.collect()


main()
