"""The checks after a simulation: what the clients received, what the tools did and what the database holds must agree."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, or_, select

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.tables import Role, TurnState, messages, turns
from graph_agent.clock import SystemClock
from graph_agent.due.depth import find_rows
from graph_agent.due.table import WorkKind
from graph_agent.errors import RecordRolledBackError, ServiceError, ServiceErrorCode
from graph_agent.graph.build import shipped_graph
from graph_agent.graph.topology import END, START, TOPOLOGY
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import (
    CallDisposition,
    DecisionRecord,
    EntryKind,
    InterruptReason,
    OperationState,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.record.tables import call_operations, decision_logs, record_blobs
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tree.service import RecordTree
from graph_agent.replays.replayer import Replayer
from graph_agent.turn.finished import FinishedTurn
from tests.simulation.approval_checks import check_requests, end_requests
from tests.simulation.approvers import Person
from tests.simulation.clients import Attempt, Client, Request, ask_again
from tests.simulation.history import History
from tests.simulation.plain import CONVERSATION, PlainCaller
from tests.simulation.policies import LOOKED_UP
from tests.simulation.replicas import KEY, LOG_KEYS, TIMEOUT_SECONDS, Replica, World
from tests.simulation.tools import (
    CHANGES,
    CONFIRMED,
    FROZEN,
    LIMITS,
    MAX_AMOUNT,
    PAYS,
    PUBLISHES,
    READ_FIRST,
    UNDOES,
    UNDONE,
    WITH_LEDGER,
    Sent,
)

_MAX_ROUNDS = 3
_LOOK = "look at approval request "
_CLOSING_KEY = " approval:"
"""The beginning of the keys of turns that close a request for approval."""
_STATE_SHOWN = "Object state now"
"""The label of the fact `object.state` in a question."""
_ARRIVED_SECONDS = 1.0
_STARVED = timedelta(minutes=1)
"""Work that has been due for longer than this, after everything has healed, is not done."""
_BEFORE = 8.0
"""For so many seconds before a request its replica has had no trouble, if the request must be answered at once."""


@dataclass(frozen=True)
class _Stored:
    """The content of the database after a simulation."""

    turns: list[Any]
    decisions: list[Any]
    messages: list[Any]
    operations: list[Any]
    texts: dict[str, str]

    @classmethod
    def read(cls, connection: Connection) -> _Stored:
        def rows(table: Any) -> list[Any]:
            return list(connection.execute(select(table)))

        return cls(
            rows(turns),
            rows(decision_logs),
            rows(messages),
            rows(call_operations),
            {row.digest: row.text for row in rows(record_blobs)},
        )


async def check_outcome(
    world: World, replicas: list[Replica], clients: list[Client], callers: list[PlainCaller], people: list[Person]
) -> None:
    """Check everything that must hold once all faults are over."""
    history = world.history
    _check_due(world)
    await _check_left_open(world, replicas)
    await end_requests(world, replicas)
    stored = world.database.look(_Stored.read)
    requests = [request for client in clients for request in client.requests]
    records = {
        row.decision_id: DecisionRecord.model_validate_json(row.record) for row in stored.decisions if row.record is not None
    }
    _check_closed(world, stored)
    for decision_id, record in records.items():
        _check_path(history, world.watch.name(decision_id), record)
        await _check_replay(history, world.watch.name(decision_id), record, stored.texts)
    _check_sent(world)
    _check_logged(world, records)
    _check_operations(world, stored)
    _check_healthy(world, requests, records)
    _check_refused(world, _refused(requests, callers), records)
    _check_plain(history, callers, records)
    _check_confirmed(world, stored, records)
    _check_cards(world, records)
    _check_shown(world, records)
    _check_budgets(world)
    _check_undone(world)
    _check_read_first(world, records)
    check_requests(world, people, records, [turn.id for turn in stored.turns if turn.stopped])
    await _check_answers(world, replicas, requests, stored)
    for replica in replicas:
        replica.kill()
    # What these processes had sent has arrived after it: nothing changes while the log is verified.
    await asyncio.sleep(_ARRIVED_SECONDS)
    await _check_log(world, replicas, len(records))


async def _check_log(world: World, replicas: list[Replica], count: int) -> None:
    """Everything is sealed, and the log continues every head that it had."""
    history, database = world.history, world.database.open(world.loop.outside)
    try:
        await RecordTree(database, LOG_KEYS, key=KEY, clock=SystemClock()).seal()
    except (RecordRolledBackError, ServiceError) as error:
        history.violated(f"the log cannot be sealed: {error}")
    heads = [(f"replica {replica.number}", head, 0) for replica in replicas for head in replica.signed]
    notes = {replica.number: replica.head.note for replica in replicas}
    heads += [(f"the file of host {number}", LOG_KEYS.open(note), 0) for number, note in notes.items() if note is not None]
    verified = await verify_log(database, keys=LOG_KEYS, key=KEY, seen=heads)
    if (verified.records, verified.waiting) != (count, 0):
        history.violated(f"the tree has {verified.records} of {count} records, and {verified.waiting} rows wait")
    for violation in verified.violations:
        history.violated(f"log verify: {violation}")


def _check_closed(world: World, stored: _Stored) -> None:
    """Every accepted request has one turn, one closed decision and one message of each side."""
    history, name = world.history, world.watch.name
    # A look at a waiting call is no turn of its conversation.
    own = [row for row in stored.decisions if not row.message.startswith(_LOOK)]
    of_chats = [row for row in own if not row.conversation_id.startswith(CONVERSATION)]
    for turn in stored.turns:
        if turn.state is not TurnState.DONE:
            history.violated(f"{name(turn.id)} is not closed by the workers")
    for decision in stored.decisions:
        if decision.record is None or decision.status is RecordStatus.PENDING:
            history.violated(f"{name(decision.decision_id)} has no closed record")
    of_turns, of_decisions = {turn.id for turn in stored.turns}, {row.decision_id for row in of_chats}
    for decision_id in sorted(of_turns ^ of_decisions, key=name):
        history.violated(f"{name(decision_id)} has a turn without a decision, or the other way round")
    said = Counter((message.decision_id, message.role) for message in stored.messages)
    for turn in stored.turns:
        for role in Role:
            if said[turn.id, role] != 1 and turn.state is TurnState.DONE:
                history.violated(f"{name(turn.id)} has {said[turn.id, role]} messages of the {role.value}")
    closings = {turn.id for turn in stored.turns if (turn.idem_key or "").startswith(_CLOSING_KEY)}
    for message, count in Counter(row.message for row in of_chats if row.decision_id not in closings).items():
        # The same undo may be asked for again.
        if count > 1 and not message.startswith("undo decision "):
            history.violated(f"{message!r} has {count} decisions")


def _check_path(history: History, name: str, record: DecisionRecord) -> None:
    """The path of a record is one of the graph's."""
    states = record.states
    possible = states[:1] == [START] and END in TOPOLOGY.get(states[-1], {}).values()
    possible = possible and all(after in TOPOLOGY[state].values() for state, after in itertools.pairwise(states))
    if not possible or states.count("CHECK_ITERATIONS") > _MAX_ROUNDS:
        history.violated(f"{name} has a path that is not possible: {' '.join(states)}")
    for entry in record.entries:
        if entry.kind is EntryKind.INTERRUPT and entry.result["reason"] == InterruptReason.FAILURE:
            history.violated(f"{name} ended in an unexpected exception")


