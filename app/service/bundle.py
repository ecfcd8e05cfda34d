"""Everything that is known of an incident in one archive, for a bug report or a colleague. All of it is redacted."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import IO

from app.service.objects import incident_json
from app.store.store import Store


def write_bundle(store: Store, incident_id: int, out: IO[bytes]) -> None:
    """Writes a tar.gz: `incident-N/incident.json`, and what was kept of each launch. NotFoundError without one."""
    incident = store.incident(incident_id)
    top = f"incident-{incident_id}"
    folder = store.state / "incidents" / str(incident_id)
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        text = json.dumps(incident_json(incident), indent=2, ensure_ascii=False, default=str)
        _add(archive, f"{top}/incident.json", text.encode("utf-8", "replace"), incident.updated_at.timestamp())
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            # Only what Crashcart wrote itself: a link may lead anywhere.
            if path.is_file() and not path.is_symlink() and path.suffix != ".partial":
                name = f"{top}/{path.relative_to(folder).as_posix()}"
                _add(archive, name, path.read_bytes(), path.stat().st_mtime)


def bundle_name(incident_id: int) -> Path:
    """What the archive is called when nobody says otherwise."""
    return Path(f"crashcart-incident-{incident_id}.tar.gz")


def _add(archive: tarfile.TarFile, name: str, data: bytes, at: float) -> None:
    """Owners and rights of this machine are nobody's business."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(at), 0o600
    archive.addfile(entry, io.BytesIO(data))
