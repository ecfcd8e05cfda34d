"""`check` on the machine's own facts: what fails for a reason that no flag table knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.commands import build_app


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "llama"
    folder.mkdir(parents=True)
    config = {"num_attention_heads": 28, "max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def findings(tmp_path: Path, *command: str) -> list[tuple[str, str]]:
    result = CliRunner().invoke(
        build_app(["check"]), ["check", "--json", "--state", str(tmp_path / "state"), "--", *command]
    )
    return [(cause["rule"], cause["category"]) for cause in json.loads(result.stdout)["findings"]]


def test_a_model_that_fits_has_no_finding(tmp_path: Path, model: Path) -> None:
    assert (
        findings(tmp_path, "vllm", "serve", str(model), "--tensor-parallel-size", "4", "--max-model-len", "4096") == []
    )


def test_heads_that_the_gpus_cannot_share(tmp_path: Path, model: Path) -> None:
    found = findings(tmp_path, "vllm", "serve", str(model), "--tensor-parallel-size", "8")
    assert found == [("any/heads-not-divisible", "incompatible-arguments")]


def test_more_context_than_the_model_allows(tmp_path: Path, model: Path) -> None:
    command = ["python3", "-m", "sglang.launch_server", "--model-path", str(model), "--context-length", "9000"]
    assert findings(tmp_path, *command) == [("sglang/context-beyond-model", "context-too-long")]


def test_a_quantization_that_the_checkpoint_has_not(tmp_path: Path, model: Path) -> None:
    found = findings(tmp_path, "vllm", "serve", str(model), "--quantization", "awq")
    assert found == [("any/quantization-not-the-checkpoints", "quantization-unsupported")]


def test_a_misspelt_folder(tmp_path: Path, model: Path) -> None:
    found = findings(tmp_path, "vllm", "serve", str(model.with_name("lama")))
    assert found == [("any/model-folder-missing", "model-not-found")]
