"""`context.succeeded` and `context.attempted`: what the earlier calls of a conversation, a turn and a batch have done."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.models.decision import DecisionContext, DecisionType
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, DecisionRecord, RecordStatus
from graph_agent.models.tools import ToolResult
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.frozen_clock import pass_time
from tests.policy.cedar_shop import PERMIT, SHOP, declarations_of
from tests.scripted_turns import TableServer, asks, calls, done, failed
from tests.settling import settle_unknown
from tests.turn.test_budgets import SHORT, dispositions, replayed, service

EXECUTED, REFUSED, AWAITING = CallDisposition.EXECUTED, CallDisposition.REFUSED, CallDisposition.AWAITING
TOOLS = [tool for tool in SHOP if tool.name in ("login_bank", "pay", "read_private", "send_mail", "cancel_order")]
RULES = PERMIT + (
    '@id("login first") forbid (principal, action == Action::"pay", resource)\n'
    'unless { context.succeeded.contains(Action::"login_bank") };\n'
    '@id("nothing leaves") forbid (principal, action == Action::"send_mail", resource)\n'
    'when { context.attempted.contains(Action::"read_private") };\n'
)
ASKS = RULES + 'forbid (principal, action == Action::"pay", resource) unless { context.confirmed };'
BUDGET = RULES + (
    'forbid (principal, action == Action::"pay", resource) when { context.used.day.sum.amount.greaterThan(decimal("9.0")) };'
)
LOGIN: tuple[str, dict[str, Any]] = ("login_bank", {})
PAY = ("pay", {"iban": "DE1", "amount": 5})
READ = ("read_private", {"customer": "1"})
MAIL = ("send_mail", {"to": ["a@example.com"], "text": "hello"})
READ_WITH_ERROR = ToolResult(
    success=False, error="it failed", error_code=ToolErrorCode.TOOL_EXECUTION_ERROR, data={"server_text": "her number is 7"}
)
"""The answer of a server that sends text with `isError`: the model reads it."""
OUTCOMES = {
    "success": done(),
    "certain failure": failed(ToolErrorCode.TOOL_EXECUTION_ERROR),
    "reported failure": failed(ToolErrorCode.TOOL_REPORTED_FAILURE),
    "timeout": failed(ToolErrorCode.TIMEOUT_ERROR),
    "unknown": failed(ToolErrorCode.UNKNOWN_ERROR),
    "not found": failed(ToolErrorCode.NOT_FOUND),
    "error with text": READ_WITH_ERROR,
}
outcomes = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)


def bank(*, ledger: bool = False, settlements: Sequence[ToolResult] = (), **answers: Any) -> TableServer:
    reads = [tool.name for tool in TOOLS if tool.reads]
    return TableServer(answers, served=declarations_of(TOOLS), reads=reads, ledger=ledger, settlements=list(settlements))


def engine(log: Database, server: TableServer, *script: Any, rules: str = RULES, **settings: Any) -> LLMAgentEngine:
    return service(log, server, *script, rules=rules, tools=TOOLS, **settings)


def names(server: TableServer) -> list[str]:
    return [name for name, *_ in server.sent]


async def decided(log: Database, server: TableServer, *batch: Any, context: DecisionContext | None = None) -> list[str]:
    """Run a turn with one batch, replay it, and return what became of its calls."""
    run = engine(log, server, calls(*batch), says("Done."))
    turn = await run.run(context or asks())
    assert (await replayed(run, turn)).identical
    return [str(one) for one in dispositions(turn)]


@outcomes
@pytest.mark.parametrize("in_one_batch", [True, False])
async def test_a_call_that_comes_only_after_another_one_runs_only_after_its_success(
    log: Database, outcome: ToolResult, in_one_batch: bool
) -> None:
    server = bank(login_bank=outcome)
    if in_one_batch:
        found = await decided(log, server, LOGIN, PAY)
    else:
        found = [*await decided(log, server, LOGIN), *await decided(log, server, PAY)]
    assert found == ["executed", "executed" if outcome.success else "refused"]
    assert names(server) == ["login_bank", "pay"][: 1 + outcome.success]


@outcomes
@pytest.mark.parametrize("in_one_batch", [True, False])
async def test_nothing_leaves_after_a_private_read_was_sent_whatever_it_answered(
    log: Database, outcome: ToolResult, in_one_batch: bool
) -> None:
    server = bank(read_private=outcome)
    if in_one_batch:
        found = await decided(log, server, MAIL, READ, MAIL)
    else:
        found = [f for batch in ([MAIL], [READ], [MAIL]) for f in await decided(log, server, *batch)]
    # In one turn an identical mail is a repetition of the first one.
    assert found == ["executed", "executed", "repeated" if in_one_batch else "refused"]
    assert names(server) == ["send_mail", "read_private"]


async def test_the_earlier_rounds_of_a_turn_count_too(log: Database) -> None:
    server = bank(read_private=READ_WITH_ERROR)
    run = engine(log, server, calls(READ), calls(MAIL, PAY), calls(LOGIN), calls(PAY), says("Done."))
    turn = await run.run(asks())
    assert dispositions(turn) == [EXECUTED, REFUSED, REFUSED, EXECUTED, EXECUTED]
    assert turn.decision.notices[0].endswith("Nothing leaves.")
    assert (await replayed(run, turn)).identical


async def test_a_call_that_was_not_sent_is_neither(log: Database) -> None:
    """Refused for its arguments, by a rule, or waiting for a yes that did not come."""
    server = bank()
    assert await decided(log, server, ("read_private", {"who": 1}), MAIL) == ["refused", "executed"]
    assert await decided(log, server, PAY, context=asks(conversation_id="c2")) == ["refused"]
    rules = RULES.replace("read_private", "cancel_order")
    asked = engine(log, server, calls(("cancel_order", {"order": "1"})), rules=rules)
    assert dispositions(await asked.run(asks(conversation_id="c3"))) == [AWAITING]
    sent = await engine(log, server, calls(MAIL), says("Sent."), rules=rules).run(asks(conversation_id="c3"))
    assert dispositions(sent) == [EXECUTED]


async def test_calls_of_another_user_or_conversation_are_neither(log: Database) -> None:
    server = bank()
    assert await decided(log, server, LOGIN, READ) == ["executed", "executed"]
    assert await decided(log, server, PAY, MAIL, context=asks(user_id="bob")) == ["refused", "executed"]
    assert await decided(log, server, PAY, MAIL, context=asks(conversation_id="c2")) == ["refused", "executed"]
    assert await decided(log, server, PAY, MAIL) == ["executed", "refused"]


@pytest.mark.parametrize("settled", [done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR)])
async def test_a_lost_call_has_succeeded_once_its_ledger_says_so(log: Database, settled: ToolResult) -> None:
    lost = failed(ToolErrorCode.TIMEOUT_ERROR)
    server = bank(ledger=True, settlements=[lost, settled], login_bank=lost)
    assert await decided(log, server, LOGIN, PAY) == ["executed", "refused"]
    await settle_unknown(server, log, clock=ManualClock())
    assert await decided(log, server, PAY) == ["executed" if settled.success else "refused"]


async def test_a_ledger_that_settles_the_call_within_the_turn_decides(log: Database) -> None:
    lost = failed(ToolErrorCode.TIMEOUT_ERROR)
    for settled, expected in ((done(), "executed"), (failed(ToolErrorCode.TOOL_EXECUTION_ERROR), "refused")):
        server = bank(ledger=True, settlements=[settled], login_bank=lost)
        context = asks(conversation_id=expected)
        assert await decided(log, server, LOGIN, PAY, context=context) == ["executed", expected]
        assert await decided(log, server, ("pay", {"iban": "DE2", "amount": 1}), context=context) == [expected]


async def test_a_call_that_runs_now_in_another_turn_is_attempted_and_has_not_succeeded(log: Database) -> None:
    seen: list[str] = []
    server = bank()

    async def meanwhile(_: dict[str, Any]) -> ToolResult:
        seen.extend(await decided(log, server, PAY, MAIL))
        return done()

    server.answers.update(read_private=meanwhile)
    assert await decided(log, server, READ) == ["executed"]
    assert seen == ["refused", "refused"]
    seen.clear()
    server.answers.update(read_private=done(), login_bank=meanwhile)
    assert await decided(log, server, LOGIN, context=asks()) == ["executed"]
    assert seen == ["refused", "refused"]
    assert await decided(log, server, PAY) == ["executed"]


@pytest.mark.parametrize("outcome", [done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR)])
@pytest.mark.parametrize("rules", [ASKS, RULES + '@id("x") forbid (principal, action, resource) when { false };'])
async def test_the_user_is_asked_only_about_what_the_earlier_calls_of_the_batch_permit(
    log: Database, outcome: ToolResult, rules: str
) -> None:
    asking, server = rules is ASKS, bank(login_bank=outcome)
    batch = [LOGIN, PAY, ("send_mail", {**MAIL[1], "text": "paid"})]
    run = engine(log, server, calls(*batch), says("Done."), rules=rules)
    turn = await run.run(asks())
    assert (await replayed(run, turn)).identical
    if not outcome.success:
        # What comes after the refused call runs: nothing waits for the user.
        assert dispositions(turn) == [EXECUTED, REFUSED, EXECUTED]
    elif asking:
        assert dispositions(turn) == [EXECUTED, AWAITING, AWAITING]
        confirmed = await run.answer(turn, yes=True)
        assert confirmed.decision.decision_type is DecisionType.EXECUTE_PENDING
        assert names(server) == ["login_bank", "pay", "send_mail"]
        assert (await replayed(run, confirmed)).identical
    else:
        assert dispositions(turn) == [EXECUTED, EXECUTED, EXECUTED]


async def test_each_call_is_judged_by_what_the_calls_directly_before_it_have_done(log: Database) -> None:
    answers = [READ_WITH_ERROR, done()]
    server = bank(login_bank=lambda _: answers.pop(0))
    assert await decided(log, server, LOGIN, PAY, LOGIN, PAY) == ["executed", "refused", "executed", "executed"]
    other = asks(conversation_id="c2")
    assert await decided(log, server, ("login_bank", {"x": 1}), PAY, context=other) == ["refused", "refused"]


async def test_a_marked_tool_is_asked_about_only_if_the_calls_before_it_permit_it(log: Database) -> None:
    rules = PERMIT + (
        'forbid (principal, action == Action::"cancel_order", resource) '
        'unless { context.succeeded.contains(Action::"login_bank") };'
    )
    cancel = ("cancel_order", {"order": "1"})
    for outcome, expected in ((done(), AWAITING), (READ_WITH_ERROR, REFUSED)):
        run = engine(log, bank(login_bank=outcome), calls(LOGIN, cancel), says("Done."), rules=rules)
        assert dispositions(await run.run(asks(conversation_id=str(expected)))) == [EXECUTED, expected]


@pytest.mark.parametrize("outcome", [done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR)])
async def test_a_counted_call_is_judged_by_the_calls_before_it_and_by_its_budget(log: Database, outcome: ToolResult) -> None:
    server = bank(login_bank=outcome)
    batch = [LOGIN, PAY, ("pay", {"iban": "DE2", "amount": 5})]
    run = engine(log, server, calls(*batch), says("Done."), rules=BUDGET)
    turn = await run.run(asks())
    assert dispositions(turn) == [EXECUTED, EXECUTED if outcome.success else REFUSED, REFUSED]
    assert (await replayed(run, turn)).identical


async def test_a_rule_that_a_failed_call_of_the_batch_does_not_fulfil_by_its_count_refuses(log: Database) -> None:
    rules = PERMIT + 'forbid (principal, action == Action::"pay", resource) when { context.used.message.writes < 2 };'
    for outcome, expected in ((done(), EXECUTED), (failed(ToolErrorCode.TOOL_EXECUTION_ERROR), REFUSED)):
        run = engine(log, bank(login_bank=outcome), calls(LOGIN, PAY), says("Done."), rules=rules)
        assert dispositions(await run.run(asks(conversation_id=str(expected)))) == [EXECUTED, expected]


async def test_a_decision_without_a_model_judges_its_calls_in_the_same_way(log: Database) -> None:
    requested = [FunctionCall(*LOGIN), FunctionCall(*PAY)]
    for outcome, expected in ((done(), EXECUTED), (READ_WITH_ERROR, REFUSED)):
        run = engine(log, bank(login_bank=outcome))
        turn = await run.call("ann", requested, conversation_id=str(expected))
        assert dispositions(turn) == [EXECUTED, expected]
        assert (await replayed(run, turn)).identical


async def test_a_dry_run_supposes_that_the_changes_before_a_call_succeed(log: Database) -> None:
    server = bank()
    run = engine(log, server, calls(LOGIN, PAY, READ, MAIL), says("I would do that."))
    turn = await run.run(asks(dry_run=True))
    assert [invocation.error_message for invocation in turn.record.invocations] == [
        "this is a dry run: it would be done; nothing was sent",
        "this is a dry run: it would be done; nothing was sent",
        None,
        "not permitted: nothing leaves",
    ]
    assert names(server) == ["read_private"]
    # Nothing of it counts later, but for the read.
    assert await decided(log, server, PAY, MAIL) == ["refused", "refused"]


@pytest.mark.parametrize("writes", range(1, 9))
@pytest.mark.parametrize("outcome", [done(), READ_WITH_ERROR], ids=["success", "error"])
async def test_a_turn_that_another_process_ends_or_continues_decides_the_same(
    log: Database, writes: int, outcome: ToolResult
) -> None:
    server, clock = bank(ledger=True, settlements=[outcome] * 3, login_bank=outcome), ManualClock()
    shared: dict[str, Any] = {"clock": clock, "config": SHORT}
    script = [calls(LOGIN, PAY, READ, MAIL), says("Done."), says("Done.")]

    async def crash_and_continue() -> None:
        with suppress(ServiceError):
            await engine(log, server, *script, crash_after=writes, **shared).run(asks(), decision_id="d1")
        await engine(log, server, *script[1:], **shared).finish("d1", ask_model=True)

    await pass_time(clock, crash_and_continue())
    run = engine(log, server)
    record = await run.audit.load("d1")
    if record is None:
        return  # It crashed before its opening row.
    assert isinstance(record, DecisionRecord)
    sent = names(server)
    assert "send_mail" not in sent[sent.index("read_private") :] if "read_private" in sent else True
    assert ("pay" in sent) <= outcome.success
    by_name = {one.tool_name: one for one in record.invocations}
    if record.status is RecordStatus.COMPLETED and "send_mail" in by_name:
        assert by_name["send_mail"].disposition is REFUSED


async def test_a_deferred_call_is_announced_only_after_it_was_judged(log: Database) -> None:
    """Its operation would be committed with the call before it, and count as attempted."""
    rules = RULES + (
        'forbid (principal, action == Action::"send_mail", resource) when { context.attempted.contains(Action::"pay") };'
    )
    server = bank(login_bank=READ_WITH_ERROR)
    turn = await engine(log, server, calls(LOGIN, PAY, MAIL), says("Done."), rules=rules).run(asks())
    assert dispositions(turn) == [EXECUTED, REFUSED, EXECUTED]
    again = await engine(log, server, calls(MAIL), says("Done."), rules=rules).run(asks())
    assert dispositions(again) == [EXECUTED]
