"""Every interleaving of two processes that intend and send a call, a stop, an activation, crashes and the end of a permit.

The steps are those of the code. Each planted mistake leaves one out, or puts it elsewhere, and must be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

STEPS = ["lock", "read", "commit", "permit", "send"]
INTENDED_LATE, SENT_LATE, STUCK = "intended after the stop", "sent after the time of a permit", "stuck"
REPLACED = "intended under replaced rules"
MISTAKES = {
    "read without the lock": (["read", "commit", "permit", "send"], {INTENDED_LATE, REPLACED}),
    "read before the transaction": (["read", "lock", "commit", "permit", "send"], {INTENDED_LATE, REPLACED}),
    "floor not read": (["lock", "read the stops", "commit", "permit", "send"], {REPLACED}),
    "no permit": (["lock", "read", "commit", "send"], {SENT_LATE}),
    "permit before another wait": (["lock", "read", "commit", "permit", "wait", "send"], {SENT_LATE}),
    "sent again by its key without a permit": ([*STEPS, "send again"], {SENT_LATE}),
}
ENDED = 99


class State(NamedTuple):
    """Where two processes, the stop and the activation are, and which processes have read one of the latter."""

    places: tuple[int, int] = (0, 0)
    reads: tuple[bool, bool] = (False, False)
    locked: frozenset[int] = frozenset()
    """The processes that hold the shared lock."""
    stop: int = 0
    """0: none, 1: it has the lock alone, 2: committed, 3: so long ago that no permit from before holds."""
    activation: int = 0
    """0: none, 1: it has the lock alone, 2: committed; both processes have the rules from before."""


def moved(state: State, one: int, place: int, *, read: bool | None = None, locks: bool = False, ends: bool = False) -> State:
    places, reads = list(state.places), list(state.reads)
    places[one] = place
    reads[one] = reads[one] if read is None else read
    locked = state.locked | {one} if locks else state.locked - {one} if ends else state.locked
    return State((places[0], places[1]), (reads[0], reads[1]), locked, state.stop, state.activation)


def following(state: State, steps: list[str], found: set[str]) -> Iterator[State]:
    for one, place in enumerate(state.places):
        if place >= len(steps):
            continue
        if place:
            # It is killed: its transaction is rolled back.
            yield moved(state, one, ENDED, ends=True)
        match steps[place]:
            case "lock" if 1 not in (state.stop, state.activation):
                yield moved(state, one, place + 1, locks=True)
            case "read":
                yield moved(state, one, place + 1, read=state.stop >= 2 or state.activation == 2)
            case "read the stops":
                yield moved(state, one, place + 1, read=state.stop >= 2)
            case "commit" if state.reads[one]:
                yield moved(state, one, ENDED, ends=True)
            case "commit":
                found.update([INTENDED_LATE] if state.stop >= 2 else [])
                found.update([REPLACED] if state.activation == 2 else [])
                yield moved(state, one, place + 1, ends=True)
            case "permit":
                # It is looked at in the same moment in which the bytes are written, unless something is awaited between.
                together = place + 2 if steps[place + 1] == "send" else place + 1
                yield moved(state, one, ENDED if state.stop == 3 else together)
            case "send" | "send again":
                found.update([SENT_LATE] if state.stop == 3 else [])
                yield moved(state, one, place + 1)
            case "wait":
                yield moved(state, one, place + 1)
    if state.activation == 0 and not state.locked and state.stop != 1:
        yield state._replace(activation=1)
    elif state.activation == 1:
        yield state._replace(activation=2)
    if state.stop == 0 and not state.locked and state.activation != 1:
        yield state._replace(stop=1)
    elif state.stop in (1, 2):
        yield state._replace(stop=state.stop + 1)


def violations(steps: list[str]) -> set[str]:
    """Return what can go wrong in any order of the steps."""
    found: set[str] = set()
    seen, waiting = {State()}, [State()]
    while waiting:
        state = waiting.pop()
        after = list(following(state, steps, found))
        if not after and (state.stop < 3 or state.activation < 2 or any(place < len(steps) for place in state.places)):
            found.add(STUCK)
        new = set(after) - seen
        seen |= new
        waiting += new
    return found


def test_in_no_order_is_a_call_intended_after_a_stop_or_sent_after_the_time_of_its_permit() -> None:
    assert violations(STEPS) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_model_finds_a_planted_mistake(mistake: str) -> None:
    steps, expected = MISTAKES[mistake]
    assert violations(steps) == expected
