"""The one door to the state folder.

Take in fast, act later: what intake saw ends in one short transaction here, and acting begins from what it reads
here. Nothing slow happens inside a transaction.
"""

from __future__ import annotations

from app.store.answers import Answers
from app.store.counting import Counting
from app.store.expiry import Expiry
from app.store.giving_back import GivingBack
from app.store.incidents import Incidents
from app.store.launches import Launches
from app.store.outbox import Outbox
from app.store.positions import Positions
from app.store.remedies import Remedies
from app.store.reports import Reports
from app.store.servers import Servers
from app.store.wishes import Wishes


class Store(
    Servers, Launches, Incidents, Remedies, Positions, Outbox, Answers, Wishes, GivingBack, Counting, Reports, Expiry
):
    """Servers, launches, incidents and remedies in one SQLite database; safe for many processes at once.

    `Store.open(folder)` opens it, as a context manager too. Each call is one transaction. What it returns are plain
    values of `app.store.views`; rows never leave.
    """
