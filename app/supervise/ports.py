"""Who holds a port: asked by binding it, and named from the table of connections where that may be read."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Holder:
    """What stands on a port; `pid` is None where the system does not tell."""

    port: int
    pid: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.pid is None:
            return f"port {self.port} is held by another process"
        return f"port {self.port} is held by process {self.pid} ({self.name or 'name unknown'})"


def port_holder(port: int, host: str | None = None) -> Holder | None:
    """Who listens on `port`, or None when a server can have it."""
    if port <= 0 or _can_bind(port, host or ""):
        return None
    return listener(port) or Holder(port)


def listener(port: int) -> Holder | None:
    """The process that listens on a port, as far as the system tells."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return Holder(port, connection.pid, _name(connection.pid))
    return None


def _can_bind(port: int, host: str) -> bool:
    """Whether a server could bind here. Like servers do, with SO_REUSEADDR: TIME_WAIT is no obstacle."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        # Only a taken address counts: a host that can't be bound here is for the server to say.
        return error.errno != errno.EADDRINUSE
    return True


def _name(pid: int | None) -> str | None:
    try:
        return psutil.Process(pid).name() if pid is not None else None
    except psutil.Error:
        return None
