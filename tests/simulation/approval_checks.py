"""The checks of approval requests after a simulation: each has ended once, with one closing message that says how."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import Connection, select

from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.models.approval import ApprovalState
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, InterruptReason
from graph_agent.question.tables import questions
from graph_agent.record.tables import decision_logs
from tests.simulation.approval_watch import Requested, requested
from tests.simulation.approvers import Person
from tests.simulation.replicas import Replica, World
from tests.simulation.tools import APPROVED

_BEGINNINGS: Mapping[ApprovalState, tuple[str, ...]] = {
    ApprovalState.DENIED: ("Denied by ",),
    ApprovalState.CANCELLED: ("You withdrew the request",),
    ApprovalState.EXPIRED: ("No one answered until ", "There were not enough approvals until "),
    ApprovalState.VOID: ("The request is void (",),
}
"""The beginnings of the replies about a request that has ended without its call."""
_ENDS_OF_APPROVED = (CallDisposition.EXECUTED, CallDisposition.REFUSED, CallDisposition.WAITS)
"""The ends of the call of an approved request: done or tried, refused by a rule, or requested anew for a changed object."""
_CRASH = InterruptReason.CRASH
_APPROVED_BY = "Approved by "
_LATER = timedelta(minutes=2)
_BUSY = timedelta(seconds=10)
"""The time after which a closing decision whose conversation was busy is made."""


async def end_requests(world: World, replicas: Sequence[Replica]) -> None:
    """Check that every request has ended, or is open in time; then let the time of all be over, and do what is due then."""
    left = world.database.look(requested)
    now = world.database.clock.now()
    for one in left:
        ended = one.state is not ApprovalState.OPEN
        # One that has just expired may wait for a busy conversation.
        just_expired = one.state is ApprovalState.EXPIRED and one.ended_at is not None and one.ended_at > now - _BUSY
        if ended and one.closing_decision is None and not just_expired:
            world.history.violated(f"the {one.state} request {one.request.id[:4]} is not closed by the workers")
        if not ended and not one.is_in_time(now) and not one.is_in_time(now - _BUSY):
            world.history.violated(f"the request {one.request.id[:4]} is open after its time")
    # One that has just ended waits for its closing decision, and the closing decision of a dead process for one with its rules.
    waits = any(one.state is ApprovalState.OPEN or one.closing_decision is None for one in left)
    if waits or world.database.look(_has_open_closing):
        world.database.clock.ahead_seconds += timedelta(days=2).total_seconds()
        serving = world.random.choice(replicas)
        for replica in replicas:
            replica.clock.ahead_seconds += ABANDONED_AFTER.total_seconds()
        for _ in range(3):
            await serving.serve_due()
            # A closing decision whose conversation was busy, or that was left to others, is due again a little later.
            world.database.clock.ahead_seconds += _LATER.total_seconds()


def _has_open_closing(connection: Connection) -> bool:
    """True if a request was approved by a decision that is not closed."""
    of_request = decision_logs.c.decision_id == questions.c.closed_by
    wanted = select(questions.c.id).join(decision_logs, of_request).where(decision_logs.c.record.is_(None)).limit(1)
    return connection.execute(wanted).first() is not None


def check_requests(
    world: World, people: Sequence[Person], records: Mapping[str, DecisionRecord], turn_ids: Sequence[str]
) -> None:
    """Check each request against its records, what people did, and what was sent."""
    history = world.history
    stored = {one.request.id: one for one in world.database.look(requested)}
    of_records = [record.decision.approval for record in records.values() if record.decision.approval is not None]
    if {one.id for one in of_records} != set(stored):
        history.violated("the requests of the records are not those that are stored")
    closings = Counter(
        record.header.context.approval.request.id for record in records.values() if record.header.context.approval
    )
    for request_id, one in stored.items():
        what = f"the {one.state} request {request_id[:4]}"
        if one.state is ApprovalState.OPEN or one.closing_decision is None:
            history.violated(f"{what} is not ended in the end")
            continue
        if closings[request_id] != 1:
            history.violated(f"{what} has {closings[request_id]} closing decisions")
        if (closing := records.get(one.closing_decision)) is None:
            history.violated(f"{what} has a closing decision that has no record")
            continue
        _check_closing(world, what, one, closing, stopped=one.closing_decision in turn_ids)
    _check_acts(world, people, stored)
    _check_calls(world, records, stored)


def _check_closing(world: World, what: str, one: Requested, record: DecisionRecord, *, stopped: bool) -> None:
    """The closing decision has all answers, and says how the request has ended."""
    history, closed = world.history, record.header.context.approval
    assert closed is not None
    if (closed.request, closed.end) != (one.request, one.state):
        history.violated(f"{what} is closed as another one, or as {closed.end}")
    answers = {(given.approver, given.approve, given.role, given.digest) for given in closed.answers}
    if answers != {(given.approver, given.approve, given.role, given.digest) for given in one.answers}:
        history.violated(f"{what} has answers that its closing decision does not have, or the other way round")
    if any(entry.kind is EntryKind.MODEL for entry in record.entries):
        history.violated(f"the closing decision of {what} has asked the model")
    executed = [call for call in record.invocations if call.disposition is CallDisposition.EXECUTED]
    reply, kind = record.decision.response_text or "", record.decision.decision_type
    if one.state is ApprovalState.APPROVED:
        if len(executed) > 1:
            history.violated(f"{what} has run {len(executed)} calls")
        made = any(call.disposition in _ENDS_OF_APPROVED for call in record.invocations)
        crashed = any(entry.kind is EntryKind.INTERRUPT and entry.result["reason"] == _CRASH for entry in record.entries)
        if crashed and not made and not stopped and not world.faults.policy_changes:
            history.violated(f"{what} is used up without its call")
        if executed and executed[0].success and not reply.startswith(_APPROVED_BY):
            history.violated(f"{what} was done, and its closing message says: {reply}")
        return
    if executed:
        history.violated(f"{what} has run its call")
    if not stopped and (kind is not DecisionType.CANCEL_PENDING or not reply.startswith(_BEGINNINGS[one.state])):
        history.violated(f"the closing message of {what} says: {reply}")


def _check_acts(world: World, people: Sequence[Person], stored: Mapping[str, Requested]) -> None:
    """Every stored answer was given, and every answer that was accepted is stored."""
    given = {
        (act.request_id, act.person, act.verb == "approves")
        for person in people
        for act in person.acts
        if act.verb in ("approves", "denies")
    }
    accepted = {
        (act.request_id, act.person, act.verb == "approves")
        for person in people
        for act in person.acts
        if act.verb in ("approves", "denies") and act.is_accepted
    }
    answers = {(one.request.id, answer.approver, answer.approve) for one in stored.values() for answer in one.answers}
    for request_id, person, approve in sorted(answers - given):
        world.history.violated(f"{person} is said to have {'approved' if approve else 'denied'} {request_id[:4]}")
    for request_id, person, _ in sorted(accepted - answers):
        world.history.violated(f"the answer of {person} to {request_id[:4]} was accepted, and is not stored")
    withdrawn = [act for person in people for act in person.acts if act.verb == "withdraws" and act.is_accepted]
    for act in withdrawn:
        if stored[act.request_id].request.user_id != act.person:
            world.history.violated(f"{act.person} has withdrawn the request {act.request_id[:4]} of another user")


def _check_calls(world: World, records: Mapping[str, DecisionRecord], stored: Mapping[str, Requested]) -> None:
    """A call that needs approvals ran only in the closing decision of its own request."""
    if not world.faults.approvals:
        return
    for decision_id, record in records.items():
        closed = record.header.context.approval
        for call in record.invocations:
            if call.tool_name not in APPROVED or call.disposition is not CallDisposition.EXECUTED:
                continue
            action = None if closed is None else closed.request.action
            if action is None or (action.tool_name, action.arguments) != (call.tool_name, call.parameters):
                world.history.violated(f"{world.watch.name(decision_id)} runs {call.tool_name} without a request for it")
    effects = Counter(call.operation_key for call in world.tools.effects if call.tool_name in APPROVED)
    for operation_key, count in effects.items():
        one = stored.get(operation_key)
        if one is None or one.state is not ApprovalState.APPROVED or count > 1:
            world.history.violated(f"the request {operation_key[:4]} has {count} effects, and is {one and one.state}")
    sent = {call.operation_key for call in world.tools.sent}
    for one, other in itertools.pairwise(sorted(stored.values(), key=lambda one: (one.request.call_digest, one.created_at))):
        same = one.request.call_digest == other.request.call_digest
        if same and one.request.id in sent and other.request.id in sent:
            world.history.violated(f"the call of {one.request.id[:4]} was requested again after it was sent")
