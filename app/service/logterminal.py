"""What a run says where nobody sits at a terminal: events of the service's own log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from app.core.command import Command
from app.core.model import Cause, Diagnosis
from app.core.redact import redact_words


class LogTerminal:
    """Tells a server's story in the log. Nobody can be asked: decisions come through the store."""

    interactive = False

    def __init__(self, server: str) -> None:
        self._log = structlog.get_logger("crashcart.server").bind(server=server)

    def say(self, text: str) -> None:
        """Tells one line."""
        self._log.info(text)

    def show(self, diagnosis: Diagnosis, *, log: Path | None, next_step: str) -> None:
        """Tells why it died and what follows."""
        top = diagnosis.causes[0] if diagnosis.causes else None
        line = top.line.text if top is not None and top.line is not None else None
        what = top.title if top is not None else "nothing was recognised"
        self._log.warning(f"died: {what}", rule=top.rule if top else None, line=line, next=next_step)

    def show_findings(self, command: Command, findings: Sequence[Cause]) -> None:
        """Tells what pre-flight found."""
        for cause in findings:
            self._log.warning(f"pre-flight: {cause.title}", rule=cause.rule)

    def show_command(self, title: str, command: Command) -> None:
        """Tells a command, secrets taken out."""
        self._log.info(title, command=list(redact_words(command.words())))

    def pass_on(self, data: bytes) -> None:
        """The output stays in its kept file."""

    async def ask(self, question: str, answers: str) -> str:
        """Nobody is there."""
        return answers[-1]
