"""What OpenAPI says is what the service does: Schemathesis looks for a request that shows otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.store.store import Store
from tests.conftest import Dying
from tests.web.serving import serving


def test_schemathesis_finds_no_failure(store: Store, dies: Dying, tmp_path: Path) -> None:
    dies()
    tool = Path(sys.executable).parent / "schemathesis"
    limits = ["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"]
    with serving(store) as url:
        run = subprocess.run(
            [tool, "run", f"{url}/openapi.json", *limits], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert run.returncode == 0, run.stdout[-4000:]
