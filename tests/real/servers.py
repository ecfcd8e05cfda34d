"""The real servers on this machine, and how each is started on a CPU with the tiny model."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


def real_root() -> Path:
    """Where `install-all.sh` puts the environments."""
    if chosen := os.environ.get("CRASHCART_REAL"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "crashcart" / "real"


@dataclass(frozen=True)
class RealServer:
    """One installed engine version."""

    name: str
    engine: str
    version: str
    env: tuple[str, ...]
    program: tuple[str, ...]  # relative to the environment
    device: tuple[str, ...]  # what makes it run on a CPU in little memory

    @property
    def folder(self) -> Path:
        return real_root() / self.name

    @property
    def installed(self) -> bool:
        return (self.folder / ".complete").exists()

    def command(self, model: Path, port: int, *extra: str) -> list[str]:
        """The launch command as a person would type it: environment first, `extra` last."""
        program = [str(self.folder / self.program[0]), *self.program[1:]]
        where = ["--model-path", str(model)] if self.engine == "sglang" else [str(model)]
        return [*self.env, *program, *where, "--host", "127.0.0.1", "--port", str(port), *self.device, *extra]


_SGLANG_ENV = ("SGLANG_USE_CPU_ENGINE=1",)
_SGLANG = ("bin/python", "-m", "sglang.launch_server")
_SGLANG_CPU = ("--device", "cpu", "--max-total-tokens", "4096")

SERVERS = (
    RealServer("sglang-0.5.9", "sglang", "0.5.9", _SGLANG_ENV, _SGLANG, _SGLANG_CPU),
    RealServer("sglang-0.5.23", "sglang", "0.5.23", _SGLANG_ENV, _SGLANG, _SGLANG_CPU),
    RealServer(
        "vllm-0.32.0",
        "vllm",
        "0.32.0",
        ("VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1"),
        ("bin/vllm", "serve"),
        ("--enforce-eager", "--dtype", "float32"),
    ),
)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
