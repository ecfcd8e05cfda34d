"""What OpenAPI says is what the service does: Schemathesis looks for a request that shows otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

from app.store.store import Store
from tests.conftest import Dying
from tests.web.serving import serving

CONFIG = Path(__file__).parents[2] / "schemathesis.toml"


def test_schemathesis_finds_no_failure(store: Store, dies: Dying, tmp_path: Path) -> None:
    dies()
    tool = Path(sys.executable).parent / "schemathesis"
    limits = ["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"]
    with serving(store) as url:
        run = subprocess.run(
            [tool, "--config-file", CONFIG, "run", f"{url}/openapi.json", *limits],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-4000:]


def test_sending_in_a_log_is_described_with_all_its_ways(store: Store) -> None:
    with serving(store) as url:
        described = httpx.get(f"{url}/openapi.json").json()["paths"]["/incidents/ingest"]["post"]
    assert list(described["requestBody"]["content"]) == ["application/json", "text/plain"]
    assert [one["name"] for one in described["parameters"]] == ["server", "Idempotency-Key"]
