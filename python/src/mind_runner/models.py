"""The model, its tokenizer and the adapter that a request names."""

from __future__ import annotations

import logging
from typing import Any

from mind_runner import hub
from mind_runner.errors import DATA_FETCH, MODEL_NOT_FOUND, Failure, config, described
from mind_runner.place import Place
from mind_runner.request import Request

log = logging.getLogger(__name__)

_DTYPES = {
    "bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16", "half": "float16",
    "fp32": "float32", "float32": "float32", "float": "float32", "auto": "auto",
}  # fmt: skip


def where(request: Request, place: Place) -> str:
    """Where the weights are: the path that the node has fetched them to, or the name that the library resolves."""
    path = place.model_path or request.model.model_id
    if not path:
        raise config("base_model.model_id is empty: name a model on the hub, a URL, or a path that every node has")
    return path


def tokenizer(request: Request, place: Place) -> Any:
    """Loads the tokenizer, with a padding token and the chat template of the request."""
    import transformers

    path = request.model.tokenizer_id or where(request, place)
    hub.settle([path, where(request, place)])
    try:
        result = transformers.AutoTokenizer.from_pretrained(path, **_common(request, path))
    except (OSError, ValueError, KeyError) as error:
        raise _not_found("tokenizer", path, error) from error
    if result.pad_token is None:
        result.pad_token = result.eos_token or result.unk_token
    if result.pad_token is None:
        raise config(f"the tokenizer {path} has no padding token and no end token: give one that has (tokenizer_id)")
    template = request.data.preprocess.get("chat_template")
    if template:
        result.chat_template = template
    side = request.data.preprocess.get("padding_side")
    if side:
        result.padding_side = side
    return result


def model(request: Request, place: Place, own: dict[str, Any]) -> Any:
    """Loads the weights; in 4 or 8 bits for QLORA."""
    import safetensors
    import torch
    import transformers

    path = where(request, place)
    options: dict[str, Any] = {**_common(request, path), **request.model.model_kwargs}
    options.setdefault("dtype", dtype(request))
    if request.training_type == "QLORA":
        options["quantization_config"] = _quantization(own)
        options["device_map"] = {"": place.local_rank}
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(path, **options)
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise _not_found("model", path, error) from error
    # The cache of keys and values serves generation alone, and takes memory.
    loaded.config.use_cache = False
    if torch.cuda.is_available() and request.training_type == "QLORA":
        import peft

        loaded = peft.prepare_model_for_kbit_training(loaded)
    return loaded


def check(request: Request, tokenizer: Any, model: Any, max_length: int | None) -> None:
    """Refuses a tokenizer that is not the model's, and rows that are longer than the model can have."""
    text = model.config.get_text_config()
    words, rows = len(tokenizer), int(getattr(text, "vocab_size", 0) or 0)
    name = request.model.tokenizer_id or request.model.model_id
    if is_empty(tokenizer):
        raise config(
            f"the tokenizer of {name} has no vocabulary: its files are not there (tokenizer.json, or tokenizer.model): "
            "add them to the model, or name a tokenizer in base_model.tokenizer_id"
        )
    if rows and words > rows:
        raise config(
            f"the tokenizer {name} has {words} tokens and the model {request.model.model_id} has {rows}: "
            "they do not belong together; name the model's own in base_model.tokenizer_id"
        )
    if words < rows // 2:
        log.warning("the tokenizer %s has %d tokens and the model has %d: is it the model's own?", name, words, rows)
    most = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if not most or not max_length or max_length <= most:
        return
    if any(getattr(text, of, None) for of in ("rope_parameters", "rope_scaling", "rope_theta")):
        log.warning("max_length is %d, and the model was trained on %d positions", max_length, most)
        return
    raise config(
        f"data_config.max_seq_length is {max_length}, and the model {request.model.model_id} has {most} positions: "
        f"give at most {most}"
    )


def is_empty(tokenizer: Any) -> bool:
    """Whether a tokenizer has special tokens alone: for some models the library makes one without its files."""
    return len(tokenizer) - len(set(tokenizer.all_special_ids)) < _FEWEST_WORDS


_FEWEST_WORDS = 2


def adapter(request: Request, given: dict[str, Any]) -> Any | None:
    """The configuration of the adapter: for LORA and QLORA, and for DPO and RLHF if the request has a value for one."""
    if request.training_type not in ("LORA", "QLORA") and not given:
        return None
    import peft

    options = dict(given)
    # All linear layers of the model, whatever they are called, except for the output.
    options.setdefault("target_modules", "all-linear")
    return peft.LoraConfig(task_type="CAUSAL_LM", **options)


def dtype(request: Request) -> str:
    """The type of the weights, as transformers calls it."""
    if not request.model.dtype:
        # The weights that are trained stay in 32 bits; autocast computes in 16. A frozen base is as it was published.
        return "auto" if request.training_type in ("LORA", "QLORA") else "float32"
    dtype = _DTYPES.get(request.model.dtype.lower().removeprefix("torch."))
    if dtype is None:
        raise config(f"base_model.dtype is {request.model.dtype!r}: choose bfloat16, float16, float32 or auto")
    return dtype


def _common(request: Request, path: str) -> dict[str, Any]:
    options: dict[str, Any] = {"trust_remote_code": request.model.trust_remote_code}
    # A fetched model has the revision that was asked for; only the hub knows the name.
    if request.model.revision and not path.startswith(("/", ".")):
        options["revision"] = request.model.revision
    return options


def _quantization(own: dict[str, Any]) -> Any:
    import torch

    if not torch.cuda.is_available():
        raise config("QLORA needs a CUDA GPU, and this node has none: use LORA, or ask for a GPU with gpu_type")
    import bitsandbytes  # noqa: F401  transformers only says that it is missing after the weights were read
    import transformers

    if own.get("quantization_bits", 4) == 8:
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=own.get("quantization_type", "nf4"),
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _not_found(what: str, path: str, error: Exception) -> Failure:
    if hub.is_name(path) and hub.away():
        return Failure(DATA_FETCH, f"the {what} {path} cannot be loaded: {hub.away()}")
    return Failure(
        MODEL_NOT_FOUND,
        f"the {what} {path} cannot be loaded: {described(error)[:300]}: "
        "check base_model.model_id and its revision, and that the node may read it",
    )
