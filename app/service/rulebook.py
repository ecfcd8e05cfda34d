"""The rules in use, as pipelines: one object that all loops share, so that a reload reaches them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.core.resources import scan_cache
from app.diagnosis.pipeline import Pipeline
from app.rules.load import RuleSet, load_rules
from app.supervise.flaghelp import catalogue_for
from app.supervise.hostfacts import host_facts


class Rulebook:
    """`pipeline` answers at once; `checker` may ask an installed engine for its flags, which takes seconds."""

    def __init__(self, state: Path, folders: Sequence[Path] = ()) -> None:
        self._state = state
        self.load(folders)

    def load(self, folders: Sequence[Path]) -> RuleSet:
        """Reads all rules anew. Sessions that have begun keep theirs; wrong files are left out and told."""
        rules = load_rules(list(folders) or None)
        cache = self._state / "cache" / "flags"
        pipeline = Pipeline(
            rules,
            catalogue_for=lambda one: catalogue_for(one, may_run=False, cache=cache),
            cache=scan_cache(self._state),
        )
        checker = Pipeline(
            rules, catalogue_for=lambda one: catalogue_for(one, may_run=True, cache=cache), facts_for=host_facts
        )
        self.rules, self.pipeline, self.checker = rules, pipeline, checker
        return rules