@cache
def _replayer() -> Replayer:
    return Replayer(graph=shipped_graph())


async def _check_replay(history: History, name: str, record: DecisionRecord, texts: dict[str, str]) -> None:
    report = await _replayer().replay(record, texts)
    if not report.identical:
        history.violated(f"{name} cannot be replayed: {report.departure or [str(one) for one in report.differences]}")


def _check_sent(world: World) -> None:
    """A call without a ledger is sent at most once; with it, it has at most one effect."""
    once: tuple[tuple[str, Iterable[Sent]], ...] = (
        (
            "is sent {} times without a ledger",
            (sent for sent in world.tools.sent if sent.tool_name not in {*WITH_LEDGER, UNDOES}),
        ),
        ("has {} effects", world.tools.effects),
    )
    for text, calls in once:
        found = list(calls)
        by_key = Counter((call.tool_name, call.operation_key) for call in found)
        by_token = Counter((call.tool_name, call.token) for call in found)
        doubled = [*(key for key, count in by_key.items() if count > 1), *(key for key, n in by_token.items() if n > 1)]
        for tool_name, _ in doubled[:1]:
            world.history.violated(f"a call of {tool_name} {text.format('several')}")


def _check_logged(world: World, records: dict[str, DecisionRecord]) -> None:
    """What was sent is in a record, with an outcome that the tools do not contradict."""
    history = world.history
    calls = {
        (call.tool_name, call.parameters.get("token")): call
        for record in records.values()
        for call in record.invocations
        if call.disposition is CallDisposition.EXECUTED
    }
    sent = {(call.tool_name, call.token) for call in world.tools.sent}
    done = {(call.tool_name, call.token) for call in world.tools.effects}
    for tool_name, token in sorted(sent | done):
        if (tool_name, token) not in calls:
            history.violated(f"{tool_name} {token} was sent, and no record has it")
    for what, call in calls.items():
        if call.tool_name not in (*CHANGES, UNDOES):
            continue
        if call.success and what not in done:
            history.violated(f"{what[0]} {what[1]} is recorded as done, and was not done")
        if not call.success and call.error_code not in UNKNOWN_CODES and what in done:
            history.violated(f"{what[0]} {what[1]} is recorded as failed, and was done")
        if call.success and what not in sent:
            history.violated(f"{what[0]} {what[1]} is recorded, and was not sent")


