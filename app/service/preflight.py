"""The check before the first start: what it finds is mended by the same rules as a death, before it costs one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.command import Command
from app.core.model import Cause
from app.core.vocabulary import Engine, Mode
from app.diagnosis.pipeline import Pipeline
from app.service.acting import Actor, Next
from app.service.intake import store_findings
from app.service.options import RunOptions
from app.service.policy import Do, Situation, plan
from app.store.store import Store

_ROUNDS = 5  # how many fixes in a row it may ask for


@dataclass
class Preflight:
    """Checks a command and mends what may be mended; `incident` is where that is recorded."""

    options: RunOptions
    store: Store
    pipeline: Pipeline
    actor: Actor
    incident: int | None = None

    async def passed(self, command: Command, engine: Engine | None) -> tuple[bool, Next | None]:
        """Whether to start, and what: None stands for the command as given."""
        chosen: Next | None = None
        for _ in range(_ROUNDS):
            findings = await asyncio.to_thread(self.pipeline.check, command, engine)
            if self.actor.stop.asked.is_set():
                return False, None
            if not findings:
                return True, chosen
            if not self._mendable(command, findings):
                self.actor.terminal.show_findings(command, findings)
                return await self._start_anyway(), chosen
            self.actor.terminal.say("pre-flight: this would fail")
            attempt = chosen.attempt_id if chosen else None
            mode = self.options.mode
            death = store_findings(self.store, self.options.name, command, engine, mode, findings, attempt)
            self.incident = death.incident_id
            chosen = await self.actor.act(death)
            if chosen is None:
                return False, None
            command = chosen.command
        return True, chosen

    def _mendable(self, command: Command, findings: Sequence[Cause]) -> bool:
        """Whether acting on the findings can lead to a launch; if not, a real start tells more than we know."""
        mode = self.options.mode
        situation = Situation(mode=mode, causes=tuple(findings), command=command, allow=self.options.allow)
        return plan(situation).do is (Do.RELAUNCH if mode is Mode.AUTO else Do.PROPOSE)

    async def _start_anyway(self) -> bool:
        terminal = self.actor.terminal
        if self.options.mode is not Mode.PROPOSE:
            terminal.say("it is started as it is")
            return True
        if not terminal.interactive:
            terminal.say("not started (--no-preflight starts it as it is)")
            return False
        return await terminal.ask("Start it as it is? [y]es / [n]o", "yn") == "y"
