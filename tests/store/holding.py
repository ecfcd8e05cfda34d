"""Another process that acts for a server."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

_HOLD = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from app.store.store import Store
    with Store.open(Path(sys.argv[1])) as store, store.lock_server("kimi"):
        print("held", flush=True)
        time.sleep(60)
    """
)


def hold(state: Path) -> subprocess.Popen[str]:
    """Another process that acts for the server kimi."""
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(state)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process
