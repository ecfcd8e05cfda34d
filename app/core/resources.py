"""Where the product's own data and a user's state live."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _data(name: str, checkout: str) -> Path:
    """A folder of product data: inside an installed wheel, else in the checkout."""
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / checkout


def rules_folder() -> Path:
    """The built-in rules with their examples."""
    return _data("rules", "rules")


def practice_folder() -> Path:
    """The stand-in server that the demo runs."""
    return _data("practice", "fixtures/practice")


def catalogues_folder() -> Path:
    """Flag catalogues shipped for known engine versions."""
    return _PACKAGE / "core" / "catalogues"


def state_folder(chosen: Path | None = None) -> Path:
    """The state folder: the one chosen, else `$CRASHCART_STATE`, else `$XDG_STATE_HOME/crashcart`.

    It is made with mode 0700 on first use: logs and commands in it are private.
    """
    folder = chosen or _from_environment()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def scan_cache(chosen: Path | None = None) -> Path | None:
    """Where compiled patterns are kept; None where nothing can be written: logs are diagnosed there too."""
    try:
        return state_folder(chosen) / "cache" / "scan"
    except OSError:
        return None


def _from_environment() -> Path:
    if own := os.environ.get("CRASHCART_STATE"):
        return Path(own)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "crashcart"
