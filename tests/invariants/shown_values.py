"""Turns in which something changes between a question and its yes, with an oracle of its own.

Every value that people were shown, or that the rules have judged by, is compared; what is equal is not asked about again.
"""

from __future__ import annotations

import asyncio

from graph_agent.models.decision import PendingAction
from tests.loan_desk import DIFFERENT, EQUAL, Change, LoanDesk, Talk, conditions, fails


def first_violation() -> str | None:
    """Return what the first turn does that it must not do; None if every one is right."""
    return asyncio.run(_first_violation())


async def _first_violation() -> str | None:
    for described in (True, False):
        for kind, (change, _) in DIFFERENT.items():
            if (described or kind != "preview") and await _extends(change, described=described):
                return f"{kind}: extended without a new question"
        for kind, change in EQUAL.items():
            if not await _extends(change, described=described):
                return f"{kind}: asked again about equal values"
    if await _extends(fails, judged=False):
        return "failed read: extended without a new question"
    letter, mail = [await _asked(LoanDesk(way=way)) for way in ("letter", "mail")]
    if letter.whole_digest == mail.whole_digest:
        return "default: two calls have one digest"
    return None


async def _asked(desk: LoanDesk) -> PendingAction:
    talk = Talk(desk, conditions())
    await talk.say("extend it")
    assert talk.pending is not None
    return talk.pending


async def _extends(change: Change, *, described: bool = False, judged: bool = True) -> bool:
    """Return True if the loan is extended by the yes after a change."""
    desk = LoanDesk(description="camera 1" if described else "")
    talk = Talk(desk, conditions() if judged else None)
    await talk.say("extend it")
    change(desk)
    await talk.say("yes")
    return desk.extended == 1
