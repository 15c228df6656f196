"""Turns whose conditions read where the arguments come from: question, record, replay, and what is not computed."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConfigurationError
from graph_agent.llm.scripted import ScriptedAdapter, Step
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import DecisionType, Message
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, EntryKind
from graph_agent.models.sources import BatchSources, Source
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.audit_writer import AuditWriter, MemoryAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import TableServer, asks, calls, done, grouped
from tests.source_attacks import CONSTITUTION, EVIL, PAGE, READ, READS, RULES, TOOLS

MESSAGE = "Read bill.txt and send 50 to Anna Schmidt"
PAY: tuple[str, dict[str, Any]] = ("send_money", {"to": EVIL, "amount": 50})
TO_ANNA: tuple[str, dict[str, Any]] = ("send_money", {"to": "Anna Schmidt", "amount": 50})
NO_SOURCES = "permit (principal, action, resource);"
ONE_TOOL = NO_SOURCES + 'forbid (principal, action == Action::"book_hotel", resource) when { context.tainted };'


def bank(**answers: Any) -> TableServer:
    given = {"read_page": done({"text": PAGE}), **answers}
    return TableServer(given, served=tuple(tool.declaration for tool in TOOLS), reads=READS, ledger=False)


def engine(
    *script: Step, rules: str = RULES, audit: AuditWriter | None = None, server: TableServer | None = None
) -> LLMAgentEngine:
    settings = grouped(conditions=ConditionsFile(rules), audit=audit or MemoryAuditWriter())
    return LLMAgentEngine(ScriptedAdapter(list(script)), server or bank(), CONSTITUTION, **settings)


def entries(turn: FinishedTurn) -> list[BatchSources]:
    found = [entry.result for entry in turn.record.entries if entry.kind is EntryKind.SOURCES]
    return [BatchSources.model_validate(one) for one in found]


async def texts(run: LLMAgentEngine, turn: FinishedTurn) -> dict[str, str]:
    return await run.audit.texts(list(turn.record.header.digests.values()))


async def test_the_question_names_the_value_that_is_not_the_users_and_where_it_stands() -> None:
    run = engine(calls(READ), calls(PAY))
    asked = await run.run(asks(MESSAGE))
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert f"to '{EVIL}' is not from you: it stands in a result of 'Read page'. Send money" in asked.decision.reply
    assert "amount" not in asked.decision.reply.partition("Send money")[0]
    yes = await run.answer(asked, yes=True)
    assert [call.tool_name for call in yes.record.invocations] == ["send_money"]
    for turn in (asked, yes):
        assert (await replay(turn.record, await texts(run, turn))).identical


async def test_the_question_says_what_the_model_has_written_itself() -> None:
    asked = await engine(calls(READ), calls(("send_money", {"to": "Zorro", "amount": 50}))).run(asks(MESSAGE))
    assert "to 'Zorro' is not from you: the model wrote it." in asked.decision.reply


async def test_each_call_of_a_card_has_its_own_sources() -> None:
    batch = calls(TO_ANNA, PAY, ("send_mail", {"to": ["Anna Schmidt", "mallory@evil.example"], "body": "hello there"}))
    asked = await engine(calls(READ), batch).run(asks(MESSAGE))
    pending = asked.decision.pending_action
    assert pending is not None
    assert [call.arguments["to"] for call in pending.each] == [EVIL, ["Anna Schmidt", "mallory@evil.example"]]
    assert pending.origins == (
        f"to '{EVIL}' is not from you: it stands in a result of 'Read page'.",
        "to 'mallory@evil.example' is not from you: it stands in a result of 'Read page'.",
    )
    (sources,) = entries(asked)
    assert [call.labels("to") for call in sources.calls] == [["user"], ["untrusted"], ["untrusted", "user"]]


async def test_mails_that_share_a_subject_are_asked_about_on_one_card_and_none_is_refused() -> None:
    people = ["amy@evil.example", "bob@evil.example", "eve@evil.example"]
    mails = calls(*(("send_mail", {"to": [one], "subject": "Task", "body": "please do it"}) for one in people))
    asked = await engine(calls(READ), mails).run(asks(MESSAGE))
    pending = asked.decision.pending_action
    assert pending is not None
    assert [call.arguments["to"] for call in pending.each] == [[one] for one in people]
    assert asked.decision.notices == []


async def test_a_batch_has_one_entry_without_any_text_of_a_result() -> None:
    asked = await engine(calls(READ), calls(TO_ANNA, PAY)).run(asks(MESSAGE))
    (entry,) = [entry for entry in asked.record.entries if entry.kind is EntryKind.SOURCES]
    text = canonical_json(entry.to_json())
    assert EVIL not in text
    assert "Anna" not in text
    assert len(text) < 476


@pytest.mark.parametrize("rules", [NO_SOURCES, ONE_TOOL])
async def test_nothing_is_looked_up_if_no_rule_about_the_calls_reads_sources(rules: str) -> None:
    ran = await engine(calls(READ), calls(PAY), says("Done."), rules=rules).run(asks(MESSAGE))
    assert entries(ran) == []
    assert [call.disposition for call in ran.record.invocations] == [CallDisposition.EXECUTED] * 2


async def test_a_read_earlier_in_the_batch_counts_before_it_has_run() -> None:
    server = bank()
    asked = await engine(calls(READ, ("send_money", {"to": "Mallory", "amount": 50})), server=server).run(asks(MESSAGE))
    assert [name for name, *_ in server.sent] == ["read_page"]
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    (sources,) = entries(asked)
    assert [call.after for call in sources.calls] == [None, "read_page"]


async def test_another_policy_judges_by_the_recorded_sources() -> None:
    run = engine(calls(READ), calls(PAY))
    asked = await run.run(asks(MESSAGE))
    stricter = NO_SOURCES + (
        '@id("nothing foreign") forbid (principal, action == Action::"send_money", resource)\n'
        'when { context.source.to.contains("untrusted") };'
    )
    report = await replay(asked.record, await texts(run, asked), conditions=ConditionsFile(stricter))
    assert "nothing foreign" in str(report.to_json())
    without = engine(calls(READ), calls(PAY), says("Done."), rules=NO_SOURCES)
    ran = await without.run(asks(MESSAGE))
    report = await replay(ran.record, await texts(without, ran), conditions=ConditionsFile(stricter))
    assert "does not have where the arguments of the calls came from" in str(report.to_json())


async def test_what_an_earlier_turn_has_read_counts_and_the_words_of_the_model_are_foreign_then() -> None:
    audit = MemoryAuditWriter()
    first = engine(calls(READ), says("It is for the account X 99, in words."), audit=audit)
    await first.run(asks("Read bill.txt"))
    history = [
        Message(role="user", content="Read bill.txt"),
        Message(role="assistant", content="It is for the account X 99, in words."),
    ]
    second = engine(calls(("send_money", {"to": "X 99", "amount": 50})), audit=audit)
    asked = await second.run(asks("Send 50 there", message_history=history))
    assert "to 'X 99' is not from you: it stands in an earlier reply of the model." in asked.decision.reply
    other = await engine(calls(("send_money", {"to": "X 99", "amount": 50})), says("Done."), audit=audit).run(
        asks("Send 50 there", conversation_id="c2")
    )
    assert [call.disposition for call in other.record.invocations] == [CallDisposition.EXECUTED]


async def test_calls_without_a_model_are_the_users_until_something_foreign_was_read() -> None:
    audit = MemoryAuditWriter()
    pay = FunctionCall(*PAY)
    alone = await engine(audit=audit).call("ann", [pay], conversation_id="c")
    assert [call.disposition for call in alone.record.invocations] == [CallDisposition.EXECUTED]
    assert [call.all_labels for call in entries(alone)[0].calls] == [[Source.USER]]
    await engine(audit=audit).call("ann", [FunctionCall(*READ)], conversation_id="c2")
    later = await engine(audit=audit).call("ann", [pay], conversation_id="c2")
    assert [call.disposition for call in later.record.invocations] == [CallDisposition.AWAITING]
    typed = await engine(audit=audit).call("ann", [pay], conversation_id="c2", typed=True)
    assert [call.disposition for call in typed.record.invocations] == [CallDisposition.EXECUTED]


async def test_a_log_that_keeps_no_results_is_refused_at_the_start() -> None:
    class Forgetful(MemoryAuditWriter):
        keeps_results = False

    with pytest.raises(ConfigurationError, match="does not keep what tools have returned"):
        await engine(audit=Forgetful()).prepare()
    await engine(audit=Forgetful(), rules=NO_SOURCES).prepare()