def _check_operations(world: World, stored: _Stored) -> None:
    """The rows of the operations agree with the tools."""
    done = {call.operation_key for call in world.tools.effects}
    for row in stored.operations:
        what = f"operation {row.sequence} of {world.watch.name(row.decision_id)}"
        if row.state is OperationState.INTENDED:
            world.history.violated(f"{what} has no outcome")
        if row.state is OperationState.VOID and row.operation_key in done:
            world.history.violated(f"{what} is void, and was done")
        if row.state is OperationState.DONE and row.operation_key not in done:
            world.history.violated(f"{what} is recorded as done, and was not done")


def _is_calm(world: World, attempt: Attempt) -> bool:
    """True if nothing but clocks can have disturbed a request."""
    if not attempt.alone or attempt.ended - attempt.started > TIMEOUT_SECONDS - 4:
        return False
    faults = world.faults
    if faults.stops or faults.impatience or faults.restarts or not attempt.process.alive:
        return False
    return world.database.troubled_until(attempt.process) + _BEFORE < attempt.started


def _check_healthy(world: World, requests: list[Request], records: dict[str, DecisionRecord]) -> None:
    """A request to a replica in no trouble is answered at once, and its turn runs to its end."""
    for request in requests:
        attempt = request.attempts[0] if request.attempts else None
        if attempt is None or not attempt.ended or not _is_calm(world, attempt):
            continue
        if not isinstance(attempt.outcome, ChatAnswer):
            if attempt.outcome != ServiceErrorCode.CONVERSATION_BUSY:
                world.history.violated(f"{request.content} is answered with {attempt.outcome} by a healthy replica")
            continue
        record = records.get(attempt.outcome.decision_id)
        if record is not None and record.status is not RecordStatus.COMPLETED:
            world.history.violated(f"{request.content} is interrupted on a healthy replica")


def _refused(requests: list[Request], callers: list[PlainCaller]) -> list[str]:
    """Return the messages that got SERVICE_UNAVAILABLE, and were not repeated."""
    sent: list[tuple[str, object]] = [
        (one.content, one.attempts[0].outcome) for one in requests if one.key is None and one.attempts
    ]
    # An answer without a chat has the message of every answer.
    sent += [(one.message, one.outcome) for caller in callers for one in caller.requests]
    return [message for message, outcome in sent if outcome == ServiceErrorCode.SERVICE_UNAVAILABLE]


def _check_refused(world: World, refused: list[str], records: dict[str, DecisionRecord]) -> None:
    """For a message that was refused nothing was called."""
    for record in records.values():
        called = any(entry.kind in (EntryKind.MODEL, EntryKind.EXECUTE) for entry in record.entries)
        if called and record.header.context.message in refused:
            world.history.violated(f"{record.header.context.message} was refused, and its turn was run")


