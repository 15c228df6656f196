"""Promises that are proved hold for every call that is sent: random policies, and turns with batches, failures and yeses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from graph_agent.analysis.questions import Answer, prove
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.graph import batch
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation, Verdict
from graph_agent.policy.cedar.evaluation import CedarConditions
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.signature import Signer
from graph_agent.ports import SentCall
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.policy.cedar_shop import PERMIT, ShopTool, constitution_of, declarations_of, facts, policy_of, schema
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped

NUMBER = schema("n", n={"type": "integer", "minimum": 0, "maximum": 2})
TOOLS = (
    ShopTool("a", NUMBER),
    ShopTool("b", NUMBER),
    ShopTool("c", NUMBER, marker="(at most 2 per message)"),
    ShopTool("r", NUMBER, reads=True),
)
NAMES = [tool.name for tool in TOOLS]
LOST = failed(ToolErrorCode.TIMEOUT_ERROR)
OUTCOMES = [done(), done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR), failed(ToolErrorCode.TOOL_REPORTED_FAILURE), LOST]


class RandomRules:
    """Makes rules about what the calls before a call have done."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def policy(self) -> list[str]:
        return [self._rule(number, self.random.choice(["", "", " unless { context.confirmed }"])) for number in range(4)]

    def promises(self, rules: list[str]) -> str:
        """Return the rules themselves, without their exception for a yes, and others."""
        kept = [rule.replace(" unless { context.confirmed }", "").replace('"rule ', '"kept ') for rule in rules]
        return "\n".join([*kept, *(self._rule(number, "").replace('"rule ', '"promise ') for number in range(6))])

    def _rule(self, number: int, asks: str) -> str:
        pick = self.random.choice
        tests = " && ".join(self._test() for _ in range(pick([1, 1, 2])))
        return f'@id("rule {number}") forbid (principal, action == Action::"{pick(NAMES)}", resource) when {{ {tests} }}{asks};'

    def _test(self) -> str:
        pick = self.random.choice
        made = f'context.{pick(["succeeded", "attempted"])}.contains(Action::"{pick(NAMES)}")'
        test = pick(
            [
                *[made] * 6,
                f"context.used.message.{pick(['calls', 'writes'])} {pick(['>', '<'])} {pick([1, 2])}",
                f"context.arguments.n > {pick([0, 1])}",
                f"context.{pick(['succeeded', 'attempted'])}.isEmpty()",
            ]
        )
        return f"{pick(['', '!'])}({test})"


@dataclass
class Witness(TableServer):
    """A server that compares each call that it gets with the promises, by what has truly happened before."""

    promises: CedarConditions | None = None
    random: Random = field(default_factory=lambda: Random(0))
    succeeded: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    message: list[PastCall] = field(default_factory=list)
    confirmed: bool = False
    broken: list[str] = field(default_factory=list)

    def traits(self, tool_name: str) -> ToolTraits:
        reads = next(tool.reads for tool in TOOLS if tool.name == tool_name)
        return ToolTraits(title=tool_name, read_only=reads, ledger=self.ledger and not reads)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        assert self.promises is not None
        self.sent.append((call.tool_name, call.arguments, call.user_id, None))
        true = facts(succeeded=sorted(self.succeeded), attempted=sorted(self.attempted))
        decided = self.promises.judge(call.tool_name, call.arguments, Situation("ann", (), true, self.message))
        if decided.verdict is Verdict.REFUSED or (decided.verdict is Verdict.ASKS and not self.confirmed):
            self.broken += decided.reasons
        return self._ended(call, self.random.choice(OUTCOMES))

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        self.message.pop()
        return self._ended(call, self.random.choice([done(), failed(ToolErrorCode.TOOL_EXECUTION_ERROR), LOST]))

    def _ended(self, call: SentCall, result: ToolResult) -> ToolResult:
        self.attempted.add(call.tool_name)
        if result.success:
            self.succeeded.add(call.tool_name)
        known = {"may_have_run": result.may_be_done, "succeeded": result.success}
        self.message.append(PastCall(0, call.tool_name, call.arguments, **known))
        return result


