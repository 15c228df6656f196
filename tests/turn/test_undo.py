"""The undo of changes: confirmed, done once, refused if the object has changed, and recorded with a link both ways."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from graph_agent.clock import ManualClock, RandomIds, SequentialIds
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode, ToolErrorCode
from graph_agent.graph import fact_reads
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionType
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import EntryKind
from graph_agent.models.tools import ReadBack, ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.record.settlements import Settlement, store_settlement
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.testing import OrderDesk
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.undo import undoable
from graph_agent.words.values import time_in_words
from tests.desk import MAIL, UNDOABLE, Call, move, note, street
from tests.replayed_turns import replayed
from tests.scripted_turns import SECRET, done, failed, grouped


class Desk:
    """An engine of the desk. Each of its decisions is replayed, and must give the same."""

    def __init__(self, constitution: str = UNDOABLE, **settings: Any) -> None:
        self.server, self.clock = OrderDesk(), ManualClock()
        given = {"clock": self.clock, "ids": SequentialIds(), "signer": Signer(SECRET), **settings}
        self.engine = LLMAgentEngine(ScriptedAdapter([]), self.server, constitution, **grouped(**given))

    async def call(self, *calls: Call, user: str = "ann") -> FinishedTurn:
        return await replayed(self.engine, await self.engine.call(user, [FunctionCall(*one) for one in calls]))

    async def undo(self, of: FinishedTurn, user: str = "ann") -> FinishedTurn:
        return await replayed(self.engine, await self.engine.undo(of.record.header.decision_id, user))

    async def answer(self, asked: FinishedTurn, *, yes: bool = True) -> FinishedTurn:
        return await replayed(self.engine, await self.engine.answer(asked, yes=yes))

    async def refused(self, of: FinishedTurn, user: str = "ann") -> str:
        """Return the code and the text with which an undo is refused."""
        with pytest.raises(ServiceError) as refused:
            await self.undo(of, user)
        return str(refused.value)

    async def what_if(self, of: FinishedTurn, constitution: str) -> ReplayReport:
        texts = await self.engine.audit.texts(list(of.record.header.digests.values()))
        return await replay(of.record, texts, constitution=constitution)


def reads(finished: FinishedTurn) -> list[Any]:
    return [entry.result for entry in finished.record.entries if entry.kind is EntryKind.READ]


def id_of(finished: FinishedTurn) -> str:
    return finished.record.header.decision_id


async def test_a_change_is_undone_after_a_yes_and_only_once() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    about = {"tool": "get_order", "arguments": {"order_id": "W1"}}
    assert reads(changed) == [
        {**about, "values": {"$.address.street": "Elm 1"}},
        {**about, "values": {"$.address.street": "Birch 9"}, "after": 1},
    ]
    asked = await desk.undo(changed)
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert asked.decision.reply == (
        "Undo: Set address\n  Address: 'Birch 9' → 'Elm 1'\n  Order: 'W1'\nShould I go ahead? Please answer yes or no."
    )
    undoes = asked.record.header.context.undoes
    assert undoes is not None
    assert (undoes.decision_id, undoes.calls[0].sequence) == (id_of(changed), 1)
    assert desk.server.changes == ["set_address W1 Birch 9"]

    undone = await desk.answer(asked)
    assert street(desk.server) == "Elm 1"
    assert undone.decision.effects == ["Undo: Set address (address 'Birch 9' → 'Elm 1', order 'W1')"]
    assert await desk.refused(changed) == (
        "NOT_UNDOABLE: Nothing can be undone: set address (address 'Birch 9', order 'W1') "
        f"(decision {id_of(undone)} has undone it already)."
    )
    assert (await desk.refused(undone)).endswith("(it was an undo itself).")
    assert desk.server.changes == ["set_address W1 Birch 9", "set_address W1 Elm 1"]


STREETS = ConditionsFile(
    """@id("base") permit (principal, action, resource);
    @id("not away from Cedar 7") forbid (principal, action == Action::"set_address", resource)
    unless { context.result has order && context.result.order.address.street != "Cedar 7" };"""
)
EXISTS = ConditionsFile(
    """@id("base") permit (principal, action, resource);
    @id("only of an order") forbid (principal, action == Action::"set_address", resource)
    unless { context.result has order };"""
)
ABOUT = {"tool": "get_order", "arguments": {"order_id": "W1"}}


def read_of(street: str, **more: Any) -> dict[str, Any]:
    """Return the one entry of a read that a condition names and that an undo restores."""
    return {**ABOUT, "values": {"order": {"address": {"street": street}}, "$.address.street": street}, **more}


async def test_what_a_condition_reads_is_what_an_undo_restores_and_is_read_once_before_the_change() -> None:
    desk = Desk(conditions=STREETS)
    changed = await desk.call(move("W1", "Birch 9"))
    assert [tool for tool, _ in desk.server.sent] == ["get_order", "set_address", "get_order"]
    assert reads(changed) == [read_of("Elm 1"), read_of("Birch 9", after=1)]
    desk.server.sent.clear()
    asked = await desk.undo(changed)
    # Its own condition and what it is compared with: one read too, and one more after the yes.
    assert reads(asked) == [read_of("Birch 9")]
    await desk.answer(asked)
    assert [tool for tool, _ in desk.server.sent] == ["get_order", "get_order", "set_address"]
    assert street(desk.server) == "Elm 1"


async def test_an_undo_is_compared_with_what_its_condition_has_read() -> None:
    desk = Desk(conditions=EXISTS)
    changed = await desk.call(move("W1", "Birch 9"))
    asked = await desk.undo(changed)
    desk.server.orders["W1"]["address"]["street"] = "Cedar 7"
    desk.server.sent.clear()
    late = await desk.answer(asked)
    assert late.decision.reply.endswith(CONFLICT)
    assert [tool for tool, _ in desk.server.sent] == ["get_order"]
    assert reads(late) == [{**ABOUT, "values": {"order": {}, "$.address.street": "Cedar 7"}}]
    # Where the question has shown what has changed, the user is asked again, and the yes overwrites nothing either.
    desk = Desk(conditions=STREETS)
    changed = await desk.call(move("W1", "Birch 9"))
    asked = await desk.undo(changed)
    desk.server.orders["W1"]["address"]["street"] = "Ash 8"
    again = await desk.answer(asked)
    assert again.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    late = await desk.answer(again)
    assert CONFLICT.replace("Cedar 7", "Ash 8") in late.decision.reply
    assert street(desk.server) == "Ash 8"


@pytest.mark.parametrize("conditions", [None, EXISTS])
async def test_what_was_read_after_a_change_is_what_the_next_one_of_the_same_object_restores(
    conditions: ConditionsFile | None,
) -> None:
    desk = Desk(conditions=conditions)
    changed = await desk.call(move("W1", "Birch 9"), move("W1", "Oak 4"))
    assert [tool for tool, _ in desk.server.sent] == ["get_order", "set_address", "get_order", "set_address", "get_order"]
    asked = await desk.undo(changed)
    undoes = asked.record.header.context.undoes
    assert undoes is not None
    assert [one.restored.before for one in undoes.calls if one.restored] == [
        {"address.street": "Birch 9"},
        {"address.street": "Elm 1"},
    ]
    await desk.answer(asked)
    assert street(desk.server) == "Elm 1"


async def test_what_was_read_before_an_earlier_change_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit of a turn, which no test could reach otherwise.
    monkeypatch.setattr(fact_reads, "MAX_READS", 1)
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"), move("W1", "Oak 4"))
    assert len(reads(changed)) == 1
    refused = await desk.refused(changed)
    assert refused.count("(it is not known how it was before)") == 2


async def test_a_decision_is_the_same_under_conditions_that_name_what_an_undo_has_read() -> None:
    desk = Desk(conditions=STREETS)
    changed = await desk.call(move("W1", "Birch 9"), move("W1", "Oak 4"))
    plain = "\n".join(line.partition(" (undone by")[0] for line in UNDOABLE.splitlines())
    report = await desk.what_if(changed, plain)
    assert (report.differences, report.departure) == ((), None)


async def test_a_value_from_the_result_undoes_a_creation() -> None:
    desk = Desk()
    changed = await desk.call(note("call back"))
    await desk.answer(await desk.undo(changed))
    assert desk.server.changes == ["add_note call back", "delete_note n1"]
    assert desk.server.notes == {}


async def test_a_no_takes_nothing() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    await desk.answer(await desk.undo(changed), yes=False)
    assert street(desk.server) == "Birch 9"
    await desk.answer(await desk.undo(changed))
    assert street(desk.server) == "Elm 1"


async def test_only_the_person_who_made_a_change_undoes_it() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    assert (await desk.refused(changed, user="bob")).startswith(ServiceErrorCode.DECISION_NOT_FOUND)


async def test_an_undo_after_its_time_is_refused_and_its_question_ends_with_it() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    desk.clock.advance(seconds=28 * 60)
    asked = await desk.undo(changed)
    pending = asked.decision.pending_action
    assert pending is not None
    assert pending.expires_at - pending.created_at == timedelta(minutes=2)
    desk.clock.advance(seconds=2 * 60)
    expired = await desk.answer(asked)
    assert expired.decision.reply == "That question has expired, so nothing was done. Please ask me again."
    assert (await desk.refused(changed)).endswith("(the time in which it could be undone ended on 5 January 2026, 09:30 UTC).")
    assert street(desk.server) == "Birch 9"


CONFLICT = "It has changed since (get order W1): address.street is now 'Cedar 7', this change had left it at 'Birch 9'."


async def test_what_others_have_changed_since_is_not_overwritten() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    asked = await desk.undo(changed)
    desk.server.orders["W1"]["address"]["street"] = "Cedar 7"
    late = await desk.answer(asked)
    assert late.decision.reply == f"Not done: undo: Set address (address 'Birch 9' → 'Elm 1', order 'W1'). {CONFLICT}"
    again = await desk.undo(changed)
    assert again.decision.decision_type is not DecisionType.REQUEST_CONFIRMATION
    assert again.decision.notices == [f"Not done: undo: Set address (address 'Birch 9' → 'Elm 1', order 'W1'). {CONFLICT}"]
    assert street(desk.server) == "Cedar 7"


UNCOMPARED = (
    "It is not known whether others have changed this since, which the undo takes away too: add note (text 'call back')."
)


async def test_the_question_says_that_an_undo_is_not_compared_with_what_the_change_has_left() -> None:
    desk = Desk()
    changed = await desk.call(note("call back"))
    desk.server.notes["n1"] = "call back, and two pages that bob has written since"
    asked = await desk.undo(changed)
    question = "Undo: Add note\n  Note: 'n1'\n  Text: 'call back'\nShould I go ahead? Please answer yes or no."
    assert asked.decision.reply == f"{UNCOMPARED} {question}"
    # One that is compared says nothing: it is refused if it differs.
    moved = await desk.undo(await desk.call(move("W1", "Birch 9")))
    assert "others" not in moved.decision.reply


@pytest.mark.parametrize(
    ("late_ms", "is_known"), [(0, True), (10_000, True), (10_001, False), (3_600_000, False), (None, False)]
)
async def test_a_read_that_was_made_late_after_the_change_does_not_say_how_it_was_left(
    late_ms: int | None, is_known: bool
) -> None:
    """As after a crash: what others have changed meanwhile would count as what the change has left."""
    desk = Desk()
    record = (await desk.call(move("W1", "Birch 9"))).record
    (change,) = record.invocations
    ended_at = change.invoked_at + timedelta(milliseconds=change.duration_ms)
    at = None if late_ms is None else ended_at + timedelta(milliseconds=late_ms)
    *_, last = [one.n for one in record.entries if one.kind is EntryKind.READ]
    entries = [one.replace(at=at) if one.n == last else one for one in record.entries]
    policy = (await desk.engine.prepare()).policy
    found = undoable(record.replace(entries=entries), policy, {}, {}, desk.clock.now())
    assert bool(found.called) is is_known
    assert is_known or "it is not known how this change has left it" in str(found.problem)


async def test_a_card_is_undone_in_reverse_order_and_what_cannot_be_is_named() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"), MAIL, note("call back"), move("W1", "Cedar 7"))
    asked = await desk.undo(changed)
    assert asked.decision.reply == (
        f"This stays as it is: send mail (text 'hello') (it cannot be undone). {UNCOMPARED} 3 actions, in this order:\n"
        "1. Undo: Set address\n  Address: 'Cedar 7' → 'Birch 9'\n  Order: 'W1'\n"
        "2. Undo: Add note\n  Note: 'n1'\n  Text: 'call back'\n"
        "3. Undo: Set address\n  Address: 'Birch 9' → 'Elm 1'\n  Order: 'W1'\n"
        "Should I go ahead with all of them? Please answer yes or no."
    )
    await desk.answer(asked)
    assert desk.server.changes[4:] == ["set_address W1 Birch 9", "delete_note n1", "set_address W1 Elm 1"]
    assert (street(desk.server), desk.server.notes) == ("Elm 1", {})


async def test_an_undo_of_several_stops_at_the_first_one_that_is_not_done_and_the_rest_can_be_undone_later() -> None:
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"), note("call back"), move("W2", "Cedar 7"))
    asked = await desk.undo(changed)
    desk.server.answers["delete_note"] = lambda _: failed(ToolErrorCode.TOOL_REFUSED, "not now")
    stopped = await desk.answer(asked)
    assert stopped.decision.reply == (
        "Done: Undo: Set address (address 'Cedar 7' → 'Oak 2', order 'W2').\n\n"
        "Not done: undo: Add note (note 'n1') (it failed).\n\nThe tool says:\n> not now\n\n"
        "Not done: undo: Set address (address 'Birch 9' → 'Elm 1', order 'W1') (the action before it was not done)."
    )
    assert (street(desk.server), street(desk.server, "W2")) == ("Birch 9", "Oak 2")
    del desk.server.answers["delete_note"]
    again = await desk.undo(changed)
    assert "This stays as it is: set address (address 'Cedar 7', order 'W2') (decision" in again.decision.reply
    await desk.answer(again)
    assert (street(desk.server), street(desk.server, "W2")) == ("Elm 1", "Oak 2")
    assert desk.server.notes == {}


async def test_two_questions_about_the_same_undo_do_it_once() -> None:
    desk = Desk()
    changed = await desk.call(note("call back"))
    first, second = await desk.undo(changed), await desk.undo(changed)
    undone = await desk.answer(first)
    late = await desk.answer(second)
    assert late.decision.reply == (f"Not done: undo: Add note (note 'n1'). Decision {id_of(undone)} has undone it already.")
    assert desk.server.changes == ["add_note call back", "delete_note n1"]


async def test_an_undo_whose_outcome_is_unknown_keeps_others_from_it_and_one_that_failed_does_not() -> None:
    desk = Desk()
    changed = await desk.call(note("call back"))
    desk.server.answers["delete_note"] = lambda _: failed(ToolErrorCode.TOOL_EXECUTION_ERROR)
    await desk.answer(await desk.undo(changed))
    desk.server.answers["delete_note"] = lambda _: failed(ToolErrorCode.TIMEOUT_ERROR)
    lost = await desk.answer(await desk.undo(changed))
    assert f"(decision {id_of(lost)} has undone it already)" in await desk.refused(changed)


async def test_a_failed_call_and_one_of_an_unknown_outcome_are_not_undone() -> None:
    desk = Desk()
    desk.server.answers["set_address"] = lambda _: failed(ToolErrorCode.TOOL_EXECUTION_ERROR)
    broken = await desk.call(move("W1", "Birch 9"))
    assert (await desk.refused(broken)).endswith("This decision has made no change that could be undone.")
    desk.server.answers["set_address"] = lambda _: failed(ToolErrorCode.TIMEOUT_ERROR)
    unknown = await desk.call(move("W1", "Birch 9"))
    assert (await desk.refused(unknown)).endswith("(it is not known whether it was done).")


async def test_a_read_that_fails_prevents_the_undo_and_not_the_change() -> None:
    for number in (0, 1):
        desk = Desk()
        read = done({"id": "W1", "address": {"street": "Elm 1"}})
        answers = [read, read]
        answers[number] = failed(ToolErrorCode.TIMEOUT_ERROR)
        desk.server.answers["get_order"] = lambda _, answers=answers: answers.pop(0)  # type: ignore[misc]
        changed = await desk.call(move("W1", "Birch 9"))
        assert street(desk.server) == "Birch 9"
        assert (await desk.refused(changed)).endswith("(it is not known how it was before).")


async def test_a_record_of_before_is_shown_and_its_changes_are_not_undone() -> None:
    """Its read for an undo was an entry of its own kind."""
    desk = Desk()
    record = (await desk.call(move("W1", "Birch 9"))).record
    (before, after) = (one for one in record.entries if one.kind is EntryKind.READ)
    old = {**ABOUT, "restores": 1, "values": {"address.street": "Elm 1"}}
    changed = {before.n: old, after.n: {**old, "is_after": True}}
    entries = [one.replace(result=changed.get(one.n, one.result)) for one in record.entries]
    record = record.replace(entries=entries)
    policy = (await desk.engine.prepare()).policy
    assert "it is not known how it was before" in str(undoable(record, policy, {}, {}, desk.clock.now()).problem)
    assert FactRead.recorded(old).in_words == 'address.street = "Elm 1"'


async def test_an_undo_replays_under_other_rules() -> None:
    """Without the marker a decision is decided in the same way, and the record of an undo says what other rules would do."""
    desk = Desk()
    changed = await desk.call(move("W1", "Birch 9"))
    asked = await desk.undo(changed)
    undone = await desk.answer(asked)
    plain = "\n".join(line.partition(" (undone by")[0] for line in UNDOABLE.splitlines())
    for finished in (changed, asked, undone):
        assert not (await desk.what_if(finished, plain)).differences
    without = "\n".join(line for line in plain.splitlines() if not line.startswith("- set_address"))
    assert (await desk.what_if(asked, without)).refused


async def test_a_read_that_the_record_does_not_have_changes_nothing_in_a_replay_under_a_constitution_with_the_marker() -> None:
    plain = "\n".join(line.partition(" (undone by")[0] for line in UNDOABLE.splitlines())
    desk = Desk(plain)
    changed = await desk.call(move("W1", "Birch 9"))
    assert reads(changed) == []
    report = await desk.what_if(changed, UNDOABLE)
    assert (report.differences, report.departure) == ((), None)


async def settled(log: Database, desk: Desk, of: FinishedTurn, result: ToolResult, *, seconds: float = 60) -> None:
    """Store the outcome of the first call as what is asked about unknown outcomes stores it, so many seconds later."""
    desk.clock.advance(seconds=seconds)
    settlement = Settlement(decision_id=id_of(of), sequence=1, result=result, settled_at=desk.clock.now())
    await log.write(lambda connection: store_settlement(connection, settlement, Sealer(None)))


def lossy(log: Database) -> Desk:
    """Return a desk that writes notes, and whose answers are lost."""
    clock = ManualClock()
    desk = Desk(clock=clock, ids=RandomIds(), audit=DatabaseAuditWriter(log, clock=clock))
    desk.clock = clock

    def lose(given: dict[str, Any]) -> ToolResult:
        desk.server.perform("add_note", given)
        return failed(ToolErrorCode.TIMEOUT_ERROR)

    desk.server.answers["add_note"] = lose
    return desk


async def test_a_call_whose_outcome_was_settled_as_done_is_undone_with_the_settled_result(log: Database) -> None:
    desk = lossy(log)
    changed = await desk.call(note("call back"))
    assert (await desk.refused(changed)).endswith("(it is not known whether it was done).")
    await settled(log, desk, changed, done({"note": {"id": "n1"}}))
    asked = await desk.undo(changed)
    assert "Note: 'n1'" in asked.decision.reply
    undone = await desk.answer(asked)
    assert (desk.server.notes, desk.server.changes) == ({}, ["add_note call back", "delete_note n1"])
    assert f"(decision {id_of(undone)} has undone it already)" in await desk.refused(changed)


async def test_a_call_whose_outcome_was_settled_as_not_done_is_no_change(log: Database) -> None:
    desk = lossy(log)
    changed = await desk.call(note("call back"), MAIL)
    await settled(log, desk, changed, failed(ToolErrorCode.TOOL_EXECUTION_ERROR))
    assert await desk.refused(changed) == (
        "NOT_UNDOABLE: Nothing can be undone: send mail (text 'hello') (it cannot be undone)."
    )


async def test_the_time_of_a_settled_call_is_counted_from_the_call(log: Database) -> None:
    desk = lossy(log)
    changed = await desk.call(note("call back"))
    until = changed.record.invocations[0].invoked_at + timedelta(hours=2)
    await settled(log, desk, changed, done({"note": {"id": "n1"}}), seconds=2 * 3600 - 60)
    assert (await desk.engine.undoable(id_of(changed), "ann"))[1].until == until
    desk.clock.advance(seconds=60)
    assert (await desk.refused(changed)).endswith(
        f"(the time in which it could be undone ended on {time_in_words(until, '')})."
    )


async def test_a_settled_result_without_the_value_that_the_undo_needs_is_named(log: Database) -> None:
    """Such as one that a read has found: it is no answer of the call."""
    desk = lossy(log)
    changed = await desk.call(note("call back"))
    read = ReadBack(tool="list_notes", arguments={}, found=[{"id": "n1"}])
    await settled(log, desk, changed, done({"found": [{"id": "n1"}]}).replace(read_back=read))
    assert (await desk.refused(changed)).endswith("(result.note.id is not known).")


async def test_a_settled_call_that_was_not_read_after_is_not_undone(log: Database) -> None:
    """The object may have been changed by others between the call and any later read."""
    desk = lossy(log)
    desk.server.answers["set_address"] = lambda _: failed(ToolErrorCode.TIMEOUT_ERROR)
    changed = await desk.call(move("W1", "Birch 9"))
    await settled(log, desk, changed, done({"ok": True}))
    assert (await desk.refused(changed)).endswith("(it is not known how it was before).")


async def test_an_undo_that_was_settled_as_not_done_can_be_asked_for_again(log: Database) -> None:
    desk = lossy(log)
    del desk.server.answers["add_note"]
    changed = await desk.call(note("call back"))
    desk.server.answers["delete_note"] = lambda _: failed(ToolErrorCode.TIMEOUT_ERROR)
    lost = await desk.answer(await desk.undo(changed))
    assert f"(decision {id_of(lost)} has undone it already)" in await desk.refused(changed)
    await settled(log, desk, lost, failed(ToolErrorCode.TOOL_EXECUTION_ERROR))
    del desk.server.answers["delete_note"]
    await desk.answer(await desk.undo(changed))
    assert desk.server.notes == {}
