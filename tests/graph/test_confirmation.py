"""Answers to a confirmation question, through the compiled graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import (
    AfterYes,
    AgentDecision,
    AnswerState,
    ConfirmationAnswer,
    DecisionType,
    OutcomeCategory,
    PendingAction,
)
from graph_agent.models.record import EntryKind
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.record.audit_writer import MemoryAuditWriter, MemoryConfirmations
from graph_agent.replays.replayer import replay
from graph_agent.reply.fixed import ONE_AT_A_TIME, void_answer_reply
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, engine_of, failed, grouped

DELETE = ("delete_task", {"task_id": "t1"})
QUESTION = "Delete task 'buy bread'. Should I go ahead? Please answer yes or no."


def bread_server(name: str = "buy bread") -> TableServer:
    return TableServer({}, {"delete_task": done({"description": name})})


async def question_of(engine: LLMAgentEngine) -> PendingAction:
    asked = await engine.process_message(asks("delete the bread"))
    assert asked.response_text == QUESTION
    assert asked.pending_action is not None
    return asked.pending_action


async def reply(engine: LLMAgentEngine, text: str, pending: PendingAction | None, **more: Any) -> AgentDecision:
    return await engine.process_message(asks(text, pending_confirmation=pending, **more))


async def test_an_unclear_answer_repeats_the_question_twice_with_the_same_id_and_expiry() -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), says("All right."), server=server)
    first = await question_of(engine)
    pending: PendingAction | None = first
    for text in ("ye", "do it I guess"):
        again = await reply(engine, text, pending)
        pending = again.pending_action
        assert (again.decision_type, again.response_text) == (DecisionType.REQUEST_CONFIRMATION, QUESTION)
        assert pending is not None
        assert (pending.id, pending.expires_at) == (first.id, first.expires_at)
    third = await reply(engine, "hmm", pending)
    assert third.decision_type is DecisionType.RESPOND_ONLY
    assert third.notices == ["Not done: delete task 'buy bread'."]
    assert server.sent == []


async def test_the_count_of_questions_is_signed() -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), says("Nothing is waiting."), server=server)
    again = (await reply(engine, "ye", await question_of(engine))).pending_action
    assert again is not None
    forged = await reply(engine, "yes", again.replace(asked=1))
    assert forged.decision_type is DecisionType.RESPOND_ONLY
    assert server.sent == []


async def test_a_new_request_drops_the_action_and_a_notice_says_so() -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), says("You have one task."), says("Nothing is waiting."), server=server)
    pending = await question_of(engine)
    other = await reply(engine, "show my tasks", pending)
    assert other.response_text == "You have one task."
    assert other.notices == ["Not done: delete task 'buy bread'."]
    await reply(engine, "yes", pending)
    assert server.sent == []


async def test_an_expired_question_is_named_in_a_notice() -> None:
    clock, server = ManualClock(), bread_server()
    engine = engine_of(calls(DELETE), says("Nothing is waiting."), server=server, clock=clock)
    pending = await question_of(engine)
    clock.advance(minutes=6)
    late = await reply(engine, "yes", pending)
    assert late.notices == ["Not done: delete task 'buy bread' (the question has expired)."]
    assert server.sent == []


async def test_an_object_that_changed_since_the_question_is_asked_about_anew() -> None:
    server = bread_server("rent")
    engine = engine_of(calls(DELETE), server=server)
    pending = (await engine.process_message(asks("delete the rent"))).pending_action
    server.previews["delete_task"] = done({"description": "buy milk"})
    anew = await reply(engine, "yes", pending)
    assert server.sent == []
    assert anew.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert anew.response_text == (
        "It has changed since I asked, so nothing was done. What it acts on was 'rent', and is now 'buy milk'. "
        "Delete task 'buy milk'. Should I go ahead? Please answer yes or no."
    )
    assert pending is not None
    assert anew.pending_action is not None
    assert anew.pending_action.id != pending.id
    confirmed = await reply(engine, "yes", anew.pending_action)
    assert confirmed.decision_type is DecisionType.EXECUTE_PENDING
    assert len(server.sent) == 1


async def test_a_change_behind_what_the_question_shows_is_noticed() -> None:
    server = bread_server("x" * 5000 + " and milk")
    engine = engine_of(calls(DELETE), server=server)
    pending = (await engine.process_message(asks("delete it"))).pending_action
    server.previews["delete_task"] = done({"description": "x" * 5000 + " and rent"})
    assert pending is not None
    anew = await reply(engine, "yes", pending, answers=read(pending))
    assert anew.pending_action is not None
    assert anew.pending_action.description == pending.description
    assert anew.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert server.sent == []


async def test_the_digest_of_what_was_shortened_is_signed() -> None:
    server = bread_server("x" * 5000)
    engine = engine_of(calls(DELETE), says("Nothing is waiting."), server=server)
    pending = (await engine.process_message(asks("delete it"))).pending_action
    assert pending is not None
    assert len(pending.whole_digest) == 64
    for forged in (pending.replace(whole_digest=""), pending.replace(whole_digest="0" * 64)):
        assert (await reply(engine, "yes", forged)).decision_type is DecisionType.RESPOND_ONLY
        engine = engine_of(says("Nothing is waiting."), says("Nothing is waiting."), server=server)
    assert server.sent == []


async def test_the_whole_text_of_what_was_shortened_is_signed_and_asked_about_again() -> None:
    text = "call the dentist " * 300
    engine = engine_of(calls(DELETE), says("Nothing is waiting."), server=bread_server(text))
    pending = (await engine.process_message(asks("delete it"))).pending_action
    assert pending is not None
    assert pending.object_text == text
    assert "object_text" not in (await question_of(engine_of(calls(DELETE), server=bread_server()))).to_json()
    again = (await reply(engine, "ye", pending)).pending_action
    assert again is not None
    assert again.object_text == text
    forged = await reply(engine, "yes", pending.replace(object_text="something else"))
    assert forged.decision_type is DecisionType.RESPOND_ONLY


async def test_an_action_that_is_not_shown_in_full_is_confirmed_only_by_id_and_after_it_was_read() -> None:
    server = bread_server("x" * 5000)
    engine = engine_of(calls(DELETE), server=server)
    pending = (await engine.process_message(asks("delete it"))).pending_action
    assert pending is not None
    unread = ConfirmationAnswer(pending_action=pending.id, yes=True)
    for answers in (None, unread):
        again = await reply(engine, "yes", pending, answers=answers)
        assert again.decision_type is DecisionType.REQUEST_CONFIRMATION
        assert again.reply.endswith(
            "This is too long to show here, so a typed yes does not confirm it. "
            "Read all of it on the page or in a terminal, and confirm it there."
        )
    assert server.sent == []
    confirmed = await reply(engine, "yes", pending, answers=read(pending))
    assert confirmed.decision_type is DecisionType.EXECUTE_PENDING


def read(pending: PendingAction) -> ConfirmationAnswer:
    """Return the yes of a client that has shown the whole action."""
    return ConfirmationAnswer(pending_action=pending.id, yes=True, read=pending.whole_digest)


async def test_the_user_is_not_asked_about_a_bare_id() -> None:
    server = TableServer({}, {"delete_task": failed(ToolErrorCode.TIMEOUT_ERROR)})
    decision = await engine_of(calls(DELETE), says("I could not look it up."), server=server).process_message(asks("delete it"))
    assert (decision.decision_type, decision.pending_action) == (DecisionType.INVOKE_TOOL, None)
    assert decision.outcome_category is OutcomeCategory.TOOL_INVOCATION
    assert server.sent == []


@pytest.mark.parametrize(
    ("preview", "said"),
    [
        (ToolErrorCode.NOT_FOUND, "I couldn't find that any more, so nothing was changed."),
        (ToolErrorCode.TIMEOUT_ERROR, "That didn't work, so nothing was changed. Please try again."),
    ],
)
async def test_an_object_that_cannot_be_looked_up_is_left_alone(preview: ToolErrorCode, said: str) -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), server=server, config=AgentEngineConfig(after_yes=AfterYes.END))
    pending = await question_of(engine)
    server.previews["delete_task"] = failed(preview)
    decision = await reply(engine, "yes", pending)
    assert server.sent == []
    assert (decision.decision_type, decision.response_text) == (DecisionType.EXECUTE_PENDING, said)
    assert decision.outcome_category is OutcomeCategory.TOOL_INVOCATION


@pytest.mark.parametrize(("yes", "decided"), [(True, DecisionType.EXECUTE_PENDING), (False, DecisionType.CANCEL_PENDING)])
async def test_an_answer_by_id_counts_whatever_the_message_says(yes: bool, decided: DecisionType) -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), server=server)
    pending = await question_of(engine)
    answers = ConfirmationAnswer(pending_action=pending.id, yes=yes)
    decision = await reply(engine, "no" if yes else "yes", pending, answers=answers)
    assert decision.decision_type is decided
    assert len(server.sent) == yes


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (AnswerState.SUPERSEDED, "That question has been replaced by a later one, so nothing was done."),
        (AnswerState.WITHDRAWN, "You have withdrawn that question, so nothing was done."),
        (AnswerState.EXPIRED, "That question has expired, so nothing was done. Please ask me again."),
        (AnswerState.USED, "That question has already been answered, so nothing was done now."),
        (AnswerState.UNKNOWN, "I have no such question waiting for you here, so nothing was done."),
    ],
)
async def test_an_answer_to_a_void_question_does_nothing_and_says_why(state: AnswerState, said: str) -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), server=server)
    pending = await question_of(engine)
    answers = ConfirmationAnswer(pending_action="an older one", yes=True, state=state)
    decision = await reply(engine, "yes", pending, answers=answers)
    assert (decision.decision_type, decision.response_text) == (DecisionType.RESPOND_ONLY, said)
    assert decision.outcome_category is OutcomeCategory.USER_INPUT
    assert server.sent == []
    # The question that is waiting was not touched.
    assert (await reply(engine, "yes", pending)).decision_type is DecisionType.EXECUTE_PENDING


@pytest.mark.parametrize(
    ("later", "after_yes", "notices"),
    [
        (("delete_task", {"task_id": "t" * 5_000}), AfterYes.END, [ONE_AT_A_TIME]),
        (("delete_task", {"task_id": "t" * 5_000}), AfterYes.EXPLAIN, []),
        (("list_tasks", {}), AfterYes.END, []),
        (DELETE, AfterYes.END, []),
    ],
)
async def test_a_change_that_is_left_out_of_a_question_is_named_in_a_notice_unless_the_model_goes_on(
    later: tuple[str, dict[str, Any]], after_yes: AfterYes, notices: list[str]
) -> None:
    server = bread_server()
    server.previews = {}
    engine = engine_of(calls(DELETE, later), server=server, config=AgentEngineConfig(after_yes=after_yes))
    asked = await engine.process_message(asks("delete the bread and more"))
    assert asked.response_text == "Delete task 't1'. Should I go ahead? Please answer yes or no."
    assert asked.notices == notices
    assert server.sent == []


RENAME = ("update_task", {"task_id": "t1", "description": "spam"})


def renaming_server(**answers: Any) -> TableServer:
    """A server whose preview of t1 shows what the rename has made of it."""
    server = TableServer(answers, {"delete_task": done({"description": "rent"})})

    def rename(arguments: dict[str, Any]) -> ToolResult:
        server.previews["delete_task"] = done({"description": arguments["description"]})
        return done({"preview": "rent"})

    server.answers.setdefault("update_task", rename)
    return server


@pytest.mark.parametrize("in_one_batch", [True, False])
async def test_a_question_about_what_the_message_has_changed_shows_it_as_it_is_now_and_says_so(in_one_batch: bool) -> None:
    server = renaming_server()
    script = [calls(RENAME, DELETE)] if in_one_batch else [calls(RENAME), calls(DELETE)]
    engine = engine_of(*script, server=server)
    asked = await engine.process_message(asks("tidy up"))
    said = "Already done: Rename task 'rent' to 'spam'."
    question = f"{said} Delete task 'spam'. Should I go ahead? Please answer yes or no."
    assert asked.response_text == question
    pending = asked.pending_action
    assert pending is not None
    assert (pending.description, pending.changed_before) == ("Delete task 'spam'", said)
    # It belongs to the question as long as that waits, and it is signed.
    forged = await reply(engine_of(says("Nothing is waiting."), server=server), "yes", pending.replace(changed_before=""))
    assert forged.decision_type is DecisionType.RESPOND_ONLY
    again = await reply(engine, "ye", pending)
    assert again.response_text == question
    server.previews["delete_task"] = done({"description": "buy milk"})
    anew = await reply(engine, "yes", again.pending_action)
    assert anew.response_text is not None
    since = "It has changed since I asked, so nothing was done. What it acts on was 'spam', and is now 'buy milk'."
    assert anew.response_text.startswith(f"{since} {said} Delete task 'buy milk'.")
    assert [name for name, *_ in server.sent] == ["update_task"]
    confirmed = await reply(engine, "yes", anew.pending_action)
    assert confirmed.decision_type is DecisionType.EXECUTE_PENDING
    assert [name for name, *_ in server.sent] == ["update_task", "delete_task"]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (failed(ToolErrorCode.NOT_FOUND), ""),
        (
            failed(ToolErrorCode.TIMEOUT_ERROR),
            "Not certain: not known whether this was done: Rename task 't1' to 'spam'. ",
        ),
    ],
)
async def test_a_change_that_may_have_been_made_is_said_and_one_that_failed_is_not(outcome: ToolResult, said: str) -> None:
    server = TableServer({"update_task": outcome}, {"delete_task": done({"description": "rent"})}, ledger=False)
    asked = await engine_of(calls(RENAME, DELETE), server=server).process_message(asks("tidy up"))
    assert asked.response_text == f"{said}Delete task 'rent'. Should I go ahead? Please answer yes or no."


async def test_a_change_of_another_object_is_not_said() -> None:
    other = ("update_task", {"task_id": "t2", "description": "spam"})
    asked = await engine_of(calls(other, DELETE), server=bread_server()).process_message(asks("tidy up"))
    assert (asked.response_text, asked.effects) == (QUESTION, ["Rename task 't2' to 'spam'"])


async def test_what_is_too_long_to_be_said_before_a_question_refuses_the_call() -> None:
    server, notes = renaming_server(), {f"note_{n}": "x" * 80 for n in range(50)}
    listed = {tool.name: tool for tool in TASK_TOOLS}
    given = listed["update_task"].parameters
    properties = {**given["properties"], **{name: {"type": "string"} for name in notes}}
    listed["update_task"] = listed["update_task"].replace(parameters={**given, "properties": properties})
    server.served = tuple(listed.values())
    script = [calls((RENAME[0], {**RENAME[1], **notes}), DELETE), says("I cannot delete it now.")]
    decision = await engine_of(*script, server=server).process_message(asks("tidy up"))
    assert decision.pending_action is None
    assert decision.notices[-1].endswith(
        "What this message has changed is too long to be shown before a question: ask for it in a new message."
    )
    assert "delete_task" not in [name for name, *_ in server.sent]


async def test_the_calls_after_one_that_was_not_found_are_made() -> None:
    server = TableServer({}, {"delete_task": failed(ToolErrorCode.NOT_FOUND, "the server's own words")})
    engine = engine_of(calls(DELETE, ("add_task", {"description": "call mom"})), says("Added."), server=server)
    turn = await engine.run(asks("delete the bread and add mom"))
    assert [str(one.disposition) for one in turn.record.invocations] == ["refused", "executed"]
    # The text is that of the runtime: by a refused call the model reads nothing of the server.
    assert turn.record.invocations[0].error_message == "what the call would act on does not exist"


async def test_a_yes_counts_only_under_the_rules_of_its_question_and_is_not_used_up_elsewhere() -> None:
    server = bread_server()
    shared: dict[str, Any] = {"confirmations": MemoryConfirmations(), "audit": MemoryAuditWriter()}
    asking = engine_of(calls(DELETE), server=server, **shared)
    pending = await question_of(asking)
    yes = ConfirmationAnswer(pending_action=pending.id, yes=True)
    by_id = asks("ok", pending_confirmation=pending, answers=yes)
    retitled = [tool.replace(description="Deletes.") if tool.name == "delete_task" else tool for tool in TASK_TOOLS]
    permits = ConditionsFile("permit (principal, action, resource);")
    for differing, other in (
        (["constitution"], other_engine(server, Constitution.load().text + "\nBe brief.\n", **shared)),
        (["conditions"], other_engine(server, conditions=permits, **shared)),
        (["delete_task"], other_engine(replace(server, served=tuple(retitled)), **shared)),
        (["delete_task"], other_engine(replace(server, previews={}), **shared)),
    ):
        for said in (by_id, asks("yes", pending_confirmation=pending), asks("ye", pending_confirmation=pending)):
            refused = await other.run(said)
            assert refused.decision.reply == void_answer_reply(AnswerState.OTHER_RULES)
            assert refused.decision.void_answer is AnswerState.OTHER_RULES
            (compared,) = (entry.result for entry in refused.record.entries if entry.kind is EntryKind.RULES)
            assert compared == differing
            texts = await other.audit.texts(list(refused.record.header.digests.values()))
            assert (await replay(refused.record, texts)).identical
    assert server.sent == []
    confirmed = await asking.run(by_id)
    assert (confirmed.decision.decision_type, len(server.sent)) == (DecisionType.EXECUTE_PENDING, 1)
    texts = await asking.audit.texts(list(confirmed.record.header.digests.values()))
    # Other conditions judge the recorded yes: they do not ask whether the question was asked under them.
    what_if = await replay(confirmed.record, texts, conditions=permits)
    assert (what_if.departure, what_if.differences) == (None, ())


async def test_a_change_of_another_tool_leaves_a_yes_valid() -> None:
    server = bread_server()
    shared: dict[str, Any] = {"confirmations": MemoryConfirmations()}
    pending = await question_of(engine_of(calls(DELETE), server=server, **shared))
    others = [tool if tool.name == "delete_task" else tool.replace(description="Another.") for tool in TASK_TOOLS]
    other = other_engine(replace(server, served=tuple(others)), **shared)
    assert (await reply(other, "yes", pending)).decision_type is DecisionType.EXECUTE_PENDING


@pytest.mark.parametrize("bound_to", [RulesDigests(), RulesDigests(constitution="0" * 64)])
async def test_the_rules_of_a_question_are_signed_and_a_question_without_them_confirms_nothing(bound_to: RulesDigests) -> None:
    server = bread_server()
    engine = engine_of(calls(DELETE), says("Nothing is waiting."), server=server)
    moved = (await question_of(engine)).replace(asked_under=bound_to)
    assert (await reply(engine, "yes", moved)).void_answer is None
    signed = moved.replace(signature=Signer(SECRET).sign(moved, user_id="ann", conversation_id="c1"))
    assert (await reply(engine, "yes", signed)).void_answer is AnswerState.OTHER_RULES
    assert server.sent == []


def other_engine(server: TableServer, constitution: str = "", **settings: Any) -> LLMAgentEngine:
    """Return an engine of another process, with the same key and other rules."""
    ports = {"clock": ManualClock(), "ids": RandomIds(), "signer": Signer(SECRET), **settings}
    return LLMAgentEngine(ScriptedAdapter([]), server, constitution or Constitution.load().text, **grouped(**ports))
