"""The protocol of an approval request as a finite model: answers, time, a change, crashes, and two servers, in any order.

Each action is one transaction or one message, as `question/transitions.py` and `turn/run.py` have it. A planted mistake
changes one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

REQUESTER, FIRST, SECOND = 0, 1, 2
QUORUM = 2
ATTEMPTS = 3
"""The attempts of the closing turn in the model."""
ENDED = ("denied", "expired", "cancelled")
PLANTED = (
    "rows are counted",
    "the requester's own answer counts",
    "the claim does not look at the state",
    "a denial is written without a condition",
    "the expiry is not checked at the claim",
    "the request of the answer runs the call beside the claim",
    "recovery ends the turn as interrupted",
    "an operation row is not looked at",
    "the attempt is not checked",
)

Local = tuple[int, str, str]
"""A server that runs the closing turn: its attempt, its next step, and how the turn ends."""


class State(NamedTuple):
    """A state of the request, of its closing turn and of both servers."""

    state: str = "open"
    answers: tuple[int, ...] = ()
    late: bool = False
    changed: bool = False
    attempt: int = 0
    lease: bool = False
    done: bool = False
    operation: int = 0
    key_done: bool = False
    effects: int = 0
    messages: int = 0
    a: Local | None = None
    b: Local | None = None
    faults: int = 2
    bad: str = ""
    outcome: str = ""


def following(s: State, *, ledger: bool, planted: str = "") -> Iterator[State]:
    """Yield the states after one more action."""
    is_open = s.state == "open"
    for who in (REQUESTER, FIRST, SECOND) if is_open and not s.late and len(s.answers) < 3 else ():
        own = who == REQUESTER and planted != "the requester's own answer counts"
        if not own and (who not in s.answers or planted == "rows are counted"):
            yield s._replace(answers=tuple(sorted((*s.answers, who))))
    if is_open or (planted == "a denial is written without a condition" and s.state == "approved"):
        yield s._replace(state="denied")
        yield s._replace(state="cancelled")
    if is_open and s.late:
        yield s._replace(state="expired")
    if not s.late:
        yield s._replace(late=True)
    if not s.changed:
        yield s._replace(changed=True)
    if s.attempt and s.lease and not s.done:
        yield s._replace(lease=False)
    for name in ("a", "b"):
        mine: Local | None = getattr(s, name)
        if mine is None:
            yield from _begins(s, name, planted)
            continue
        yield from _steps(s, name, mine, ledger=ledger, planted=planted)
        if s.faults:
            yield s._replace(**_local(name, None), faults=s.faults - 1)


def _local(name: str, value: Local | None) -> dict[str, Any]:
    return {name: value}


def _begins(s: State, name: str, planted: str) -> Iterator[State]:
    in_time = not s.late or planted == "the expiry is not checked at the claim"
    claimable = s.state == "open" or (planted == "the claim does not look at the state" and s.state != "approved")
    people = len(s.answers if planted == "rows are counted" else set(s.answers))
    if not s.attempt and claimable and in_time and people >= QUORUM:
        bad = f"claimed although {s.state}" if s.state in ENDED else "claimed after the expiry" if s.late else ""
        if len(set(s.answers) - {REQUESTER}) < QUORUM:
            bad = "claimed without enough others"
        yield s._replace(state="approved", attempt=1, lease=True, bad=bad, **_local(name, (1, "preview", "run")))
    if not s.attempt and s.state in ENDED:
        yield s._replace(attempt=1, lease=True, **_local(name, (1, "close", s.state)))
    if planted == "the request of the answer runs the call beside the claim" and s.state == "approved" and not s.done:
        yield s._replace(**_local(name, (s.attempt, "send", "run")))
    if s.attempt and not s.lease and not s.done and s.attempt < ATTEMPTS:
        step, outcome = ("close", s.state) if s.state != "approved" else ("preview", "run")
        if s.state == "approved" and planted == "recovery ends the turn as interrupted":
            step, outcome = "close", "interrupted"
        yield s._replace(attempt=s.attempt + 1, lease=True, **_local(name, (s.attempt + 1, step, outcome)))


def _steps(s: State, name: str, mine: Local, *, ledger: bool, planted: str) -> Iterator[State]:
    attempt, step, outcome = mine
    has_turn = attempt == s.attempt or planted == "the attempt is not checked"

    def go(to: str, ends: str = outcome, **more: Any) -> State:
        return s._replace(**_local(name, (attempt, to, ends)), **more)

    match step:
        case "preview":
            yield go("close", "changed") if s.changed else go("operation")
        case "operation" if not has_turn:
            yield s._replace(**_local(name, None))
        case "operation" if s.operation not in (0, attempt) and not ledger and planted != "an operation row is not looked at":
            yield go("close", "unknown")
        case "operation":
            yield go("send", operation=s.operation or attempt)
        case "send" if ledger and s.key_done:
            yield go("close", "executed")
        case "send":
            yield go("close", "executed", key_done=True, effects=s.effects + 1, bad="two effects" if s.effects else "")
        case "close" if not has_turn:
            yield s._replace(**_local(name, None))
        case "close":
            yield s._replace(done=True, lease=False, messages=s.messages + 1, outcome=outcome, **_local(name, None))


def violation(s: State) -> str:
    """Return what is wrong with a state; empty if nothing is."""
    if s.bad:
        return s.bad
    if s.effects > 1:
        return "two effects"
    if s.effects and s.state in ENDED:
        return f"an effect although {s.state}"
    if s.messages > 1:
        return "two closing messages"
    if s.outcome == "interrupted" and not s.operation:
        return "approved, never sent, and used up"
    return "said to be done, but was not" if s.outcome == "executed" and not s.effects else ""


def explore(*, ledger: bool, planted: str = "") -> tuple[dict[State, list[State]], str]:
    """Return every reachable state with those after it, and the first violation, at which the exploration ends."""
    edges: dict[State, list[State]] = {}
    queue = deque([State()])
    seen = {State()}
    while queue:
        s = queue.popleft()
        if found := violation(s):
            return edges, found
        edges[s] = list(following(s, ledger=ledger, planted=planted))
        for one in edges[s]:
            if one not in seen:
                seen.add(one)
                queue.append(one)
    return edges, ""


def hopeless(edges: dict[State, list[State]]) -> int:
    """Return the number of states from which the closing turn cannot be closed, though attempts remain."""
    before: dict[State, list[State]] = {}
    for s, after in edges.items():
        for one in after:
            before.setdefault(one, []).append(s)
    good = {s for s in edges if s.done}
    queue = deque(good)
    while queue:
        for one in before.get(queue.popleft(), ()):
            if one not in good:
                good.add(one)
                queue.append(one)
    return sum(s not in good and s.attempt < ATTEMPTS for s in edges)
