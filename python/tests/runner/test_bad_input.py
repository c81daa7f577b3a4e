"""What is wrong with a request ends with an error type and a sentence that says what to do."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
import torch
from harness import case

from mind_runner import data, errors, frameworks, hub, megatron, models, place, request


def load(tiny: Path, rows: str, kind: str = "SFT", name: str = "rows.jsonl", **data_config: object) -> data.Loaded:
    path = tiny / name
    path.write_text(rows)
    config = case(tiny, tiny / "unused", kind).config
    config["data_config"] |= {"sources": [{"path": str(path)}]} | data_config
    return data.load(request.parse(config), place.here({}))


GOOD = '{"prompt": "1 plus 1?", "completion": "2"}\n'


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (GOOD * 2 + '{"prompt": "1 plus\n', "line 3: not JSON"),
        (GOOD + "[1, 2]\n", "line 2: it is list"),
        (
            '{"question": "a", "answer": "b"}\n',
            "has the columns question, answer: SFT needs messages, or prompt and completion",
        ),
        (GOOD * 3 + '{"prompt": "1 plus 1?", "completion": null}\n', "line 4: completion is missing"),
        ('{"text": "a"}\n{"text": ["b"]}\n', "line 2: text is list here and str"),
        (
            '{"messages": [{"from": "user", "value": "a"}]}\n',
            "messages must be a list of objects with role and content",
        ),
        ('{"text": 7}\n', "the column text is int64"),
    ],
    ids=["broken line", "no object", "columns", "null", "two types", "messages", "numbers"],
)
def test_rows(tiny: Path, rows: str, says: str) -> None:
    with pytest.raises(errors.Failure) as failure:
        load(tiny, rows)
    assert failure.value.error_type == errors.DATA_FORMAT
    assert says in failure.value.message
    assert "rows.jsonl" in failure.value.message


@pytest.mark.parametrize(
    ("source", "file", "called"),
    [
        ("{tiny}/one.jsonl", "one.jsonl", "{tiny}/one.jsonl, line 2"),
        ("hf://datasets/acme/set/part/one.jsonl", "one.jsonl", "hf://datasets/acme/set/part/one.jsonl, line 2"),
        ("hf://datasets/acme/set", "one.jsonl", "hf://datasets/acme/set/one.jsonl, line 2"),
        ("{tiny}/folder.jsonl", "folder.jsonl", "{tiny}/folder.jsonl/folder.jsonl, line 2"),
    ],
    ids=["a file", "a file of a data set", "a data set of one file", "a folder of that name"],
)
def test_a_file_is_called_as_the_request_calls_it(
    tiny: Path, tmp_path: Path, source: str, file: str, called: str
) -> None:
    # As the agent lays out sources: each in a folder of its own.
    (tiny / "folder.jsonl").mkdir(exist_ok=True)
    laid = tmp_path / "data" / "0"
    laid.mkdir(parents=True)
    (laid / file).write_text(GOOD + "{\n")
    manifest = tmp_path / "data.json"
    manifest.write_text(json.dumps({"sources": [{"index": 0, "dir": str(laid), "files": [file]}]}))
    config = case(tiny, tiny / "unused", "SFT").config
    config["data_config"]["sources"] = [{"path": source.format(tiny=tiny), "format": "jsonl"}]
    with pytest.raises(errors.Failure) as failure:
        data.load(request.parse(config), place.here({"MIND_DATA_MANIFEST": str(manifest)}))
    assert failure.value.message.startswith(called.format(tiny=tiny))


def test_a_source_that_is_not_there(tiny: Path) -> None:
    with pytest.raises(errors.Failure, match=r"none\.jsonl is not on this node") as failure:
        load(tiny, GOOD, sources=[{"path": str(tiny / "none.jsonl")}])
    assert failure.value.error_type == errors.DATA_FETCH


def test_a_hub_out_of_reach_is_asked_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    asked = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    asked.append(connection.recv(100))
                    connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_HUB_OFFLINE", "")
        monkeypatch.setattr(hub, "_away", {})
        config = case(tiny, tiny / "unused", "SFT").config
        config["training_config"]["base_model"]["model_id"] = "acme/none"
        with pytest.raises(errors.Failure, match=r"acme/none cannot be loaded: the hub .* is out of reach") as failure:
            models.tokenizer(request.parse(config), place.here({}))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert failure.value.error_type == errors.DATA_FETCH
    assert len(asked) == 1


def test_what_the_data_config_says_is_done(tiny: Path) -> None:
    rows = "".join(json.dumps({"q": f"{n}?", "a": str(n), "level": n}) + "\n" for n in range(10))
    source = {"path": str(tiny / "more.jsonl"), "filters": {"level": {"min": 4}}, "sampling": {"max_samples": 5}}
    loaded = load(
        tiny, rows, name="more.jsonl", sources=[source], validation_split=0.2,
        preprocess={"field_mapping": {"prompt": "q", "completion": "a"}},
    )  # fmt: skip
    assert loaded.columns == ("prompt", "completion")
    assert len(loaded.train) == 4
    assert len(loaded.evaluation) == 1
    assert {row["completion"] for row in loaded.train} < {"4", "5", "6", "7", "8"}


def test_a_column_that_is_not_there(tiny: Path) -> None:
    with pytest.raises(
        errors.Failure, match=r"no column 'question' \(field_mapping of prompt\): it has prompt, completion"
    ):
        load(tiny, GOOD, preprocess={"field_mapping": {"prompt": "question"}})


def positions(count: int) -> Any:
    """A model with learned positions; the library makes a tokenizer for it without any files."""
    import transformers

    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=512, n_positions=count, n_embd=8, n_layer=1, n_head=1)
    )


def broken(tiny: Path, cases: dict[str, harness.Case]) -> None:
    """Models that lack something, or have something else, and a reward function that raises."""
    for name in ("no tokenizer", "another tokenizer", "corrupt"):
        folder = tiny / name.replace(" ", "-")
        shutil.copytree(tiny / "model", folder, dirs_exist_ok=True)
        cases[name].config["training_config"]["base_model"]["model_id"] = str(folder)
    shutil.rmtree(tiny / "no-tokenizer")
    positions(512).save_pretrained(tiny / "no-tokenizer")
    words = tiny / "another-tokenizer" / "tokenizer.json"
    tokenizer = json.loads(words.read_text())
    tokenizer["added_tokens"] += [
        tokenizer["added_tokens"][0] | {"id": 512 + n, "content": f"<{n}>"} for n in range(20)
    ]
    words.write_text(json.dumps(tokenizer))
    (tiny / "corrupt" / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not a header....")
    (tiny / "raising.py").write_text("def score(completions, **columns):\n    return columns['points']\n")


@pytest.fixture(scope="module")
def failed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("failed")
    cases = {
        "name": case(tiny, folder / "name", "SFT", learning_rat="1"),
        "cuda": case(tiny, folder / "cuda", "QLORA"),
        "model": case(tiny, folder / "model", "SFT"),
        "package": case(tiny, folder / "package", "RLHF", reward_function="no_such_package:score"),
        "nan": case(tiny, folder / "nan", "SFT", learning_rate="1e30", max_grad_norm="0"),
        "adapter": case(tiny, folder / "adapter", "SFT"),
        "zero": case(tiny, folder / "zero", "SFT", "DEEPSPEED"),
        "no tokenizer": case(tiny, folder / "no-tokenizer", "SFT", data="completion.jsonl"),
        "another tokenizer": case(tiny, folder / "another-tokenizer", "SFT"),
        "corrupt": case(tiny, folder / "corrupt", "SFT"),
        "reward": case(tiny, folder / "reward", "RLHF", reward_function=f"{tiny}/raising.py:score"),
        "steps": case(tiny, folder / "steps", "SFT", max_steps="0"),
    }
    broken(tiny, cases)
    cases["model"].config["training_config"]["base_model"]["model_id"] = str(tiny / "not-there")
    cases["adapter"].config["output_config"]["export"] = "adapter"
    cases["zero"].config["training_config"]["framework"]["config"] = {"zero_stage": "7"}
    harness.carry_out(folder, list(cases.values()))
    return {name: one.result() for name, one in cases.items()} | {
        "nan checkpoints": {"names": str(list(cases["nan"].checkpoints.iterdir()))}
    }


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("name", errors.CONFIG, "did you mean learning_rate?"),
        ("cuda", errors.CONFIG, "QLORA needs a CUDA GPU"),
        ("model", errors.MODEL_NOT_FOUND, "not-there cannot be loaded"),
        ("package", errors.CONFIG, "has no no_such_package: run python3 -m pip install no_such_package"),
        ("nan", errors.DIVERGED, "lower learning_rate"),
        ("adapter", errors.CONFIG, "SFT trains no adapter"),
        ("zero", errors.CONFIG, "zero_stage is 7"),
        ("no tokenizer", errors.CONFIG, "has no vocabulary"),
        ("another tokenizer", errors.CONFIG, "they do not belong together"),
        ("corrupt", errors.MODEL_NOT_FOUND, "cannot be loaded: SafetensorError: "),
        ("reward", errors.CONFIG, "raising.py:score raised KeyError: 'points' (raising.py, line 2)"),
        ("steps", errors.CONFIG, 'max_steps is "0", and must be at least 1'),
    ],
)
def test_training(failed: dict[str, dict[str, str]], name: str, kind: str, says: str) -> None:
    assert failed[name].get("type", failed[name]) == kind
    assert says in failed[name]["message"]


def test_no_checkpoint_of_weights_that_are_no_numbers(failed: dict[str, dict[str, str]]) -> None:
    assert failed["nan checkpoints"]["names"] == "[]"


def test_memory() -> None:
    with pytest.raises(RuntimeError) as full:
        torch.empty(1 << 50, dtype=torch.float32)
    failure = errors.classify(full.value, batch_size=8, accumulation=2)
    assert failure.error_type == errors.OOM
    assert "per_device_train_batch_size 8 does not fit, try 4 with gradient_accumulation_steps 4" in failure.message
    one = errors.classify(full.value, batch_size=1)
    assert "gradient_checkpointing" in one.message


def _torch_into_a_file() -> None:
    with open("/dev/full", "wb") as file:
        torch.save(torch.zeros(1_000_000), file)


@pytest.mark.parametrize(
    "write",
    [
        lambda: torch.save(torch.zeros(1_000_000), "/dev/full"),
        _torch_into_a_file,
        lambda: torch.save(torch.zeros(10), "/dev/full"),
        lambda: Path("/dev/full").write_text("x"),
    ],
    ids=["torch", "torch into a file", "a little", "Python"],
)
def test_a_full_disk(write: Callable[[], None]) -> None:
    with pytest.raises((OSError, RuntimeError)) as full:
        write()
    failure = errors.classify(full.value)
    assert failure.error_type is None
    assert "no space left on the device" in failure.message


def test_another_error_of_torch_is_no_full_disk() -> None:
    failure = errors.classify(RuntimeError("shapes do not fit"))
    assert failure.message == "RuntimeError: shapes do not fit"


def test_more_positions_than_the_model_has(tiny: Path) -> None:
    import transformers

    asked = request.parse(case(tiny, tiny / "unused", "SFT").config)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny / "model")
    learned = positions(32)
    models.check(asked, tokenizer, learned, 32)
    with pytest.raises(errors.Failure, match="max_seq_length is 33, and the model .* has 32 positions"):  # noqa: RUF043
        models.check(asked, tokenizer, learned, 33)
    turned = transformers.AutoModelForCausalLM.from_pretrained(tiny / "model")
    models.check(asked, tokenizer, turned, 1024)


def test_what_has_no_type_is_reported_too(tiny: Path, tmp_path: Path) -> None:
    one = case(tiny, tmp_path / "process", "SFT")
    one.prepare()
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    env = harness.environment() | one.environment() | {"MIND_OUTPUT_DIR": str(in_the_way / "output")}
    argv = [sys.executable, "-m", "mind_runner", "train"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (event,) = [e for e in one.lines("events") if e["event"] == "error"]
    assert event["error_type"] == "EXIT_NONZERO"
    assert event["message"].startswith("NotADirectoryError: ")


@pytest.mark.parametrize("library", ["trl", "torch"])
def test_a_library_that_is_missing(library: str) -> None:
    failure = errors.classify(ModuleNotFoundError(f"No module named '{library}'", name=library))
    assert failure.error_type == errors.CONFIG
    assert "pip install 'mindcoordinator[train]'" in failure.message


def test_the_sentence_is_the_last_line(tiny: Path, tmp_path: Path) -> None:
    one = case(tiny, tmp_path / "process", "SFT", data="broken.jsonl")
    (tiny / "broken.jsonl").write_text(GOOD + "{\n")
    one.prepare()
    argv = [sys.executable, "-m", "mind_runner", "train"]
    done = subprocess.run(
        argv, env=harness.environment() | one.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("rank 0: DATA_FORMAT: ")
    assert "broken.jsonl, line 2: not JSON" in last
    (event,) = [e for e in one.lines("events") if e["event"] == "error"]
    assert (event["error_type"], event["rank"]) == ("DATA_FORMAT", 0)


def test_megatron_without_its_adapter(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request.parse(case(tiny, tiny / "unused", "SFT", "MEGATRON").config)
    with pytest.raises(errors.Failure, match="MEGATRON needs a module"):
        megatron.run(asked, place.here({}))
    monkeypatch.setenv(megatron.VARIABLE, "no_such_adapter")
    with pytest.raises(errors.Failure, match="no Python module no_such_adapter"):
        megatron.run(asked, place.here({}))


def test_megatron_with_its_adapter(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_megatron.py").write_text(
        "def train(request, place):\n    return len(request['name']) + place.rank\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(megatron.VARIABLE, "my_megatron")
    assert (
        megatron.run(request.parse(case(tiny, tiny / "four", "SFT", "MEGATRON").config), place.here({"RANK": "3"})) == 7
    )


def test_frameworks() -> None:
    made = frameworks.fsdp(request.Framework("FSDP", "shard_grad_op", {"fsdp_cpu_offload": "true"}))
    assert made == {
        "version": 2,
        "state_dict_type": "FULL_STATE_DICT",
        "reshard_after_forward": False,
        "cpu_offload": True,
    }
    with pytest.raises(errors.Failure, match="FSDP takes activation_checkpointing"):
        frameworks.fsdp(request.Framework("FSDP", "", {"shard": "all"}))
    zero = frameworks.deepspeed(
        request.Framework("DEEPSPEED", "zero3", {"offload_optimizer": "cpu", "zero_optimization.overlap_comm": "true"}),
        {},
        False,
    )
    assert zero["zero_optimization"]["stage"] == 3
    assert zero["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert zero["zero_optimization"]["overlap_comm"] is True
    assert zero["checkpoint"] == {"use_node_local_storage": True}
