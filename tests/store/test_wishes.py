"""A person's wishes for a whole server: written by the web, claimed by who supervises it."""

from __future__ import annotations

import pytest

from app.core.errors import NotFoundError, StaleError
from app.core.vocabulary import Engine, Mode
from app.store.store import Store
from app.store.wishes import ServerWish
from tests.store.holding import hold


def test_a_wish_is_claimed_once(store: Store) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.PROPOSE, command=("serve",)):
        store.wish("kimi", ServerWish.RESTART, "Ann")
        first, second = store.claim_wish("kimi"), store.claim_wish("kimi")

    assert first is not None
    assert first.wish is ServerWish.RESTART
    assert second is None


def test_the_newest_wish_overtakes_older_ones(store: Store) -> None:
    with store.lock_server("kimi", engine=None, mode=None, command=("serve",)):
        store.wish("kimi", ServerWish.STOP, "Ann")
        store.wish("kimi", ServerWish.START, "Ben")
        claimed = store.claim_wish("kimi")

    assert claimed is not None
    assert claimed.wish is ServerWish.START
    assert store.claim_wish("kimi") is None


def test_a_wish_from_before_the_supervisor_began_is_not_carried_out(store: Store) -> None:
    with store.lock_server("kimi", engine=None, mode=None, command=("serve",)):
        store.wish("kimi", ServerWish.STOP, "Ann")

    assert store.claim_wish("kimi", after=store.newest_transition()) is None


def test_a_wish_that_nobody_would_carry_out_is_refused(store: Store) -> None:
    with store.lock_server("kimi", engine=None, mode=None, command=("serve",)):
        pass

    with pytest.raises(StaleError, match="No Crashcart supervises kimi"):
        store.wish("kimi", ServerWish.START, "Ann")


def test_a_wish_for_an_unknown_server_is_refused(store: Store) -> None:
    with pytest.raises(NotFoundError):
        store.wish("nobody", ServerWish.START, "Ann")


def test_a_server_that_run_supervises_takes_no_wishes_and_says_what_to_do(store: Store) -> None:
    with hold(store.state) as other:
        with pytest.raises(StaleError, match="crashcart run") as refused:
            store.wish("kimi", ServerWish.STOP, "Ann")
        other.kill()

    assert f"kill -INT {other.pid}" in (refused.value.mend or "")
    assert store.last_wish("kimi") is None
