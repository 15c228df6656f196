"""The undo of a chat's decisions: its question, its one execution, and processes that stop at any commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError, ServiceErrorCode, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.tamper.verify import verify_log
from graph_agent.replays.replayer import Replayer
from graph_agent.testing import OrderDesk, says
from graph_agent.turn.sent_calls import SentCalls
from tests.chat.environment import Environment
from tests.chat.stopped import Stopped
from tests.chat.test_approvals import own, request_of, respond, rules
from tests.chat.test_recovered_yes import yes_to
from tests.desk import UNDOABLE, move, note, street
from tests.scripted_turns import calls, done, failed
from tests.settling import settle_all

_COMMITS = 12
"""An upper bound of the commits of the answer to the question."""


def chat_of(environment: Environment, desk: OrderDesk, *script: Any, **engine: Any) -> ChatService:
    return environment.chat(ScriptedAdapter(list(script)), tools=desk, constitution=UNDOABLE, **engine)


async def changed(environment: Environment, desk: OrderDesk, *made: Any, user: str = "ann") -> ChatAnswer:
    """Let the model make these calls in a conversation of its own."""
    return await chat_of(environment, desk, calls(*made or [move("W1", "Birch 9")]), says("Done.")).send(user, "please")


async def is_intact(environment: Environment) -> bool:
    """Verify the log, and replay each decision."""
    report = await verify_log(environment.database, keys=log_keys(environment.settings), key=environment.record_key)
    replayer = Replayer()
    records, audit = await environment.records(), environment.engine().audit
    texts = [await audit.texts(list(record.header.digests.values())) for record in records]
    reports = [await replayer.replay(*one) for one in zip(records, texts, strict=True)]
    assert not report.violations, report.violations
    assert all(one.identical for one in reports), [(one.departure, one.differences) for one in reports]
    return bool(reports)


async def test_an_undo_is_asked_about_in_the_conversation_of_its_change_and_done_once(each_environment: Environment) -> None:
    environment, desk = each_environment, OrderDesk()
    made = await changed(environment, desk)
    chat = chat_of(environment, desk)
    asked = await chat.undo("ann", made.decision_id)
    assert asked.conversation_id == made.conversation_id
    assert (
        asked.reply
        == "Undo: Set address\n  Address: 'Birch 9' → 'Elm 1'\n  Order: 'W1'\nShould I go ahead? Please answer yes or no."
    )
    undone = await chat.send("ann", answers=yes_to(asked))
    assert street(desk) == "Elm 1"
    with pytest.raises(ServiceError, match=f"decision {undone.decision_id} has undone it already") as refused:
        await chat.undo("ann", made.decision_id)
    assert refused.value.code is ServiceErrorCode.NOT_UNDOABLE
    with pytest.raises(ServiceError, match="There is no such decision"):
        await chat.undo("bob", made.decision_id)
    assert [one.content for one in (await chat.conversation("ann", made.conversation_id)).messages[2:]] == [
        f"undo decision {made.decision_id}",
        asked.reply,
        "Yes.",
        undone.reply,
    ]
    assert await environment.engine().audit.undone_by(made.decision_id) == {1: undone.decision_id}
    assert await is_intact(environment)


async def test_the_same_request_gets_the_same_question_also_after_the_undo(environment: Environment) -> None:
    desk = OrderDesk()
    made = await changed(environment, desk)
    chat = chat_of(environment, desk)
    asked = await chat.undo("ann", made.decision_id, idem_key="k")
    assert await chat.undo("ann", made.decision_id, idem_key="k") == asked
    await chat.send("ann", answers=yes_to(asked))
    assert await chat.undo("ann", made.decision_id, idem_key="k") == asked
    assert desk.changes == ["set_address W1 Birch 9", "set_address W1 Elm 1"]


async def test_two_tabs_and_two_servers_undo_a_change_once(each_environment: Environment) -> None:
    """The question of the second tab replaces that of the first; two decisions outside of a chat race for the change."""
    environment, desk = each_environment, OrderDesk()
    for number in range(6):
        desk.notes.clear()
        made = await changed(environment, desk, note(f"note {number}"))
        engines = [environment.engine(tools=desk, constitution=UNDOABLE) for _ in range(2)]
        chats = [chat_of(environment, desk) for _ in range(2)]
        asked = [await chat.undo("ann", made.decision_id) for chat in chats]
        direct = [await engine.undo(made.decision_id, "ann") for engine in engines]
        await asyncio.gather(
            *(chat.send("ann", answers=yes_to(one)) for chat, one in zip(chats, asked, strict=True)),
            *(engine.answer(one, yes=True) for engine, one in zip(engines, direct, strict=True)),
            return_exceptions=True,
        )
        assert desk.changes[-2:] == [f"add_note note {number}", "delete_note n1"]
    assert await is_intact(environment)


async def test_an_undo_that_a_rule_lets_wait_is_done_once_it_is_approved_and_claims_the_change_only_then(
    each_environment: Environment,
) -> None:
    environment, desk, needed = each_environment, OrderDesk(), rules("delete_note", name="deletions need a manager")
    made = await changed(environment, desk, note("call back"))
    chat = chat_of(environment, desk, conditions=needed)
    asked = await chat.undo("ann", made.decision_id)
    waiting = await chat.send("ann", answers=yes_to(asked))
    request = request_of(waiting)
    assert request.action.undoes is not None
    assert request.action.undoes.decision_id == made.decision_id
    assert request.action.expires_at == request.action.undoes.until
    assert desk.notes == {"n1": "call back"}
    await respond(chat, request)
    assert desk.notes == {}
    (closed,) = await own(chat, "ann")
    assert closed.state == "approved"
    with pytest.raises(ServiceError, match="has undone it already"):
        await chat.undo("ann", made.decision_id)
    assert await is_intact(environment)


async def test_a_rule_that_forbids_the_undoing_call_refuses_the_undo(environment: Environment) -> None:
    desk = OrderDesk()
    made = await changed(environment, desk, note("call back"))
    refusing = rules("delete_note", approved="false", name="notes are kept")
    refused = await chat_of(environment, desk, conditions=refusing).undo("ann", made.decision_id)
    assert refused.decision.pending_action is None
    assert refused.decision.notices == ["Not done: undo: Add note (note 'n1'). Notes are kept."]
    assert desk.notes == {"n1": "call back"}


async def test_what_an_undo_restores_is_no_word_of_the_user_for_a_rule_about_sources(environment: Environment) -> None:
    """The rule refuses the undo before the question, and not after the yes."""
    desk = OrderDesk()
    made = await changed(environment, desk)
    own = ConditionsFile(
        "permit (principal, action, resource);"
        '@id("own words") forbid (principal, action == Action::"set_address", resource)'
        ' unless { context.source.address.containsAny(["user"]) };'
    )
    refused = await chat_of(environment, desk, conditions=own).undo("ann", made.decision_id)
    assert refused.decision.notices == ["Not done: undo: Set address (address 'Birch 9' → 'Elm 1', order 'W1'). Own words."]
    assert street(desk) == "Birch 9"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_undo_is_sent_once_wherever_its_process_stops(
    each_environment: Environment, clock: ManualClock, after: bool
) -> None:
    """What may have been sent is reported as unknown and keeps its claim; what certainly was not is done, or can be."""
    environment = each_environment
    for n in range(1, _COMMITS):
        user, desk = f"user{n}", OrderDesk()
        made = await changed(environment, desk, user=user)
        asked = await chat_of(environment, desk).undo(user, made.decision_id)
        left = Stopped(environment, n, after=after, model=ScriptedAdapter([]), tools=desk, constitution=UNDOABLE)
        if not await left.send(user, answers=yes_to(asked)):
            await left.wake_up()
            break
        clock.advance(seconds=36)
        chat = chat_of(environment, desk)
        await chat.serve_due()
        await left.wake_up()
        again = await undone_again(chat, user, made.decision_id)
        assert desk.changes.count("set_address W1 Elm 1") <= 1, f"commit {n}"
        if street(desk) != "Elm 1":
            # It is not known whether it was sent, or the object is as the change has left it and can be undone.
            assert again is None, f"commit {n}"
    assert 3 < n < _COMMITS
    assert {state for state, _ in await environment.turns()} == {"done"}
    assert await is_intact(environment)


async def undone_again(chat: ChatService, user: str, decision_id: str) -> ChatAnswer | None:
    """Undo a change once more; None if that is refused."""
    if not (await chat.undoable(user, decision_id))[1].undone:
        return None
    asked = await chat.undo(user, decision_id)
    return await chat.send(user, answers=yes_to(asked)) if asked.decision.pending_action else None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_process_that_stops_in_a_change_leaves_nothing_that_is_undone_wrongly(
    environment: Environment, clock: ManualClock, after: bool
) -> None:
    """The object is changed by others before the turn continues: what is read only then is not what the change has left."""
    for n in range(1, _COMMITS):
        user, desk = f"user{n}", OrderDesk()
        script = ScriptedAdapter([calls(("set_address", {"order_id": "W1", "address": "Birch 9"})), says("Done.")])
        left = Stopped(environment, n, after=after, model=script, tools=desk, constitution=UNDOABLE)
        if not await left.send(user, "please", idem_key="k"):
            await left.wake_up()
            break
        if street(desk) == "Birch 9":
            desk.orders["W1"]["address"]["street"] = "Cedar 7"
        clock.advance(seconds=36)
        chat = chat_of(environment, desk, *([says("Done.")] * 4))
        await chat.serve_due()
        await left.wake_up()
        for record in await environment.records():
            if record.header.context.user_id == user and street(desk) == "Cedar 7":
                assert await undone_again(chat, user, record.header.decision_id) is None, f"commit {n}"
        assert street(desk) in ("Elm 1", "Birch 9", "Cedar 7")
    assert 3 < n < _COMMITS


_FACTS = "\n## Facts\n- noted: find_notes(text = arguments.text)\n"
_BY = {
    "ledger": "(undone by delete_note(note_id = result.note.id) for 2 hours)",
    "key": "(operation key in key) (undone by delete_note(note_id = result.note.id) for 2 hours)",
    "read": "(done if noted $.notes[*]) (undone by delete_note(note_id = arguments.text) for 2 hours)",
}
"""The markers of a change whose outcome is learned so."""


@dataclass
class LosingDesk(OrderDesk):
    """A desk that adds a note under its text, and loses all answers about it while it is `losing`."""

    by: str = "ledger"
    losing: bool = True

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in self.declarations()]

    def declarations(self) -> list[ToolDeclaration]:
        key = {"key": {"type": "string"}} if self.by == "key" else {}
        text = {"type": "object", "properties": {"text": {"type": "string"}, **key}, "required": ["text", *key]}
        found = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        find = ToolDeclaration(name="find_notes", description="Find notes", parameters=found)
        deletes = next(tool for tool in super().declarations() if tool.name == "delete_note")
        return [ToolDeclaration(name="add_note", description="Add a note", parameters=text), find, deletes]

    def traits(self, tool_name: str) -> ToolTraits:
        read_only, has_ledger = tool_name == "find_notes", self.by == "ledger" and tool_name == "add_note"
        return ToolTraits(title=tool_name.replace("_", " ").capitalize(), read_only=read_only, ledger=has_ledger)

    def perform(self, tool_name: str, given: dict[str, Any]) -> ToolResult:
        match tool_name:
            case "add_note":
                self.notes[given["text"]] = given["text"]
                result = done({"note": {"id": given["text"]}})
            case "find_notes":
                result = done({"notes": [{"id": text} for text in self.notes if text == given["text"]]})
            case _:
                return super().perform(tool_name, given)
        return failed(ToolErrorCode.TIMEOUT_ERROR) if self.losing else result

    async def settle(self, call: Any, *, deadline: float | None = None) -> ToolResult:
        assert (self.by, call.tool_name, deadline is not None) == ("ledger", "add_note", True)
        return failed(ToolErrorCode.TIMEOUT_ERROR) if self.losing else done({"note": {"id": call.arguments["text"]}})


@pytest.mark.parametrize("by", _BY)
async def test_a_change_whose_outcome_was_learned_after_its_turn_is_undone(
    each_environment: Environment, clock: ManualClock, by: str
) -> None:
    environment, desk = each_environment, LosingDesk(by=by)
    lines = [f"add_note: Add a note (without confirmation) {_BY[by]}", "find_notes: Find notes (reads)"]
    deletes = "delete_note: Delete a note (requires confirmation)"
    tools = "".join(f"- {line}\n" for line in [*lines, deletes])
    engine: dict[str, Any] = {"tools": desk, "constitution": f"You keep notes.\n\n## Available Tools\n{tools}{_FACTS}"}
    script = [calls(("add_note", {"text": "call back"})), says("I do not know.")]
    chat = environment.chat(ScriptedAdapter(script), **engine)
    made = await chat.send("ann", "note it")
    _, before = await chat.undoable("ann", made.decision_id)
    problem = "Nothing can be undone: add note (text 'call back') (it is not known whether it was done)."
    assert (before.problem, before.unknown) == (problem, True)
    desk.losing = False
    sent_calls, key = SentCalls(environment.engine(**engine)), environment.record_key
    settler = OutcomeSettler(desk, environment.database, clock=clock, record_key=key, sent_calls=sent_calls)
    assert await settle_all(settler) == 1
    _, found = await chat.undoable("ann", made.decision_id)
    assert (found.problem, found.unknown, found.until) == (None, False, clock.now() + timedelta(hours=2))
    asked = await chat.undo("ann", made.decision_id)
    assert "Note: 'call back'" in asked.reply
    await chat.send("ann", answers=yes_to(asked))
    assert desk.notes == {}
    with pytest.raises(ServiceError, match="has undone it already"):
        await chat.undo("ann", made.decision_id)
    assert await is_intact(environment)


async def test_a_change_that_was_asked_for_instead_of_answering_the_question_of_an_undo_can_be_undone(
    environment: Environment,
) -> None:
    environment.use_clock(ManualClock())
    clock, desk = environment.clock, OrderDesk()
    assert isinstance(clock, ManualClock)
    made = await changed(environment, desk)
    chat = chat_of(environment, desk, calls(("set_address", {"order_id": "W2", "address": "Cedar 7"})), says("Done."))
    await chat.undo("ann", made.decision_id)
    clock.advance(seconds=301)
    other = await chat.send("ann", "send W2 to Cedar 7", conversation_id=made.conversation_id)
    assert street(desk, "W2") == "Cedar 7"
    await chat.send("ann", answers=yes_to(await chat.undo("ann", other.decision_id)))
    assert (street(desk), street(desk, "W2")) == ("Birch 9", "Oak 2")
    assert await is_intact(environment)


async def test_each_question_has_its_own_state_also_beside_the_undo_that_was_confirmed(environment: Environment) -> None:
    environment.use_clock(ManualClock())
    clock, desk = environment.clock, OrderDesk()
    assert isinstance(clock, ManualClock)
    made = await changed(environment, desk)
    chat = chat_of(environment, desk, calls(("delete_note", {"note_id": "n1"})), says("Hm."), says("Hm."))

    async def states() -> list[str | None]:
        messages = (await chat.conversation("ann", made.conversation_id)).messages
        return [one.card.state for one in messages if one.card is not None]

    await chat.send("ann", "delete the note", conversation_id=made.conversation_id)
    assert await states() == ["waiting"]
    undo = await chat.undo("ann", made.decision_id)
    assert await states() == ["set_aside", "waiting"]
    await chat.send("ann", answers=yes_to(undo))
    assert (await states(), desk.notes) == (["set_aside", "done"], {})


async def test_a_question_is_declined_or_expires(environment: Environment) -> None:
    environment.use_clock(ManualClock())
    clock, desk = environment.clock, OrderDesk()
    assert isinstance(clock, ManualClock)
    delete = calls(("delete_note", {"note_id": "n1"}))
    chat = chat_of(environment, desk, delete, delete, says("Hm."))
    first = await chat.send("ann", "delete the note")

    async def states() -> list[str | None]:
        messages = (await chat.conversation("ann", first.conversation_id)).messages
        return [one.card.state for one in messages if one.card is not None]

    await chat.send("ann", "no", conversation_id=first.conversation_id)
    assert await states() == ["declined"]
    await chat.send("ann", "delete the note", conversation_id=first.conversation_id)
    clock.advance(seconds=301)
    assert await states() == ["declined", "expired"]
    await chat.send("ann", "what else?", conversation_id=first.conversation_id)
    assert await states() == ["declined", "expired"]