@dataclass
class Found:
    proved: int = 0
    sent: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)


def policies(count: int) -> Iterator[tuple[str, str, RandomRules]]:
    """Yield policies with promises, as the text of their rules, and the generator for their turns."""
    for seed in range(count):
        made = RandomRules(seed)
        rules = made.policy()
        yield PERMIT + "\n".join(rules), made.promises(rules), made


async def play(log: Database, count: int) -> Found:
    """Prove the promises of random policies, run conversations under them, and return what the servers have found."""
    found, writer = Found(), DatabaseAuditWriter(log, clock=ManualClock())
    for number, (rules, promises, made) in enumerate(policies(count)):
        policy = policy_of(TOOLS, rules)
        proofs = prove(policy, ConditionsFile(promises, "promises.cedar"), 5)
        proved = {result.name for result in proofs if result.answer is Answer.PROVED}
        kept = "\n".join(one for one in promises.splitlines() if one.split('"')[1] in proved)
        if not kept:
            continue
        promised = policy.with_conditions(ConditionsFile(f"{PERMIT} {kept}")).conditions
        assert promised is not None
        found.proved += len(proved)
        server = Witness(
            served=declarations_of(TOOLS), promises=promised, random=made.random, ledger=made.random.random() < 0.5
        )
        for _ in range(6):
            await converse(server, writer, rules, made.random, f"conversation {number}", found)
        found.sent += len(server.sent)
        found.broken += [f"{one}: {rules}" for one in server.broken]
    return found


async def converse(
    server: Witness, writer: DatabaseAuditWriter, rules: str, random: Random, conversation: str, found: Found
) -> None:
    """Run one message with one or two batches; a question is answered with yes or no."""
    batches = [
        calls(*((random.choice(NAMES), {"n": random.randrange(4)}) for _ in range(random.randrange(1, 6))))
        for _ in range(random.randrange(1, 3))
    ]
    server.message, server.confirmed = [], False
    ports = {"audit": writer, "clock": ManualClock(), "ids": RandomIds(), "signer": Signer(SECRET)}
    settings = grouped(**ports, conditions=ConditionsFile(rules))
    adapter = ScriptedAdapter([*batches, says("Done.")])
    engine = LLMAgentEngine(adapter, server, constitution_of(TOOLS), **settings)
    finished = await engine.run(asks(conversation_id=conversation))
    found.refused += sum(one.disposition is CallDisposition.REFUSED for one in finished.record.invocations)
    texts = await writer.texts(list(finished.record.header.digests.values()))
    assert (await replay(finished.record, texts)).identical
    if finished.decision.pending_action is not None:
        server.message, server.confirmed = [], True
        await engine.answer(finished, yes=random.random() < 0.8)


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.nightly)])
async def test_no_call_that_is_sent_breaks_a_promise_that_is_proved(log: Database, count: int) -> None:
    found = await play(log, count)
    assert found.broken == []
    # There is enough of everything.
    assert found.proved > 3 * count
    assert found.sent > 5 * count
    assert found.refused > 5 * count


async def test_a_verdict_that_ignores_how_the_calls_before_it_ended_is_found(
    log: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A planted mistake, which the comparison has to find: every call before another one passes for done.
    monkeypatch.setattr(
        batch, "past_call", lambda call: PastCall(call.sequence, call.call.name, call.arguments, succeeded=True)
    )
    assert (await play(log, 6)).broken != []


def test_a_promise_about_called_is_an_error_with_the_two_names() -> None:
    called = 'forbid (principal, action, resource) when { context.called.contains(Action::"a") };'
    with pytest.raises(ConfigurationError, match=r"promises.cedar, line 1: there is no `context.called`"):
        prove(policy_of(TOOLS, PERMIT), ConditionsFile(called, "promises.cedar"), 5)
