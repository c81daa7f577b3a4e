"""The model that a training leaves: weights, tokenizer, and a card that says how they were made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from pathlib import Path
from typing import Any

from mind_runner import data, models
from mind_runner.errors import Failure, config
from mind_runner.group import PIECE, Group
from mind_runner.place import Place
from mind_runner.reports import Reports
from mind_runner.request import Request, Source
from mindcoordinator import training
from mindcoordinator.training._directories import publish

_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "deepspeed", "mindcoordinator")
_SHARD = "2GB"
_WEIGHTS = "model.safetensors"
# Data that is read again for its digest.
_MOST_DIGESTED = 64 << 30


def check(request: Request, has_adapter: bool) -> None:
    """Refuses an export that the training cannot make, before it begins."""
    if request.output.export == "adapter" and not has_adapter:
        raise config(
            f"output_config.export is adapter, and {request.training_type} trains no adapter: choose safetensors"
        )


def export(
    trainer: Any, request: Request, place: Place, group: Group, has_adapter: bool, reports: Reports
) -> Path | None:
    """Writes the model to MIND_OUTPUT_DIR/model and registers it. Every rank takes part: each may hold a share."""
    how = request.output.export
    if how == "none":
        return None
    if group.rank == 0:
        training.phase("EXPORTING")
    written = place.output_dir / "tmp-model"
    if group.rank == 0:
        shutil.rmtree(written, ignore_errors=True)
    group.barrier()
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    if plugin is not None:
        plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(written))
    final = place.output_dir / "model"
    if group.rank == 0:
        (written / "training_args.bin").unlink(missing_ok=True)
        if has_adapter and how != "adapter":
            written = merge(request, place, written)
        if how == "sharded":
            split(written)
        (written / "README.md").write_text(card(request, place, trainer, reports))
        publish(written, final)
        training.checkpoint(final, trainer.state.global_step, reports.latest or None, kind="model")
    group.barrier()
    return final


def merge(request: Request, place: Place, adapter: Path) -> Path:
    """Adds the adapter to the weights of its base, on the CPU, where there is room for them."""
    import peft
    import transformers

    path = models.where(request, place)
    options: dict[str, Any] = {"trust_remote_code": request.model.trust_remote_code, **request.model.model_kwargs}
    if request.model.revision and not path.startswith(("/", ".")):
        options["revision"] = request.model.revision
    options.setdefault("dtype", models.dtype(request))
    # While ZeRO 3 is on, a model is loaded by all ranks together, each a share of it; this rank loads it alone.
    transformers.integrations.deepspeed.unset_hf_deepspeed_config()
    base = transformers.AutoModelForCausalLM.from_pretrained(path, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(adapter)
    merged = peft.PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
    target = adapter.with_name("tmp-merged")
    shutil.rmtree(target, ignore_errors=True)
    merged.save_pretrained(target)
    tokenizer.save_pretrained(target)
    shutil.rmtree(adapter)
    return target


def split(folder: Path) -> None:
    """Splits the file of the weights into shards with an index."""
    import huggingface_hub
    import safetensors.torch

    whole = folder / _WEIGHTS
    if not whole.exists():
        return  # already in shards
    state = safetensors.torch.load_file(whole)
    moved = whole.rename(folder / "tmp-weights")
    huggingface_hub.save_torch_state_dict(state, folder, max_shard_size=_SHARD, metadata={"format": "pt"})
    moved.unlink()


def card(request: Request, place: Place, trainer: Any, reports: Reports) -> str:
    """The model card: what was asked for, what it was trained on, with what, and how the loss moved."""
    shown = _without_secrets(request.raw)
    lines = [
        "---",
        "library_name: transformers",
        f"base_model: {request.model.model_id}",
        "tags: [mind, " + request.training_type.lower() + "]",
        "---",
        "",
        f"# {request.name or request.training_type}",
        "",
        f"{request.training_type} of `{request.model.model_id}` by Mind, {trainer.state.global_step} steps.",
        "",
        *([f"Job: `{place.job_id}`", ""] if place.job_id else []),
        "| | first | last |",
        "|---|---|---|",
        f"| training loss | {_figure(reports.first_loss)} | {_figure(reports.last_loss)} |",
    ]
    if "eval_loss" in reports.latest:
        lines.append(f"| evaluation loss | | {_figure(reports.latest['eval_loss'])} |")
    lines += ["", "## Data", "", "| source | digest |", "|---|---|"]
    for index, source in enumerate(request.data.sources):
        lines.append(f"| `{source.path}` | {_digest(source, index, place)} |")
    lines += ["", "## Versions", "", "| package | version |", "|---|---|"]
    for name in _LIBRARIES:
        try:
            lines.append(f"| {name} | {importlib.metadata.version(name)} |")
        except importlib.metadata.PackageNotFoundError:
            continue
    lines += ["", "## Request", "", "```json", json.dumps(shown, indent=2, sort_keys=True), "```", ""]
    return "\n".join(lines)


def _digest(source: Source, index: int, place: Place) -> str:
    """The digest of a source: that of the node, or the same, made of the files that the node uses in place."""
    entry: dict[str, Any] = next((e for e in place.manifest.get("sources") or [] if e.get("index") == index), {})
    if entry.get("digest"):
        return str(entry["digest"])
    try:
        files = data.find(source, index, place)
        if sum(file.stat().st_size for file in files.files) > _MOST_DIGESTED:
            return f"not made: the files have more than {_MOST_DIGESTED >> 30} GiB"
        whole = hashlib.sha256()
        # A source that is one file has its name; in a folder the names are below it.
        named = {f.name if f == files.root else f.relative_to(files.root).as_posix(): f for f in files.files}
        for name in sorted(named, key=str.encode):
            one = hashlib.sha256()
            with named[name].open("rb") as file:
                while piece := file.read(PIECE):
                    one.update(piece)
            whole.update(f"{len(name.encode())}:{name} {one.hexdigest()}\n".encode())
        return whole.hexdigest()
    except (OSError, Failure) as error:
        return f"not known: {' '.join(str(error).split())}"


def _without_secrets(raw: dict[str, Any]) -> dict[str, Any]:
    """The request without values of environment variables, which may be secrets."""
    shown: dict[str, Any] = json.loads(json.dumps(raw))
    environment = shown.get("training_config", {}).get("environment")
    if environment:
        shown["training_config"]["environment"] = dict.fromkeys(environment, "(not shown)")
    return shown


def _figure(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.4f}"