def _check_due(world: World) -> None:
    """No work waits for ever, whatever else is due: each kind has its turn, and nothing is stuck."""
    now = world.database.clock.now()
    for row in world.database.look(lambda connection: find_rows(connection, stuck=False, limit=1000)):
        if row.kind == WorkKind.DECIDE and world.faults.policy_changes:
            # Perhaps no process has the rules any more.
            continue
        if row.due_at is None or row.due_at < now - _STARVED:
            world.history.violated(f"a work of the kind {row.kind} starves")


async def _check_left_open(world: World, replicas: list[Replica]) -> None:
    """A decision without a chat is closed by the workers within a minute; if its process is dead, ten minutes later."""
    table = decision_logs.c
    without_chat = or_(table.conversation_id.startswith(CONVERSATION), table.message.startswith(_LOOK))
    waiting = select(table.decision_id).where(table.status == RecordStatus.PENDING, without_chat)
    left = world.database.look(lambda connection: list(connection.execute(waiting).scalars()))
    for decision_id in left:
        if world.watch.opened_by[decision_id].alive:
            world.history.violated(f"{world.watch.name(decision_id)} is left open by a process that lives")
    if left:
        # Hosts whose clocks were ahead have opened some of them later than now.
        world.database.clock.ahead_seconds += timedelta(days=1).total_seconds()
        serving = world.random.choice(replicas)
        await serving.serve_due()


def _check_plain(history: History, callers: list[PlainCaller], records: dict[str, DecisionRecord]) -> None:
    """The result of a decision without a chat is its record."""
    for caller in callers:
        for request in caller.requests:
            if isinstance(request.outcome, FinishedTurn):
                record = request.outcome.record
                if records.get(record.header.decision_id) != record:
                    history.violated(f"{request.message} has a result that is not stored")


def _check_confirmed(world: World, stored: _Stored, records: dict[str, DecisionRecord]) -> None:
    """A yes of a chat is used up only with its call, unless the question has expired or the user has stopped the turn."""
    if world.faults.approvals and world.faults.policy_changes:
        # A process with other rules than those of the question does not follow the yes.
        return
    followed = {turn.id for turn in stored.turns if not turn.stopped}
    sent = {call.operation_key for call in world.tools.sent}
    for decision_id, record in records.items():
        pending = record.header.context.pending_confirmation
        kinds = {entry.kind for entry in record.entries}
        crashed = any(
            entry.result["reason"] == InterruptReason.CRASH for entry in record.entries if entry.kind is EntryKind.INTERRUPT
        )
        if pending is None or not crashed or decision_id not in followed:
            continue
        confirmed = record.decision.decision_type is DecisionType.EXECUTE_PENDING and EntryKind.EXECUTE not in kinds
        # An attempt of the turn may have sent the call and died, and the next one could not record that before it ended.
        was_made = pending.id in sent or any(call.success for call in record.invocations)
        # The conditions are asked again after the yes, with the object as it is then.
        was_made = was_made or any(call.disposition is CallDisposition.REFUSED for call in record.invocations)
        # By the clock of the process that has ended the turn.
        if confirmed and record.ended_at < pending.expires_at and not was_made:
            world.history.violated(f"{world.watch.name(decision_id)} has used up a yes without its call")


def _check_cards(world: World, records: dict[str, DecisionRecord]) -> None:
    """A call of a card runs only if the one before it was done."""
    for decision_id, record in records.items():
        pending = record.header.context.pending_confirmation
        if pending is None or not (record.decision.decision_type is DecisionType.EXECUTE_PENDING or record.decision.confirmed):
            continue
        made = record.invocations[: len(pending.each)]
        for call, following in itertools.pairwise(made):
            if following.disposition is CallDisposition.EXECUTED and not call.success:
                world.history.violated(f"{world.watch.name(decision_id)} has run a card past a call that was not done")


