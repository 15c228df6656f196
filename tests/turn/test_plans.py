"""Plans: one yes for bounded calls, through the whole engine on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from graph_agent.analysis.mandates import permitted
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionType
from graph_agent.models.mandate import Line, MandateState, MandateView, PermittedLine, Plan
from graph_agent.models.record import CallDisposition, EntryKind
from graph_agent.models.stop import Stop, StopScope
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.signature import Signer
from graph_agent.ports import PlanSolver
from graph_agent.record.audit_writer import AuditWriter, MemoryAuditWriter
from graph_agent.record.mandates import list_mandates
from graph_agent.record.mandates import revoke as revoke_open
from graph_agent.record.stops import end_stop, place_stop
from graph_agent.record.tables import mandates
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.policy.cedar_shop import AMOUNT, COUNT, PERMIT, TEXT, ShopTool, constitution_of, declarations_of, schema
from tests.record.trees import tree_of, verified
from tests.replayed_turns import replayed
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped
from tests.turn.test_budgets import LONG

REFUND = ShopTool("refund", schema("order", "amount", order=TEXT, amount=COUNT), marker="(in plans)")
TOOLS = [
    REFUND,
    ShopTool("ship", schema("order", order=TEXT)),
    ShopTool("find_order", schema("order", order=TEXT), reads=True, marker="(reads)"),
    ShopTool("send_mail", schema("to", "text", to=TEXT, text=TEXT), marker="(in plans)"),
    ShopTool("wipe", schema("order", order=TEXT), marker="(requires confirmation) (in plans)"),
    ShopTool("pay", schema("iban", "amount", iban=TEXT, amount=AMOUNT), marker="(in plans)"),
]
ASKS = PERMIT + (
    '@id("ask") forbid (principal, action in [Action::"refund", Action::"send_mail", Action::"ship", Action::"pay"], resource)'
    " unless { context.confirmed };\n"
    '@id("never 666") forbid (principal, action == Action::"refund", resource) when { context.arguments.order == "W666" };\n'
)
BUDGET = (
    '@id("100 a day") forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 100 };\n'
)
BOSS = '@id("boss") forbid (principal, action == Action::"pay", resource) unless { context.approvals.boss > 0 };\n'
EXECUTED, AWAITING, REFUSED = CallDisposition.EXECUTED, CallDisposition.AWAITING, CallDisposition.REFUSED


def refund(order: str = "W1", amount: int = 10) -> tuple[str, dict[str, Any]]:
    return "refund", {"order": order, "amount": amount}


def line(tool: str = "refund", times: int = 1, total: int | None = None, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "times": times, **({} if total is None else {"sum": {"amount": total}})}


REFUNDS = line(times=2, order={"is": ["W1", "W2", "W3"]}, amount={"at_most": 50})


def plan(*lines: dict[str, Any], **more: Any) -> Any:
    return calls(("propose_plan", {"lines": list(lines) or [REFUNDS], **more}))


def solve(plan: Plan, policy: CompiledPolicy) -> list[PermittedLine]:
    """Solve a plan within a time that no machine reaches."""
    return permitted(plan, policy, 300)


@dataclass
class Desk:
    """A conversation with a service on a database. Each turn is replayed, and must give the same."""

    log: Database
    script: list[Any]
    rules: str = ASKS
    tools: list[ShopTool] = field(default_factory=lambda: TOOLS)
    answers: dict[str, Any] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    turns: list[FinishedTurn] = field(default_factory=list)
    solver: PlanSolver | None = None

    def __post_init__(self) -> None:
        self.server = TableServer(self.answers, served=declarations_of(self.tools), reads=["find_order"])
        self.model = ScriptedAdapter(self.script)
        self.engine = self.new_engine()

    def new_engine(self, rules: str | None = None, audit: AuditWriter | None = None) -> LLMAgentEngine:
        audit = audit or DatabaseAuditWriter(self.log, clock=self.clock)
        ports = {"audit": audit, "clock": self.clock, "ids": RandomIds(), "signer": Signer(SECRET)}
        ports["permitted"] = self.solver
        settings = grouped(**ports, conditions=ConditionsFile(rules or self.rules), config=LONG)
        return LLMAgentEngine(self.model, self.server, constitution_of(self.tools), **settings)

    async def say(self, text: str = "please", **more: Any) -> FinishedTurn:
        pending = self.turns[-1].decision.pending_action if self.turns else None
        self.clock.advance(seconds=1)
        finished = await self.engine.run(asks(text, pending_confirmation=pending, **more))
        self.turns.append(await replayed(self.engine, finished))
        return finished

    async def sent(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, arguments) for name, arguments, *_ in self.server.sent]

    async def mandate(self) -> MandateView:
        (found,) = await self.log.read(lambda connection: list_mandates(connection, self.clock.now()))
        return found


def became(turn: FinishedTurn) -> list[CallDisposition]:
    return [one.disposition for one in turn.record.invocations]


async def test_a_card_says_what_the_rules_let_run_and_the_mandate_permits_no_more(log: Database) -> None:
    over = '@id("over 20") forbid (principal, action == Action::"refund", resource) when { context.arguments.amount > 20 };\n'
    wide = line(times=3, order={"is": ["W1", "W666"]}, amount={"at_most": 50})
    never = line(order={"is": ["W666"]}, amount={"at_most": 5})
    desk = Desk(log, [plan(wide, never), calls(refund("W1", 20)), says("Done.")], rules=ASKS + over, solver=solve)
    asked = await desk.say("refund it")
    assert asked.decision.reply.startswith(
        'Plan, at most:\n1. Refund: amount up to 20; order = "W1"; up to 3 times\nIn all at most: Refund, amount 60.\n'
        'Left out, because it never runs: Refund, order = "W666".\n'
        "Left out, because it never runs: line 2 of the proposal (never 666).\nFor 60 minutes"
    )
    assert became(await desk.say("yes")) == [EXECUTED]
    assert (await desk.mandate()).mandate.plan.lines == (
        Line.model_validate({"tool": "refund", "times": 3, "arguments": {"order": {"is": ["W1"]}, "amount": {"at_most": 20}}}),
    )


async def test_a_plan_of_which_nothing_ever_runs_is_not_asked_about(log: Database) -> None:
    never = plan(line(order={"is": ["W666"]}, amount={"at_most": 5}))
    desk = Desk(log, [never, says("That is not possible.")], solver=solve)
    answered = await desk.say("refund it")
    assert (answered.decision.pending_action, answered.decision.reply) == (None, "That is not possible.")


async def test_one_yes_lets_the_calls_of_a_plan_run_and_nothing_else(log: Database) -> None:
    script = [plan(), calls(refund("W1", 50)), calls(refund("W2")), calls(refund("W3")), says("unused")]
    desk = Desk(log, script)

    asked = await desk.say("refund both")
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert asked.decision.reply.startswith(
        'Plan, at most:\n1. Refund: amount up to 50; order = "W1" or "W2" or "W3"; up to 2 times\n'
        "In all at most: Refund, amount 100.\nFor 60 minutes"
    )
    assert await desk.sent() == []

    finished = await desk.say("yes")
    assert became(finished) == [EXECUTED, EXECUTED, AWAITING]
    assert await desk.sent() == [refund("W1", 50), refund("W2")]
    assert ["(plan, 1 of 2)" in one for one in finished.decision.effects] == [True, False]
    texts = await desk.engine.audit.texts(list(finished.record.header.digests.values()))
    without = await replay(finished.record, texts, mandates=False)
    assert without.replayed is not None
    assert [one.disposition for one in without.replayed.invocations] == [AWAITING]
    view = await desk.mandate()
    assert (view.state, view.drawn, view.mandate.id) == (MandateState.USED, (2,), asked.decision.pending_action.id)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "call", [refund("W9"), refund("W1", 51), ("ship", {"order": "W1"}), ("pay", {"iban": "X", "amount": 1})]
)
async def test_a_call_outside_the_plan_is_asked_about(log: Database, call: tuple[str, dict[str, Any]]) -> None:
    desk = Desk(log, [plan(), calls(call)])
    await desk.say()
    assert became(await desk.say("yes")) == [AWAITING]
    assert await desk.sent() == []


async def test_a_plan_permits_nothing_that_the_rules_refuse_and_nothing_that_waits_for_others(log: Database) -> None:
    lines = [line(order={"is": ["W666"]}, amount={"at_most": 50}), line("pay", iban={"is": ["X"]}, amount={"at_most": 5})]
    desk = Desk(log, [plan(*lines), calls(refund("W666")), says("No.")])
    await desk.say()
    assert became(await desk.say("yes")) == [REFUSED]
    assert await desk.sent() == []


async def test_a_budget_is_reserved_with_the_yes_of_the_plan(log: Database) -> None:
    """Without it the reservation would find that the call asks, and count nothing."""
    script = [plan(line(times=3, order={"is": ["W1", "W2", "W3"]}, amount={"at_most": 90}))]
    desk = Desk(log, [*script, calls(refund("W1", 60)), calls(refund("W2", 60)), says("Stopped.")], ASKS + BUDGET)
    await desk.say()
    finished = await desk.say("yes")
    assert became(finished) == [EXECUTED, REFUSED]
    assert (await desk.mandate()).drawn == (1,)
    (reserved,) = [entry for entry in finished.record.entries if entry.kind is EntryKind.RESERVE]
    assert (reserved.result["decision"], reserved.result["mandate"]["drawn"]) == ("asks", 1)
    assert reserved.result["used"]["day"]["calls"] == 1


async def test_the_sum_of_a_line_holds_over_its_calls(log: Database) -> None:
    bounded = line(times=5, total=100, order={"is": ["W1", "W2", "W3"]}, amount={"at_most": 60})
    desk = Desk(log, [plan(bounded), calls(refund("W1", 60)), calls(refund("W2", 41)), says("unused")])
    await desk.say()
    assert became(await desk.say("yes")) == [EXECUTED, AWAITING]


async def test_a_call_that_certainly_failed_frees_its_draw_and_an_unknown_outcome_keeps_it(log: Database) -> None:
    outcomes = iter([failed(ToolErrorCode.NOT_FOUND), failed(ToolErrorCode.TIMEOUT_ERROR), done()])
    desk = Desk(
        log,
        [
            plan(line(times=2, order={"is": ["W1", "W2", "W3"]}, amount={"at_most": 9})),
            *(calls(refund(one, 1)) for one in ("W1", "W2")),
            says("?"),
        ],
        answers={"refund": lambda _: next(outcomes)},
    )
    await desk.say()
    await desk.say("yes")
    assert (await desk.mandate()).drawn == (1,)


async def test_a_value_from_a_later_result_is_covered_and_one_that_was_known_is_not(log: Database) -> None:
    found = {"W1": {"mail": "old@shop.example"}, "W2": {"mail": "new@shop.example"}}
    mails = line("send_mail", times=3, to={"from": "find_order"}, text={"own_text": True})
    script = [
        calls(("find_order", {"order": "W1"})),
        plan(mails),
        calls(("find_order", {"order": "W1"}), ("find_order", {"order": "W2"})),
        calls(("send_mail", {"to": "new@shop.example", "text": "Hello"})),
        calls(("send_mail", {"to": "old@shop.example", "text": "Hello"})),
    ]
    desk = Desk(log, script, answers={"find_order": lambda call: ToolResult(success=True, data=found[call["order"]])})
    asked = await desk.say()
    assert 'to a value that "Find order" brings (others can write there)' in asked.decision.reply
    assert became(await desk.say("yes")) == [EXECUTED, EXECUTED, EXECUTED, AWAITING]
    assert [arguments["to"] for name, arguments in await desk.sent() if name == "send_mail"] == ["new@shop.example"]


async def test_a_value_that_the_model_has_sent_itself_is_none_from_a_result(log: Database) -> None:
    mails = line("send_mail", to={"from": "find_order"}, text={"own_text": True})
    echo = lambda call: ToolResult(success=True, data={"text": f"No order {call['order']}"})  # noqa: E731 (an answer)
    script = [
        plan(mails),
        calls(("find_order", {"order": "evil@evil.example"})),
        calls(("send_mail", {"to": "evil@evil.example", "text": "Hello"})),
    ]
    desk = Desk(log, script, answers={"find_order": echo})
    await desk.say()
    assert became(await desk.say("yes")) == [EXECUTED, AWAITING]


async def test_a_tool_that_always_asks_is_covered_only_by_a_line_of_one_call(log: Database) -> None:
    script = [
        plan(line("wipe", order={"is": ["W1", "W2"]})),
        plan(line("wipe", order={"is": ["W1"]})),
        calls(("wipe", {"order": "W1"})),
    ]
    desk = Desk(log, [*script, calls(("wipe", {"order": "W2"}))])
    asked = await desk.say()
    assert asked.decision.pending_action is not None
    assert became(await desk.say("yes")) == [EXECUTED, AWAITING]


async def test_a_no_means_no_second_plan_for_the_message(log: Database) -> None:
    desk = Desk(log, [plan(), plan(), says("All right."), plan()])
    await desk.say()
    declined = await desk.say("no")
    assert declined.decision.decision_type is DecisionType.CANCEL_PENDING
    # Another request in place of a yes or a no.
    desk.turns.pop()
    other = await desk.say("please show me what W7 and W8 are about instead of that, and then tell me what they cost")
    assert other.decision.pending_action is None
    assert (await desk.say("now refund them")).decision.pending_action is not None
    assert await desk.log.read(lambda connection: list_mandates(connection, desk.clock.now())) == []


async def revoke(desk: Desk) -> None:
    assert await desk.log.write(lambda connection: revoke_open(connection, desk.log.time(), Sealer(None), by="ann")) == 1


async def expire(desk: Desk) -> None:
    desk.clock.advance(minutes=60)


async def set_back(desk: Desk) -> None:
    desk.clock.advance(hours=-3)


async def change_rules(desk: Desk) -> None:
    desk.engine = desk.new_engine(ASKS + BUDGET)


async def stop_and_resume(desk: Desk) -> None:
    placed = await place_stop(desk.log, Stop(number=0, scope=StopScope.TOOL, name="refund", reason="wrong refunds"))
    await end_stop(desk.log, placed.number, Sealer(None), by="op", reason="over")


async def nothing(desk: Desk) -> None:
    del desk


@pytest.mark.parametrize(
    ("event", "became_of_it"),
    [(nothing, EXECUTED), (revoke, AWAITING), (expire, AWAITING), (set_back, AWAITING), (change_rules, AWAITING)],
)
async def test_a_mandate_holds_for_later_messages_until_it_ends(
    log: Database, event: Callable[[Desk], Any], became_of_it: CallDisposition
) -> None:
    desk = Desk(log, [plan(), says("Which one?"), calls(refund()), says("Done.")])
    await desk.say()
    await desk.say("yes")
    await event(desk)
    turn = await desk.say("W1, please")
    assert became(turn) == [became_of_it]
    assert len(await desk.sent()) == (became_of_it is EXECUTED)


@pytest.mark.parametrize(
    "clock", [ManualClock(), ManualClock(datetime.now(UTC) + timedelta(minutes=2))], ids=["behind", "ahead"]
)
async def test_a_stop_since_the_yes_has_revoked_the_mandate_also_if_it_has_ended(log: Database, clock: ManualClock) -> None:
    desk = Desk(log, [plan(), says("Which one?"), calls(refund()), says("Done.")], clock=clock)
    await desk.say()
    await desk.say("yes")
    await stop_and_resume(desk)
    assert became(await desk.say("W1, please")) == [AWAITING]


async def test_another_conversation_and_another_user_have_no_part_in_a_mandate(log: Database) -> None:
    desk = Desk(log, [plan(), says("Which one?"), calls(refund()), calls(refund())])
    await desk.say()
    await desk.say("yes")
    for more in ({"conversation_id": "c2"}, {"user_id": "bob"}):
        assert became(await desk.engine.run(asks("W1", **more))) == [AWAITING]


async def test_two_turns_at_once_draw_a_line_only_as_often_as_it_permits(log: Database) -> None:
    script = [plan(line(times=1, order={"is": ["W1", "W2"]}, amount={"at_most": 50})), says("Which?")]
    desk = Desk(log, [*script, *(calls(refund(one)) for one in ("W1", "W2")), says("ok"), says("ok")])
    await desk.say()
    await desk.say("yes")
    turns = await asyncio.gather(*(desk.engine.run(asks("go", conversation_id="c1")) for _ in range(2)))
    assert sorted(map(str, [one for turn in turns for one in became(turn)])) == ["awaiting", "executed"]
    assert (await desk.mandate()).drawn == (1,)


async def test_a_covered_call_behind_one_that_is_asked_about_is_on_its_card(log: Database) -> None:
    desk = Desk(log, [plan(), calls(("ship", {"order": "W1"}), refund())])
    await desk.say()
    turn = await desk.say("yes")
    assert became(turn) == [AWAITING, AWAITING]
    assert (await desk.mandate()).drawn == (0,)


async def test_a_plan_that_cannot_be_asked_about_is_explained_to_the_model(log: Database) -> None:
    desk = Desk(log, [plan(line("ship", order={"is": ["W1"]})), says("I cannot.")])
    turn = await desk.say()
    assert turn.decision.pending_action is None
    (answer,) = [one for one in desk.model.requests[-1].messages if "no plan" in str(one) or "is in no plan" in str(one)]
    assert "line 1: ship is in no plan" in str(answer)


def answer_to_plan(model: ScriptedAdapter) -> str:
    """Return the answer of code to the last plan that the model proposed."""
    told = [one.function_response for one in model.requests[-1].messages if one.function_response is not None]
    return next(str(one.response["error"]) for one in reversed(told) if one.name == "propose_plan")


@pytest.mark.parametrize(
    ("proposed", "rules", "why"),
    [
        (calls(("propose_plan", {"lines": [REFUNDS]}), refund()), PERMIT, "not now: the other calls come first;"),
        (calls(("propose_plan", {"lines": [REFUNDS]}), ("answer", {"text": "?"})), ASKS, "not now: use this alone"),
        (plan(line(order={"is": ["W666"]}, amount={"at_most": 5})), ASKS, "the rules let none of its calls run"),
    ],
)
async def test_a_plan_that_is_not_shown_is_answered_with_the_reason(log: Database, proposed: Any, rules: str, why: str) -> None:
    desk = Desk(log, [proposed, says("All right.")], rules=rules, solver=solve)
    turn = await desk.say()
    assert turn.decision.pending_action is None
    assert why in answer_to_plan(desk.model)


async def test_a_second_plan_after_a_no_and_one_in_a_dry_run_are_answered_with_the_reason(log: Database) -> None:
    desk = Desk(log, [plan(), plan(), says("All right."), plan(), says("All right.")])
    await desk.say()
    await desk.say("please show me what W7 and W8 are about instead of that, and then tell me what they cost")
    assert answer_to_plan(desk.model).endswith("the user has not agreed to a plan, and gets no second one for this message")
    await desk.say("refund it", conversation_id="c9", dry_run=True)
    assert answer_to_plan(desk.model).endswith("a dry run asks the user nothing")


@pytest.mark.parametrize("beside", [[], [refund()], [("ask_user", {"question": "Which?", "reason": "unclear_intent"})]])
async def test_a_plan_of_a_model_that_was_not_given_the_form_is_no_tool(log: Database, beside: list[Any]) -> None:
    tools = [tool._replace(marker=tool.marker.replace("(in plans)", "").strip()) for tool in TOOLS]
    desk = Desk(log, [calls(("propose_plan", {"lines": [REFUNDS]}), *beside), says("All right.")], rules=PERMIT, tools=tools)
    await desk.say()
    assert answer_to_plan(desk.model) == "there is no such tool"


async def test_the_conversation_of_a_plan_that_was_shown_says_that_it_waits(log: Database) -> None:
    desk = Desk(log, [plan()])
    record = (await desk.say()).record
    steps = [step async for step in desk.engine.steps_of(record, await desk.engine.snapshot_of(record.header))]
    prompt = steps[-1].turn.prompt
    assert prompt is not None
    (answer,) = [one.function_response for one in prompt.request.messages if one.function_response is not None]
    assert answer.response["error"] == "waiting for the user's confirmation"


async def test_without_the_marker_no_model_is_given_the_form(log: Database) -> None:
    plain = Desk(
        log, [says("Hello.")], tools=[tool._replace(marker=tool.marker.replace("(in plans)", "").strip()) for tool in TOOLS]
    )
    await plain.say()
    assert "propose_plan" not in [tool.name for tool in plain.model.requests[0].tools]
    marked = Desk(log, [says("Hello.")])
    await marked.say(conversation_id="c9")
    assert "propose_plan" in [tool.name for tool in marked.model.requests[0].tools]


async def test_a_model_is_not_given_the_form_if_nobody_would_keep_the_yes() -> None:
    model = ScriptedAdapter([plan(), says("I cannot.")])
    server = TableServer(served=declarations_of(TOOLS), reads=["find_order"])
    settings = grouped(audit=MemoryAuditWriter(), conditions=ConditionsFile(ASKS), config=LONG)
    engine = LLMAgentEngine(model, server, constitution_of(TOOLS), **settings)
    turn = await engine.run(asks("refund it"))
    assert turn.decision.pending_action is None
    assert "propose_plan" not in [tool.name for tool in model.requests[0].tools]
    texts = await engine.audit.texts(list(turn.record.header.digests.values()))
    assert (await replay(turn.record, texts)).identical


async def test_the_log_states_a_revocation_and_verify_finds_a_plan_that_was_put_in_force_again(log: Database) -> None:
    lines = line(times=3, order={"is": ["W1", "W2"]}, amount={"at_most": 50})
    desk = Desk(log, [plan(lines), calls(refund("W1")), says("Done."), calls(refund("W2")), says("Done.")])
    await desk.say()
    await desk.say("yes")
    await revoke(desk)
    tree = tree_of(log, None)
    await tree.seal()
    assert (await verified(log, key=None)).violations == []

    name = (await desk.mandate()).mandate.id
    again = update(mandates).values(state=MandateState.OPEN, ended_at=None, ended_by=None)
    await log.write(lambda connection: connection.execute(again).close())
    assert became(await desk.say("one more")) == [EXECUTED]
    await tree.seal()
    assert [one.text for one in (await verified(log, key=None)).violations] == [
        f"the plan {name} is not revoked, and the log has stated that it is: it was changed by hand",
        f"2 calls ran under the plan {name}, of which 1 were drawn before its end",
    ]
    await log.write(lambda connection: connection.execute(update(mandates).values(user_id="bob")).close())
    assert (await verified(log, key=None)).violations[0].text == (
        f"the plan {name} was added or changed by hand: it covers no call"
    )


class WaitingWriter(DatabaseAuditWriter):
    """A writer that draws only when as many turns as the barrier has parties are about to."""

    barrier: asyncio.Barrier

    async def reserve(self, *arguments: Any, **named: Any) -> Any:
        await self.barrier.wait()
        return await super().reserve(*arguments, **named)


async def test_of_two_processes_at_the_last_draw_one_runs_and_one_asks(log: Database, database_url: str) -> None:
    desk = Desk(log, [plan(line(order={"is": ["W1"]}, amount={"at_most": 50})), says("Agreed.")])
    await desk.say()
    await desk.say("yes")
    barrier, others = asyncio.Barrier(2), [Database.open(database_url) for _ in range(2)]
    turns = []
    for number, other in enumerate(others, 1):
        process = Desk(log, [calls(refund("W1", number)), says("Done.")], clock=desk.clock)
        writer = WaitingWriter(other, clock=desk.clock)
        writer.barrier = barrier
        turns.append(process.new_engine(audit=writer).run(asks("now")))
    finished = await asyncio.gather(*turns)
    assert sorted(str(one) for turn in finished for one in became(turn)) == [AWAITING, EXECUTED]
    assert (await desk.mandate()).drawn == (1,)
    for other in others:
        await other.close()
