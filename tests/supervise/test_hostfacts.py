"""What `check` learns from this machine: a model's folder, the port, the GPUs."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from app.core.command import Command
from app.supervise.hostfacts import host_facts, port_facts


def model(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 28, **config}))
    return folder


def facts(path: Path | str, *more: str) -> dict[str, object]:
    command = Command.parse(["python3", "-m", "sglang.launch_server", "--model-path", str(path), *more])
    return host_facts(command, gpus=Path("/nowhere"))


def test_heads_and_the_sizes_that_divide_them(tmp_path: Path) -> None:
    found = facts(model(tmp_path))
    assert found["model_heads"] == 28
    assert found["model_tp_sizes"] == [1, 2, 4, 7, 14, 28]


def test_a_model_of_several_parts_is_its_language_model(tmp_path: Path) -> None:
    found = facts(model(tmp_path, text_config={"num_attention_heads": 16, "max_position_embeddings": 4096}))
    assert (found["model_heads"], found["model_positions"]) == (16, 4096)


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        ({"max_position_embeddings": 32768}, 32768),
        ({"n_positions": 1024}, 1024),
        (
            {
                "max_position_embeddings": 32768,
                "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "mrope"}}, 131072),
    ],
    ids=["plain", "old-name", "stretched", "no-factor"],
)
def test_positions_are_the_most_that_the_configuration_allows(
    tmp_path: Path, config: dict[str, object], positions: int
) -> None:
    assert facts(model(tmp_path, **config))["model_positions"] == positions


def test_quantization_is_what_the_checkpoint_says(tmp_path: Path) -> None:
    assert facts(model(tmp_path, quantization_config={"quant_method": "AWQ"}))["model_quantization"] == "awq"


def test_a_checkpoint_that_says_nothing_is_not_quantized(tmp_path: Path) -> None:
    assert facts(model(tmp_path))["model_quantization"] == "none"


def test_a_quantization_in_a_file_of_its_own_is_left_open(tmp_path: Path) -> None:
    model(tmp_path)
    (tmp_path / "quantize_config.json").write_text("{}")
    assert "model_quantization" not in facts(tmp_path)


def test_weight_files_that_the_index_names_and_that_are_missing(tmp_path: Path) -> None:
    model(tmp_path)
    weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"\0" * 2000)
    assert facts(tmp_path)["model_files_missing"] == ["model-00002-of-00002.safetensors"]


def test_other_weights_may_stand_in_for_missing_ones(tmp_path: Path) -> None:
    model(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone.safetensors"}}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"\0")
    assert "model_files_missing" not in facts(tmp_path)


def test_pointers_left_by_a_clone_without_git_lfs(tmp_path: Path) -> None:
    model(tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    assert facts(tmp_path)["model_pointer_files"] == ["model.safetensors"]


@pytest.mark.parametrize("config", ["", "[]", "{", '"text"', '{"num_attention_heads": "many"}', "[" * 100_000])
def test_a_broken_configuration_is_no_fact(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert "model_heads" not in facts(tmp_path)


def test_a_missing_folder_beside_models_is_told_with_the_most_alike_first(tmp_path: Path) -> None:
    model(tmp_path / "llama-8b")
    model(tmp_path / "qwen-7b")
    found = facts(tmp_path / "lama-8b")
    assert found == {"model_folder_missing": str(tmp_path / "lama-8b"), "models_beside": ["llama-8b", "qwen-7b"]}


def test_a_path_of_another_machine_is_no_fact(tmp_path: Path) -> None:
    assert facts(tmp_path / "llama-8b") == {}


def test_the_name_of_a_repository_is_no_fact() -> None:
    assert facts("org/model") == {}


def test_a_relative_folder_is_looked_up_where_the_command_starts(tmp_path: Path) -> None:
    model(tmp_path / "models" / "llama")
    command = Command.parse(["vllm", "serve", "models/llama"])
    assert host_facts(command, folder=tmp_path, gpus=Path("/nowhere"))["model_heads"] == 28


def test_nothing_is_told_of_a_container(tmp_path: Path) -> None:
    words = ["docker", "run", "--rm", "image", "vllm", "serve", str(model(tmp_path))]
    assert host_facts(Command.parse(words), gpus=Path("/nowhere")) == {}


@pytest.mark.parametrize(
    ("variable", "seen"), [((), 4), (("CUDA_VISIBLE_DEVICES=0,1",), 2), (("CUDA_VISIBLE_DEVICES=",), 0)]
)
def test_gpus_are_those_that_the_server_would_see(tmp_path: Path, variable: tuple[str, ...], seen: int) -> None:
    for name in "abcd":
        (tmp_path / name).mkdir()
    command = Command.parse([*variable, "vllm", "serve", "org/model"])
    assert host_facts(command, gpus=tmp_path)["gpus"] == seen


def test_a_port_that_somebody_holds_is_told_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        found = port_facts(Command.parse(["vllm", "serve", "org/model", "--port", port, "--host", "127.0.0.1"]))
    assert found["port_in_use"] == port
    assert f"process {os.getpid()} (" in str(found["port_holder"])


def test_a_free_port_is_no_fact() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    assert port_facts(Command.parse(["vllm", "serve", "org/model", "--port", port, "--host", "127.0.0.1"])) == {}