def _check_shown(world: World, records: dict[str, DecisionRecord]) -> None:
    """A confirmed call runs only on an object that was read after the yes as the question had shown it, and may be acted on."""
    looked_up = {*(CONFIRMED if world.faults.budgets else ()), *(LOOKED_UP if world.faults.approvals else ())}
    for decision_id, record in records.items():
        pending, states = record.header.context.pending_confirmation, {}
        if (closed := record.header.context.approval) is not None:
            pending = closed.request.action
        if pending is None or not (record.decision.decision_type is DecisionType.EXECUTE_PENDING or record.decision.confirmed):
            continue
        for entry in record.entries:
            if entry.kind is EntryKind.READ:
                states[entry.result["arguments"]["token"]] = entry.result["values"].get("object", {}).get("state")
        for shown, call in zip(pending.each, record.invocations, strict=False):
            if call.disposition is not CallDisposition.EXECUTED or call.tool_name not in looked_up:
                continue
            state = states.get(call.parameters["token"])
            was_shown = f"\n  {_STATE_SHOWN}: '{state}'" in shown.description
            if state in (None, FROZEN) or not was_shown:
                world.history.violated(f"{world.watch.name(decision_id)} acts on an object that was not shown as it is")


def _check_budgets(world: World) -> None:
    """No user has done more than the policy permits in a day."""
    if not world.faults.budgets:
        return
    used: Counter[tuple[str, str]] = Counter()
    for call in world.tools.effects:
        used[call.user_id, call.tool_name] += call.amount if call.tool_name == PAYS else 1
    for (user_id, tool_name), total in used.items():
        limit = MAX_AMOUNT if tool_name == PAYS else LIMITS.get(tool_name, total)
        if total > limit:
            world.history.violated(f"{user_id} has used {total} of {limit} of {tool_name}")


def _check_undone(world: World) -> None:
    """A change is undone at most once, and only by the user who made it."""
    made = {call.token: call.user_id for call in world.tools.effects if call.tool_name == UNDONE}
    undone = [call for call in world.tools.effects if call.tool_name == UNDOES]
    for token, count in Counter(call.token for call in undone).items():
        if count > 1:
            world.history.violated(f"{UNDONE} {token} is undone {count} times")
    for call in undone:
        if made.get(call.token) != call.user_id:
            world.history.violated(f"{UNDONE} {call.token} of {made.get(call.token)} is undone by {call.user_id}")


def _check_read_first(world: World, records: dict[str, DecisionRecord]) -> None:
    """What may be published only after a read was published after one that had succeeded, in the same conversation."""
    if not world.faults.budgets:
        return
    readers = defaultdict(set)
    for decision_id, record in records.items():
        if any(call.tool_name == READ_FIRST and _succeeded(call) for call in record.invocations):
            readers[record.header.context.conversation_id].add(decision_id)
    for decision_id, record in records.items():
        elsewhere = readers[record.header.context.conversation_id] - {decision_id}
        for number, call in enumerate(record.invocations):
            if call.tool_name != PUBLISHES or call.disposition is not CallDisposition.EXECUTED or elsewhere:
                continue
            if not any(one.tool_name == READ_FIRST and _succeeded(one) for one in record.invocations[:number]):
                name = world.watch.name(decision_id)
                world.history.violated(f"{name} publishes although nothing was read with success before")


def _succeeded(call: ToolInvocation) -> bool:
    return call.success and call.disposition in (CallDisposition.EXECUTED, CallDisposition.REPEATED)


async def _check_answers(world: World, replicas: list[Replica], requests: list[Request], stored: _Stored) -> None:
    """Every answer of a request is the same, is stored, and is given again."""
    history = world.history
    answers = {turn.id: turn.answer for turn in stored.turns}
    for request in requests:
        received = [answer.to_json() for answer in request.received]
        if any(answer != received[0] for answer in received):
            history.violated(f"{request.content} has different answers")
        if received and answers.get(received[0]["decision_id"]) != received[0]:
            history.violated(f"{request.content} has an answer that is not stored")
        turn = next((turn for turn in stored.turns if turn.user_id == request.user_id and turn.idem_key == request.key), None)
        if request.key is not None and turn is not None and turn.state is TurnState.DONE:
            again = await ask_again(world, world.random.choice(replicas), request)
            if isinstance(again, str) or again.to_json() != turn.answer:
                history.violated(f"{request.content} is answered differently when it is repeated")
