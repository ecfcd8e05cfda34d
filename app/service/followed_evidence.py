"""What is kept of a followed log when it shows a failure: the log itself is others', who rotate and remove it."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.core.errors import StoreError
from app.core.model import Diagnosis, Exit
from app.store.encode import diagnosis_in
from app.store.store import Store
from app.supervise.evidence import keep

# As much of a log is kept whole, with its line numbers; of a longer one the end before the failure.
WHOLE = 512 * 1024
EXCERPT = 256 * 1024


class Keeper:
    """Copies in a thread of its own: following goes on meanwhile."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="evidence")

    def keep(self, incident_id: int, launch_id: int, descriptor: int, end: int, diagnosis: Diagnosis) -> None:
        """Keeps the first failure of a launch; `descriptor` is the open log, which may lose its name any moment."""
        own = os.dup(descriptor)
        self._worker.submit(self._copy, incident_id, launch_id, own, end, diagnosis)

    def close(self) -> None:
        """Ends behind what is being copied."""
        self._worker.shutdown()

    def _copy(self, incident_id: int, launch_id: int, descriptor: int, end: int, diagnosis: Diagnosis) -> None:
        # What can't be kept is missing in the folder: the incident itself is stored.
        with contextlib.suppress(OSError, StoreError):
            try:
                folder = self._store.evidence_folder(incident_id) / f"launch-{launch_id}"
                if folder.exists():
                    return
                whole = end <= WHOLE
                keep(
                    folder,
                    log=Path(f"/dev/fd/{descriptor}"),
                    start=0 if whole else end - EXCERPT,
                    end=end,
                    words=diagnosis.command or (),
                    exit=Exit(),
                    diagnosis=diagnosis_in(diagnosis),
                    name="log" if whole else "log-excerpt",
                )
            finally:
                os.close(descriptor)
