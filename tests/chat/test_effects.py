"""Effects at servers without a ledger: a call that has its operation key as an argument is sent again, any other is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from mcp import StdioServerParameters
from sqlalchemy import update

from graph_agent.audit.findings import findings
from graph_agent.audit.queries import LogQueryService
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import ManualClock, RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode, ToolGrantError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.record import CallOperation
from graph_agent.models.tools import ToolResult
from graph_agent.policy.signature import Signer
from graph_agent.record.settlements import UnknownCall
from graph_agent.record.tables import call_operations, tool_invocation_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.sent_calls import SentCalls
from tests.chat.payment_servers import KEYED, META_NAME, Kind
from tests.chat.payment_shop import COMPLETE, LINES, constitution_of, opened
from tests.lost_answer import LOSSES, Fault
from tests.record.trees import verified
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped
from tests.settling import settle_all


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("fault", LOSSES)
async def test_a_call_with_a_key_is_sent_again_in_the_turn_and_takes_effect_once(
    log: Database, fault: Fault, kind: Kind
) -> None:
    async with opened(log, kind) as shop:
        finished = await shop.pay(5, fault)
        if await shop.states() == ["unknown"]:
            # The turn had no connection left.
            assert await settle_all(shop.settler()) == 1
        await shop.server.arrive()
        assert await shop.states() == ["done"]
        assert shop.server.of(5) == 1
        assert await shop.replays(finished.record)
        assert (await verified(log, key=None)).violations == []


@pytest.mark.parametrize("kind", KEYED)
async def test_a_call_with_a_key_that_stays_unknown_is_sent_again_by_the_sweep_as_it_was(log: Database, kind: Kind) -> None:
    async with opened(log, kind) as shop:
        for amount, fault in enumerate(LOSSES, 1):
            await shop.pay(amount, fault, fault, fault)
        assert await shop.states() == ["unknown"] * 4
        await shop.server.arrive()
        assert await settle_all(shop.settler()) == 4
        assert await shop.states() == ["done"] * 4
        assert [shop.server.of(amount) for amount in range(1, 5)] == [1] * 4
        assert (await verified(log, key=None)).violations == []


@pytest.mark.parametrize("kind", KEYED)
async def test_neither_the_model_nor_the_record_sees_the_key(log: Database, kind: Kind) -> None:
    async with opened(log, kind) as shop:
        finished = await shop.pay(5)
        policy = (await shop.engine().prepare()).policy
        assert [tool.parameters["properties"].keys() for tool in policy.declarations] == [{"amount"}]
        [invocation] = finished.record.invocations
        assert (invocation.parameters, invocation.result) == ({"amount": 5}, {"payment": "p1", "amount": 5})
        [(_, key)] = shop.server.payments
        assert key not in canonical_json(finished.record.to_json())
        if kind != "keyed":
            return
        refused = (await shop.pay(6, idempotency_key="pay_" + "0" * 32)).record.invocations[0]
        assert refused.error_message == "'idempotency_key' is set by the runtime: leave it out"
        assert shop.server.of(6) == 0


@pytest.mark.parametrize("fault", LOSSES)
async def test_a_call_without_a_key_is_never_sent_again_and_stays_unknown(log: Database, fault: Fault) -> None:
    async with opened(log, "plain") as shop:
        finished = await shop.pay(5, fault)
        await shop.server.arrive()
        assert await settle_all(shop.settler()) == 0
        assert await shop.states() == ["unknown"]
        assert shop.server.requests == 1
        assert "Not known whether this was done: Pay an amount (amount 5)." in str(finished.decision)


@pytest.mark.parametrize(
    "edited",
    [
        {"parameters": {"amount": 500}},
        {"tool_name": "keyed.other"},
    ],
)
async def test_a_call_that_was_edited_in_the_record_is_not_sent_again(log: Database, edited: dict[str, Any]) -> None:
    async with opened(log, "keyed") as shop:
        await shop.pay(5, Fault.CUT_BEFORE, Fault.CUT_BEFORE, Fault.CUT_BEFORE)
        await log.write(lambda connection: connection.execute(update(tool_invocation_logs).values(**edited)))
        assert await settle_all(shop.settler()) == 0
        assert shop.server.payments == []


@pytest.mark.parametrize("edited", [{"request": None}, {"user_id": "bob"}, {"operation_key": "another"}])
async def test_a_call_whose_operation_was_edited_is_not_sent_again(log: Database, edited: dict[str, Any]) -> None:
    async with opened(log, "keyed") as shop:
        await shop.pay(5, Fault.CUT_BEFORE, Fault.CUT_BEFORE, Fault.CUT_BEFORE)
        await log.write(lambda connection: connection.execute(update(call_operations).values(**edited)))
        assert await settle_all(shop.settler()) == 0
        assert shop.server.payments == []


async def test_a_call_that_was_sent_without_a_key_is_not_sent_again_when_its_line_gets_one(log: Database) -> None:
    plain = "keyed.pay: Pay an amount (without confirmation)"
    async with opened(log, "keyed", [plain]) as shop:
        await shop.pay(5, Fault.CUT_AFTER, idempotency_key="pay_" + "0" * 32)
        with_key = f"# Shop\n\n## Available Tools\n- {LINES['keyed'][0]}\n"
        assert await settle_all(shop.settler(with_key)) == 0
        assert shop.server.requests == 1


async def test_a_call_whose_line_is_gone_is_not_sent_again(log: Database) -> None:
    async with opened(log, "keyed") as shop:
        await shop.pay(5, Fault.CUT_BEFORE, Fault.CUT_BEFORE, Fault.CUT_BEFORE)
        requests = shop.server.requests
        assert await settle_all(shop.settler(shop.constitution.replace(" (operation key in idempotency_key)", ""))) == 0
        assert shop.server.requests == requests


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.CUT_AFTER])
async def test_a_read_finds_done_what_was_done_before_its_answer_was_lost(log: Database, fault: Fault) -> None:
    async with opened(log, "listed") as shop:
        finished = await shop.pay(5, fault, reference="order 1")
        if await shop.states() == ["done"]:
            [invocation] = finished.record.invocations
            assert (invocation.success, invocation.result) == (True, {"found": [{"amount": 5}]})
            assert "found done: Pay an amount" in str(finished.decision)
        else:
            assert await settle_all(shop.settler()) == 1
        trace = await LogQueryService(log).get_decision_trace(finished.record.header.decision_id)
        found = 'it was found done: listed.find_payments {"reference":"order 1"} returned [{"amount":5}].'
        assert any(found in one for one in findings(trace))
        assert await shop.states() == ["done"]
        assert (shop.server.requests, shop.server.of(5)) == (1, 1)
        assert await shop.replays(finished.record)
        assert (await verified(log, key=None)).violations == []


class ReadsLater(SentCalls):
    """Learns no outcome as long as the read that shows it is not permitted."""

    permitted = False

    async def outcome(self, call: UnknownCall, request: str | None, seconds: float) -> ToolResult | None:
        return await super().outcome(call, request, seconds) if self.permitted else None


async def test_a_call_about_which_nothing_may_be_asked_now_is_asked_about_later(log: Database) -> None:
    async with opened(log, "listed") as shop:
        shop.server.answers = lambda _: {"payments": []}
        await shop.pay(5, Fault.CUT_AFTER, reference="order 1")
        shop.server.answers = None
        clock = ManualClock(shop.clock.now())
        sent = ReadsLater(shop.engine(clock=clock))
        settler = OutcomeSettler(shop.tools, log, clock=clock, sent_calls=sent)
        assert await settle_all(settler) == 0
        sent.permitted = True
        # Not at once: the rules of one installation may forbid many such reads.
        assert await settle_all(settler) == 0
        clock.advance(seconds=601)
        assert await settle_all(settler) == 1
        assert await shop.states() == ["done"]


async def test_a_read_that_finds_nothing_proves_nothing_without_complete(log: Database) -> None:
    async with opened(log, "listed") as shop:
        await shop.pay(5, Fault.CUT_BEFORE, reference="order 1")
        for seconds in (0, 60, 3600):
            assert await settle_all(shop.settler(seconds_later=seconds)) == 0
        assert await shop.states() == ["unknown"]


async def test_a_read_that_finds_everything_proves_after_a_while_that_nothing_was_done(log: Database) -> None:
    lines = [LINES["listed"][0] + " (complete)", LINES["listed"][1]]
    async with opened(log, "listed", lines) as shop:
        finished = await shop.pay(5, Fault.CUT_BEFORE, reference="order 1")
        # The call may be on its way.
        assert await settle_all(shop.settler(seconds_later=5)) == 0
        assert await settle_all(shop.settler(seconds_later=31)) == 1
        assert await shop.states() == ["void"]
        trace = await LogQueryService(log).get_decision_trace(finished.record.header.decision_id)
        assert any("it was found not done: listed.find_payments" in one for one in findings(trace))
        assert (await verified(log, key=None)).violations == []


async def test_a_delayed_call_is_found_after_it_has_arrived(log: Database) -> None:
    lines = [LINES["listed"][0] + " (complete)", LINES["listed"][1]]
    async with opened(log, "listed", lines) as shop:
        await shop.pay(5, Fault.DELAYED, reference="order 1")
        assert await settle_all(shop.settler(seconds_later=1)) == 0
        await shop.server.arrive()
        assert await settle_all(shop.settler(seconds_later=31)) == 1
        assert (await shop.states(), shop.server.of(5)) == (["done"], 1)


async def test_calls_that_a_read_does_not_find_hold_up_no_other_call(log: Database) -> None:
    async with opened(log, "listed") as shop:
        for amount in range(1, 5):
            await shop.pay(amount, Fault.CUT_BEFORE, reference=f"order {amount}")
        await shop.pay(9, Fault.DELAYED, reference="order 9")
        await shop.server.arrive()
        assert await settle_all(shop.settler()) == 1
        assert await shop.states() == ["unknown"] * 4 + ["done"]


async def test_a_line_that_gets_a_read_settles_the_calls_before_it(log: Database) -> None:
    plain = ["listed.pay: Pay an amount (without confirmation)", LINES["listed"][1]]
    async with opened(log, "listed", plain) as shop:
        await shop.pay(5, Fault.CUT_AFTER, reference="order 1")
        with_read = constitution_of(LINES["listed"])
        assert await settle_all(shop.settler(with_read)) == 1
        assert shop.server.requests == 1


async def test_the_metrics_count_the_outcomes_that_stay_unknown_by_tool(log: Database) -> None:
    async with opened(log, "keyed") as shop:
        await shop.pay(1)
        await shop.pay(2, Fault.CUT_AFTER, Fault.CUT_AFTER, Fault.CUT_AFTER)
        summary = await LogQueryService(log).get_metrics_summary()
        assert {name: tool.unknown for name, tool in summary.tools.items()} == {"keyed.pay": 1}
        assert await settle_all(shop.settler()) == 1
        summary = await LogQueryService(log).get_metrics_summary()
        assert {name: tool.unknown for name, tool in summary.tools.items()} == {"keyed.pay": 0}


@pytest.mark.parametrize(("kind", "proof"), [("keyed", "key"), ("listed", "read"), ("plain", "none")])
async def test_the_policy_says_how_the_outcome_of_each_change_is_learned(log: Database, kind: Kind, proof: str) -> None:
    async with opened(log, kind) as shop:
        rules = (await shop.engine().prepare()).policy.rules
        reads = {"listed.find_payments": None} if kind == "listed" else {}
        assert {name: rule.proof for name, rule in rules.items()} == {f"{kind}.pay": proof, **reads}


@pytest.mark.parametrize("kind", ["keyed", "listed", "plain"])
async def test_whatever_is_lost_nothing_is_doubled_and_what_is_not_known_is_reported(log: Database, kind: Kind) -> None:
    dice, amounts = Random(kind), range(1, 13)
    lines = [LINES["listed"][0] + " (complete)", LINES["listed"][1]] if kind == "listed" else LINES[kind]
    async with opened(log, kind, lines) as shop:
        lost, replies = 0, []
        for amount in amounts:
            faults = dice.choices([Fault.NONE, *LOSSES], k=3)
            reference = {"reference": f"order {amount}"} if kind == "listed" else {}
            finished = await shop.pay(amount, *faults, **reference)
            lost += faults[0] is not Fault.NONE
            replies.append(str(finished.decision))
        after_the_turns = await shop.states()
        assert sum("Not known whether this was done" in reply for reply in replies) == after_the_turns.count("unknown")
        await shop.server.arrive()
        await settle_all(shop.settler(seconds_later=31))
        states, paid = await shop.states(), [shop.server.of(amount) for amount in amounts]
        assert max(paid) == 1
        expected = ["unknown"] * lost if kind == "plain" else []
        assert [state for state in states if state == "unknown"] == expected
        if kind != "plain":
            assert [state == "done" for state in states] == [times == 1 for times in paid]
        assert (await verified(log, key=None)).violations == []


@pytest.mark.parametrize("answered", [True, False])
async def test_a_call_that_another_attempt_may_have_sent_is_sent_again_under_its_key(log: Database, answered: bool) -> None:
    writer, decision_id = DatabaseAuditWriter(log), RandomIds().new()
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "key": {"type": "string"}}}

    async def pay(arguments: dict[str, Any]) -> ToolResult:
        if arguments["amount"] == 1:
            # The other attempt is faster.
            operation = CallOperation(sequence=2, operation_key="k", user_id="ann", tool_name="pay")
            assert await writer.write_progress(decision_id, operation=operation)
        elif not answered:
            return failed(ToolErrorCode.TOOL_UNAVAILABLE, "nothing was sent")
        return done()

    server = TableServer({"pay": pay}, ledger=False, served=(ToolDeclaration(name="pay", description="", parameters=schema),))
    script = [calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), says("Paid.")]
    text = "## Available Tools\n- pay: Pay (operation key in key)\n"
    engine = LLMAgentEngine(ScriptedAdapter(script), server, text, **grouped(audit=writer, signer=Signer(SECRET)))
    record = (await engine.run(asks(), decision_id=decision_id)).record
    first, *others = [arguments for _, arguments, *_ in server.sent]
    assert first == {"amount": 1, "key": f"{decision_id}:1"}
    assert others == [{"amount": 2, "key": f"{decision_id}:2"}] * (1 if answered else 2)
    # That nothing was sent now says nothing about the other attempt.
    codes = [call.error_code for call in record.invocations]
    assert codes == [None, None if answered else ToolErrorCode.UNKNOWN_ERROR]


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_server_over_stdio_gets_the_same_key_in_meta_again(log: Database, tmp_path: Path, fault: str) -> None:
    (tmp_path / "faults").write_text(fault)
    (tmp_path / "payments").touch()
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.chat.stdio_payments", str(tmp_path)])
    tools = McpServerGroup([ServerConfig("shop", command, prefixed=True)], granted=["shop.pay"])
    audit = DatabaseAuditWriter(log)
    text = f"## Available Tools\n- shop.pay: Pay an amount (without confirmation) (operation key in _meta {META_NAME})\n"
    script = [calls(("shop.pay", {"amount": 5})), says("See above.")]
    engine = LLMAgentEngine(ScriptedAdapter(script), tools, text, **grouped(audit=audit, signer=Signer(SECRET)))
    try:
        record = (await engine.run(asks("pay 5"))).record
        if record.invocations[0].error_code is not None:
            clock = ManualClock(SystemClock().now())
            assert await settle_all(OutcomeSettler(tools, log, clock=clock, sent_calls=SentCalls(engine))) == 1
    finally:
        await tools.aclose()
    [(amount, key)] = [json.loads(line) for line in (tmp_path / "payments").read_text().splitlines()]
    assert (amount, UUID(key).version) == (5, 5)
    assert key not in canonical_json(record.to_json())


async def test_a_header_is_refused_for_a_server_that_is_not_reached_over_http(log: Database, tmp_path: Path) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.chat.stdio_payments", str(tmp_path)])
    tools = McpServerGroup([ServerConfig("shop", command, prefixed=True)], granted=["shop.pay"])
    text = "## Available Tools\n- shop.pay: Pay (without confirmation) (operation key in header Idempotency-Key)\n"
    engine = LLMAgentEngine(ScriptedAdapter([]), tools, text, **grouped(audit=DatabaseAuditWriter(log)))
    try:
        with pytest.raises(ToolGrantError, match=r"'shop.pay' takes no header .* its server is reached over stdio"):
            await engine.prepare()
    finally:
        await tools.aclose()


async def test_a_configured_header_does_not_replace_the_key(log: Database) -> None:
    async with opened(log, "header") as shop:
        server = shop.server.config.server
        assert isinstance(server, HttpServer)
        server = replace(server, headers={"idempotency-key": "the same for all", "X-Shop": "own"})
        await shop.tools.aclose()
        shop.tools = McpServerGroup([replace(shop.server.config, server=server)], granted=["header.pay"])
        await shop.pay(5)
        await shop.pay(6)
        assert len({key for _, key in shop.server.payments} - {"the same for all"}) == 2


def _other_amount(found: list[dict[str, Any]]) -> Any:
    return {"payments": [{**one, "amount": 700} for one in found or [{}]]}


ANSWERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "an error": lambda _: "Error: no permission",
    "a text": lambda _: "No payments were found.",
    "another list": lambda _: {"items": []},
    "null": lambda _: {"payments": None},
    "a page": lambda _: {"payments": [], "next_cursor": "p2"},
    "a truncated list": lambda _: {"payments": [], "isTruncated": True},
    "a page of a total": lambda _: {"payments": [], "total": 31},
    "a page inside": lambda _: {"payments": [], "page_info": {"hasNextPage": True}},
    "another object": _other_amount,
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
async def test_a_read_that_shows_something_else_proves_nothing_and_a_later_one_does(
    log: Database, answer: str, fault: Fault
) -> None:
    async with opened(log, "listed", COMPLETE) as shop:
        shop.server.answers = ANSWERS[answer]
        await shop.pay(5, fault, reference="order 1")
        settler = shop.settler(seconds_later=60)
        assert (await settle_all(settler), await shop.states()) == (0, ["unknown"])
        shop.server.answers = None
        assert await settle_all(shop.settler(seconds_later=120)) == 1
        assert await shop.states() == ["done" if fault is Fault.CUT_AFTER else "void"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda found: {"payments": [*found, *found]},
        lambda found: {"payments": [{"amount": 700}, *found], "next_cursor": "p2"},
        lambda found: {"payments": [{"amount": "5.00", "reference": "ORDER 1"} for _ in found]},
        lambda found: json.dumps({"payments": found}),
    ],
    ids=["a duplicate", "on a page beside another", "as a text of a number", "as a text"],
)
async def test_a_payment_is_found_done_in_other_forms(log: Database, answer: Callable[[Any], Any]) -> None:
    async with opened(log, "listed", COMPLETE) as shop:
        shop.server.answers = answer
        await shop.pay(5, Fault.CUT_AFTER, reference="order 1")
        await settle_all(shop.settler())
        assert await shop.states() == ["done"]


async def test_a_payment_that_is_found_only_later_is_not_found_not_done_before_the_documented_delay(log: Database) -> None:
    late = [LINES["listed"][0] + " (complete after 5 minutes)", LINES["listed"][1]]
    async with opened(log, "listed", late) as shop:
        shop.server.finds_nothing = True
        await shop.pay(5, Fault.CUT_AFTER, reference="order 1")
        await shop.pay(6, Fault.CUT_BEFORE, reference="order 2")
        assert await settle_all(shop.settler(seconds_later=280)) == 0
        shop.server.finds_nothing = False
        assert await settle_all(shop.settler(seconds_later=290)) == 1
        assert await settle_all(shop.settler(seconds_later=310)) == 1
        assert await shop.states() == ["done", "void"]
