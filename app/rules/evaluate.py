"""Conditions become functions from what is known so far to what may be known next.

Each yields every way in which it can hold; `all` chains them, so a later condition that fails makes an earlier one
try its next line. What comes out first is the earliest solution of the leftmost condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.core.model import Event, Frame, Raised
from app.rules.look import Look, State, groups_of
from app.rules.version import in_range, read_version

if TYPE_CHECKING:
    from app.rules.conditions import (
        ArgvLeaf,
        CaptureLeaf,
        Comparison,
        Condition,
        CountLeaf,
        EnvLeaf,
        EventLeaf,
        ExitLeaf,
        FollowsLeaf,
        LineLeaf,
        TracebackLeaf,
        WithoutLeaf,
    )

Solver = Callable[[Look, State], Iterator[State]]


def compile_condition(condition: Condition) -> Solver:
    """One function for a condition with all that is nested in it.

    What finds a line comes before what is relative to one, however the file orders the keys of one mapping.
    """
    solvers = _leaves(condition, ("line", "event", "traceback", "count"))
    solvers += [compile_condition(child) for child in condition.all or ()]
    if condition.any is not None:
        solvers.append(_any([compile_condition(child) for child in condition.any]))
    solvers += _leaves(condition, ("follows", "without", "exit", "phase", "argv", "env", "version", "capture", "probe"))
    solvers += [_not(compile_condition(child)) for child in condition.none or ()]
    return solvers[0] if len(solvers) == 1 else _all(solvers)


def _leaves(condition: Condition, names: Sequence[str]) -> list[Solver]:
    return [_LEAVES[name](leaf) for name in names if (leaf := getattr(condition, name)) is not None]


def _all(solvers: Sequence[Solver]) -> Solver:
    def solve(look: Look, state: State, at: int = 0) -> Iterator[State]:
        if at == len(solvers):
            yield state
            return
        for step in solvers[at](look, state):
            yield from solve(look, step, at + 1)

    return solve


def _any(solvers: Sequence[Solver]) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        for solver in solvers:
            yield from solver(look, state)

    return solve


def _not(solver: Solver) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        if next(solver(look, state), None) is None:
            yield state._replace(weight=state.weight + 1)

    return solve


def _line(leaf: LineLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        for hit in look.hits(leaf.regex):
            look.step()
            if _rank_fits(leaf.rank, hit.line.rank, state):
                yield from _found(state.held(1, groups=hit.groups, line=hit.line))

    return solve


def _event(leaf: EventLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        for event in look.scene.digest.events:
            if (leaf.kind and event.kind != leaf.kind) or not _rank_fits(leaf.rank, event.rank, state):
                continue
            look.step()
            text = event.text
            if found := look.search(leaf.regex, text):
                line = event.lines[text.count("\n", 0, found.start())]
                yield from _found(state.held(1, groups=groups_of(found), line=line, event=event))

    return solve


def _traceback(leaf: TracebackLeaf) -> Solver:
    asked = (leaf.type, leaf.message, leaf.frame, leaf.file, leaf.code)
    weight = sum(one is not None for one in asked)

    def solve(look: Look, state: State) -> Iterator[State]:
        for event in look.scene.digest.events:
            if not event.chain or not _rank_fits(leaf.rank, event.rank, state):
                continue
            for raised in _of_chain(event, leaf):
                look.step()
                yield from _raised(leaf, weight, raised, event, look, state)

    return solve


def _of_chain(event: Event, leaf: TracebackLeaf) -> Sequence[Raised]:
    match leaf.chain:
        case "first":
            return event.chain[:1]
        case "last":
            return event.chain[-1:]
    return event.chain


def _raised(
    leaf: TracebackLeaf, weight: int, raised: Raised, event: Event, look: Look, state: State
) -> Iterator[State]:
    """The ways in which one exception fits: one, or one for each frame that does."""
    groups: dict[str, str] = {}
    if leaf.type:
        found = look.fits(leaf.type, raised.type) or look.fits(leaf.type, raised.name)
        if not found:
            return
        groups |= groups_of(found)
    if leaf.message:
        found = look.search(leaf.message, raised.message)
        if not found:
            return
        groups |= groups_of(found)
    if not (leaf.frame or leaf.file or leaf.code):
        yield from _found(state.held(weight, groups=groups, line=raised.line, event=event))
        return
    # The deepest frame first: it is the nearest to what went wrong.
    for depth, frame in reversed(list(enumerate(raised.frames, 1))):
        of_frame = _frame_fits(leaf, frame, look)
        if of_frame is not None:
            held = state.held(weight, groups={**groups, **of_frame}, line=raised.line, event=event, depth=depth)
            yield from _found(held)
            return


def _frame_fits(leaf: TracebackLeaf, frame: Frame, look: Look) -> dict[str, str] | None:
    groups: dict[str, str] = {}
    if leaf.file and not any(f"/{frame.file}".replace("\\", "/").endswith(f"/{end}") for end in leaf.file):
        return None
    if leaf.frame:
        found = look.fits(leaf.frame, frame.function)
        if not found:
            return None
        groups |= groups_of(found)
    if leaf.code:
        found = look.search(leaf.code, frame.code)
        if not found:
            return None
        groups |= groups_of(found)
    return groups


def _count(leaf: CountLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        if look.total(leaf.line) < leaf.at_least:
            return
        hits = look.hits(leaf.line)
        if leaf.within is None:
            yield from _found(state.held(1, groups=hits[0].groups, line=hits[0].line))
            return
        for first, last in zip(hits, hits[leaf.at_least - 1 :], strict=False):
            start, end = first.line.time, last.line.time
            if start is not None and end is not None and abs(end - start) <= leaf.within:
                yield from _found(state.held(2, groups=first.groups, line=first.line))
                return

    return solve


def _follows(leaf: FollowsLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        if state.latest is None:
            return
        at = look.position(state.latest)
        for hit in reversed(look.hits(leaf.line)):
            look.step()
            distance = at - look.position(hit.line)
            if distance > 0 and (leaf.within_lines is None or distance <= leaf.within_lines):
                yield from _found(state.held(1, groups=hit.groups))

    return solve


def _without(leaf: WithoutLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        hits = look.hits(leaf.line)
        if hits and (leaf.after or leaf.before):
            if state.latest is None:
                return
            at = look.position(state.latest)
            # The first and the last hits are always kept, so these two decide.
            if leaf.after and look.position(hits[-1].line) > at:
                return
            if leaf.before and look.position(hits[0].line) < at:
                return
        elif hits:
            return
        yield from _found(state.held(1))

    return solve


def _exit(leaf: ExitLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        ended = look.scene.exit
        codes = (ended.code, ended.shell_code)
        by_code = any(code in codes or _signal_code(code) == ended.shell_code for code in leaf.code or ())
        if ended.known and (by_code or (ended.signal is not None and ended.signal in (leaf.signal or ()))):
            yield from _found(state.held(1))

    return solve


def _signal_code(code: int) -> int:
    """Python's −9 as the 137 of a shell."""
    return 128 - code if code < 0 else code


