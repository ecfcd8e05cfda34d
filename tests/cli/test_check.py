"""The contract of `crashcart check`, held on the real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Not installed anywhere: the flags are those of the newest SGLang that Crashcart ships the catalogue of.
SGLANG = ("/no/such/python3", "-m", "sglang.launch_server", "--model-path", "m")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"CRASHCART_STATE": str(tmp_path / "state")}


def check(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from app.cli.main import main; main()", "check", *arguments]
    return subprocess.run(program, capture_output=True, text=True, env=env, timeout=50)


def test_a_fine_command_is_ok(env: dict[str, str]) -> None:
    done = check(env, "--json", "--", *SGLANG)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"ok": True, "findings": []})


def test_a_command_that_would_be_refused_is_corrected(env: dict[str, str]) -> None:
    done = check(env, "--json", "--", "A=1", *SGLANG, "--num-speculative-tokens", "16")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (1, False)
    [finding] = [one for one in found["findings"] if one["rule"] == "any/unknown-argument"]
    assert finding["command"] == ["A=1", *SGLANG, "--speculative-num-draft-tokens", "16"]
    assert finding["line"] is None


CONTAINER = ("docker", "run", "vllm/vllm-openai:latest", "--model", "m")


@pytest.mark.parametrize(
    "unknown",
    [
        ["--kv-brand-new-flag", "3"],  # may be of a newer version
        ["--attention-backend", "BRAND_NEW"],
    ],
)
def test_what_a_version_that_cannot_be_asked_may_know_is_no_finding(env: dict[str, str], unknown: list[str]) -> None:
    done = check(env, "--json", "--", *CONTAINER, *unknown)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])


def test_a_flag_that_some_version_has_is_no_finding_where_the_version_is_unknown(env: dict[str, str]) -> None:
    done = check(env, "--json", "--", *SGLANG, "--stream-output")
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])


def test_a_slip_is_told_with_its_doubt_where_the_version_cannot_be_asked(env: dict[str, str]) -> None:
    done = check(env, "--json", "--", *CONTAINER, "--max-modle-len", "3")
    [finding] = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["confidence"]) == (1, "medium")
    assert "could not be asked" in finding["explanation"]


def test_the_finding_is_shown_with_the_command_ready_to_paste(env: dict[str, str]) -> None:
    done = check(env, "--", *SGLANG, "--max-model-len", "4096")
    assert done.returncode == 1
    assert "[---max-model-len-] {+--context-length+} 4096" in done.stdout
    assert "\n" + " ".join(SGLANG) + " --context-length 4096\n" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--"], ["vllm", "serve", "m"], ["--engine", "nope", "--", "x"]])
def test_without_a_command_behind_dashes_it_is_a_usage_error(env: dict[str, str], arguments: list[str]) -> None:
    done = check(env, *arguments)
    assert done.returncode == 2
    assert done.stderr


def test_the_installed_programs_own_help_decides(env: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(
        "#!/bin/sh\n"
        'echo "----- common params -----"\n'
        'for flag in model ctx-size port host threads brand-new; do echo "--$flag N    text about it"; done\n'
    )
    program.chmod(0o755)
    assert check(env, "--", str(program), "--brand-new", "1").returncode == 0
    done = check(env, "--json", "--", str(program), "--brand-nwe", "1")
    assert json.loads(done.stdout)["findings"][0]["command"] == [str(program), "--brand-new", "1"]