def _phase(phases: Sequence[str]) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        if look.scene.phase in phases:
            yield from _found(state.held(1))

    return solve


def _argv(leaf: ArgvLeaf) -> Solver:
    weight = len(leaf.has or ()) + len(leaf.lacks or ()) + (leaf.flag is not None) * max(1, leaf.tests)

    def solve(look: Look, state: State) -> Iterator[State]:
        if look.scene.command is None:
            return
        if any(look.argument(flag) is None for flag in leaf.has or ()):
            return
        if any(look.argument(flag) is not None for flag in leaf.lacks or ()):
            return
        if leaf.flag is None:
            yield from _found(state.held(weight))
            return
        value = look.argument(leaf.flag)
        if leaf.absent is not None and leaf.absent != (value is None):
            return
        yield from _compared(leaf, value, weight, look, state)

    return solve


def _env(leaf: EnvLeaf) -> Solver:
    weight = len(leaf.has or ()) + len(leaf.lacks or ()) + leaf.tests

    def solve(look: Look, state: State) -> Iterator[State]:
        if look.scene.command is None:
            return
        if any(look.variable(name) is None for name in leaf.has or ()):
            return
        if any(look.variable(name) is not None for name in leaf.lacks or ()):
            return
        value = look.variable(leaf.has[0]) if leaf.has else None
        yield from _compared(leaf, value, weight, look, state)

    return solve


def _compared(test: Comparison, value: str | None, weight: int, look: Look, state: State) -> Iterator[State]:
    if not test.tests:
        yield from _found(state.held(weight))
    elif value is not None:
        groups = look.compares(test, value, state)
        if groups is not None:
            yield from _found(state.held(weight, groups=groups))


def _version(spec: str) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        version = read_version(look.scene.version or "")
        if version is not None and in_range(version, spec):
            yield from _found(state.held(1))

    return solve


def _capture(leaf: CaptureLeaf) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        value = look.value(leaf.name, state)
        if value is not None:
            yield from _compared(leaf, value, 1, look, state)

    return solve


def _probe(tests: dict[str, Comparison]) -> Solver:
    def solve(look: Look, state: State) -> Iterator[State]:
        for name, test in tests.items():
            if name not in look.scene.probes or not _probe_holds(test, look.scene.probes[name], look, state):
                return
        yield from _found(state.held(len(tests)))

    return solve


def _probe_holds(test: Comparison, found: object, look: Look, state: State) -> bool:
    """A probe finds one value, or several of which one must fit: the ports in use, the GPUs' free memory."""
    several = found if isinstance(found, list | tuple | set | frozenset) else [found]
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in several if one is not None]
    return any(look.compares(test, text, state) is not None for text in texts)


def _rank_fits(wanted: str, rank: str | None, state: State) -> bool:
    match wanted:
        case "any":
            return True
        case "same":
            return rank == state.rank
    return rank == wanted


def _found(state: State | None) -> Iterator[State]:
    if state is not None:
        yield state


_LEAVES: dict[str, Callable[..., Solver]] = {
    "line": _line,
    "event": _event,
    "traceback": _traceback,
    "count": _count,
    "follows": _follows,
    "without": _without,
    "exit": _exit,
    "phase": _phase,
    "argv": _argv,
    "env": _env,
    "version": _version,
    "capture": _capture,
    "probe": _probe,
}
