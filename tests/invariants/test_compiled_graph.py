"""An exhaustive exploration of the compiled graph: every node with every answer of its ports."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from langgraph.runtime import Runtime

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.graph.build import CompiledGraph
from graph_agent.graph.ports import Drawn, WantedRead
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.topology import END, START, TOPOLOGY
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import MAX_OPEN_REQUESTS, ApprovalAnswer, ApprovalState, ApproverIdentity, KnownRequests
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import (
    AfterYes,
    ApprovalRequest,
    ClosedRequest,
    DecisionContext,
    DecisionType,
    EarlierCall,
    PendingAction,
    PendingCall,
)
from graph_agent.models.facts import FactRead, Facts, PastUse, PastUses
from graph_agent.models.llm import FunctionCall, LLMErrorCause, LLMErrorCode, LLMResponse
from graph_agent.models.mandate import Covered, Is, Line, Mandate, PermittedLine, Plan, RecordedPlan, WantedDraw
from graph_agent.models.prompt import Prompt
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import BatchSources, CallSources, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsFile, ConditionsVerdict, Situation, Verdict
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.record.audit_writer import NoApprovalRequests
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.fixed import FORBIDDEN_NOT_DONE
from graph_agent.reply.forms import REPLY_FORMS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.words.confirmation import digest_of_call
from graph_agent.words.reasons import rule_of
from graph_agent.words.said import Known, say
from tests.invariants.calls import ADD, DELETE, DONE, LIST, PREVIEWS, UNKNOWN, VOIDED
from tests.invariants.checks import CONFIRMED_TOOL, WHITELIST, confirmed_action
from tests.scripted_turns import SECRET, TableServer, asks, calls, ends, engine_of, failed, grouped


@dataclass(frozen=True)
class PortAnswers:
    """What the ports return while one node runs."""

    answer: LLMResponse | None = None
    result: ToolResult = DONE
    settled: ToolResult = DONE
    preview: ToolResult = PREVIEWS[CONFIRMED_TOOL]
    verified: bool = True
    unused: bool = True
    late: bool = False
    differing: tuple[str, ...] = ()
    """The rules that are not those of the question."""
    interrupted: bool = False
    forbidden: LLMErrorCause | None = None
    used: int = 0
    """The earlier calls of today of each tool, when a batch is judged."""
    reserved: Verdict | None = Verdict.RUNS
    runs: bool = True
    """False if no line of a plan ever runs."""
    known: KnownRequests = field(default_factory=KnownRequests)


class NodePorts:
    """`TurnPorts` that return one `PortAnswers` and collect the calls that were sent and the yeses that were used up."""

    def __init__(self, answers: PortAnswers, sent: list[AuthorizedCall]) -> None:
        self._answers = answers
        self.sent = sent
        self.consumed: list[bool] = []
        self.minted: list[str] = []

    @property
    def interrupted(self) -> bool:
        return self._answers.interrupted

    @property
    def forbidden(self) -> LLMErrorCause | None:
        return self._answers.forbidden

    def reach_interruption(self) -> bool:
        return self._answers.interrupted

    def intend(self, calls: Sequence[AuthorizedCall]) -> None:
        pass

    def now(self) -> datetime:
        return ManualClock().now() + timedelta(minutes=10 if self._answers.late else 0)

    def new_id(self) -> str:
        return "p2"

    def sign(self, pending: PendingAction) -> str:
        return f"signed {pending.id}"

    def verify(self, pending: PendingAction) -> bool:
        assert pending.id == "p1"
        return self._answers.verified

    def differing_rules(self, pending: PendingAction) -> list[str]:
        assert pending.id == "p1"
        return list(self._answers.differing)

    async def known_requests(self, call: FunctionCall) -> KnownRequests:  # noqa: ARG002 (of any call)
        return self._answers.known

    async def consume(self, pending: PendingAction, *, yes: bool | None) -> bool:  # noqa: ARG002 (any answer is used)
        assert pending.id == "p1"
        self.consumed.append(self._answers.unused)
        return self._answers.unused

    async def facts(self, conditions: Conditions) -> Facts:
        now = self.now()
        earlier = [PastUse(tool, {}, now) for tool in WHITELIST for _ in range(self._answers.used)]
        return conditions.facts(now, PastUses(earlier))

    async def sources(
        self,
        batch: Sequence[FunctionCall],  # noqa: ARG002 (of the port)
        made: Sequence[ReadCall],  # noqa: ARG002
        *,
        needed: bool = True,
    ) -> BatchSources | None:
        assert not needed, "no condition reads sources"
        return None

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict | None:
        assert conditions.counts(call.tool_name)
        assert (situation.user_id, confirmed) == ("ann", call.operation_key == "p1")
        return None if self._answers.reserved is None else ConditionsVerdict(self._answers.reserved, ("a budget",))

    async def covered(
        self, call: FunctionCall, sources: CallSources | None, made: Sequence[ReadCall], *, exact: bool
    ) -> Covered | None:
        raise AssertionError(f"no tool is in plans: {call}, {sources}, {made}, {exact}")

    async def draw(
        self, call: AuthorizedCall, wanted: WantedDraw, ruling: ConditionsVerdict, conditions: Any, situation: Situation
    ) -> Drawn | None:
        raise AssertionError(f"no tool is in plans: {call}, {wanted}, {ruling}, {conditions}, {situation}")

    async def permitted(self, plan: Plan) -> list[PermittedLine]:
        assert plan == PLAN.plan
        return [PermittedLine(line if self._answers.runs else None) for line in plan.lines]

    async def mint(self, pending: PendingAction) -> Mandate:
        assert pending.plan is not None
        assert self.consumed == [True]
        self.minted.append(pending.id)
        at, rules = self.now(), pending.asked_under
        named = {"id": pending.id, "user_id": "ann", "conversation_id": "c1", "decision_id": "d1"}
        return Mandate(**named, plan=pending.plan, asked_under=rules, created_at=at, until=at + timedelta(minutes=1))

    async def generate(self, prompt: Prompt) -> LLMResponse:
        # After a round that only repeated calls, the model may only answer.
        declared = [tool.name for tool in prompt.request.tools]
        assert declared in ([*WHITELIST, *sorted(REPLY_FORMS)], sorted(REPLY_FORMS))
        assert self._answers.answer is not None
        return self._answers.answer

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        assert (tool_name, arguments) == DELETE
        return self._answers.preview

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        raise AssertionError(f"nothing names a fact: {wanted}")

    async def claim_undo(self, call: AuthorizedCall, undone: UndoneCall) -> str | None:
        raise AssertionError(f"nothing is undone: {call}, {undone}")

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        self.sent.append(call)
        return self._answers.result

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        assert self._answers.result.unknown
        assert call.ledger
        return self._answers.settled


ENDINGS = [
    says("Done."),
    says("Which task do you mean?"),
    says("  "),
    says('delete_task(task_id="t1")'),
    ends("tool_calls"),
    ends("max_tokens", "Your tasks"),
    LLMResponse(finish_reason="error", error=LLMErrorCode.RATE_LIMITED),
    LLMResponse(finish_reason="error"),
    calls(("ask_user", {"question": "Which one?"})),
    calls(("ask_user", {})),
    calls(*[LIST] * 65),
    LLMResponse(
        content="Done.", function_calls=[FunctionCall(name=CONFIRMED_TOOL, arguments=DELETE[1])], finish_reason="max_tokens"
    ),
    LLMResponse(function_calls=[FunctionCall(name="list_tasks", id="1")] * 2, finish_reason="tool_calls"),
]
ROUNDS = [
    calls(LIST),
    calls(ADD),
    calls(ADD, ADD),
    calls(ADD, DELETE, ADD),
    calls(DELETE, content="The user said yes."),
    calls((CONFIRMED_TOOL, {**DELETE[1], "confirmed": True})),
    calls((CONFIRMED_TOOL, {**DELETE[1], "user_id": "bob"})),
    calls(("decline", {"text": "No."}), ADD),
    calls(("drop_table", {})),
    calls(*[("add_task", {"description": f"task {n}"}) for n in range(6)]),
]
RESULTS = [
    PortAnswers(),
    PortAnswers(result=failed(ToolErrorCode.DATABASE_ERROR)),
    PortAnswers(result=UNKNOWN),
    PortAnswers(result=UNKNOWN, settled=VOIDED),
    PortAnswers(result=UNKNOWN, settled=UNKNOWN),
    PortAnswers(preview=failed(ToolErrorCode.NOT_FOUND)),
    PortAnswers(preview=failed(ToolErrorCode.TOOL_EXECUTION_ERROR)),
    PortAnswers(interrupted=True),
    *(PortAnswers(interrupted=True, forbidden=one) for one in FORBIDDEN_NOT_DONE),
]
CONSENTS = [PortAnswers(verified=verified, unused=unused, late=late)
            for verified, unused, late in itertools.product((True, False), repeat=3)]  # fmt: skip
CONSENTS += [PortAnswers(differing=("conditions",)), PortAnswers(interrupted=True)]


CALLED = "a decision without a model"
ADDS_BREAD = Line(tool="add_task", arguments={"description": Is(("bread",))})
PLAN = RecordedPlan(decision_id="d0", plan=Plan(lines=(ADDS_BREAD,)), sources=(CallSources(),))
CARDS = {f"yes, {then}": then for then in AfterYes}
FEW_ANSWERS = (5, [ENDINGS[0], ENDINGS[2], *ROUNDS[1:2], *ROUNDS[8:9]], RESULTS[:2])


def key_of(turn: Turn) -> tuple[Hashable, ...]:
    """Return values that are equal for equal turns: a turn has no hash, and to compare it with every other one takes long."""
    response = turn.response
    calls = tuple((call.call.name, call.disposition, call.result.error_code, call.receipt) for call in turn.calls)
    answered = None if response is None else (response.finish_reason, response.content, len(response.function_calls or ()))
    return turn.outcome, turn.iterations, turn.adapter_calls, turn.ending, turn.notices, calls, answered


async def explore(
    graph: CompiledGraph,
    start: Turn,
    runtimes: Callable[[str], Sequence[Callable[[], TurnRuntime]]],
    forget: Callable[[Turn], Turn],
) -> AsyncGenerator[tuple[str, Turn, Turn]]:
    """Yield every reachable `(state, turn before, turn after)`, breadth first, until no new turn appears.

    `runtimes` returns factories of the runtimes that a node may run with; turns that are equal after `forget` count as one.
    """
    frontier: list[tuple[str, Turn]] = [(START, start)]
    seen: dict[Hashable, list[Turn]] = {}
    while frontier:
        following: list[tuple[str, Turn]] = []
        for state, before in frontier:
            for make in runtimes(state):
                update = await graph.nodes[state].bound.ainvoke({"turn": before}, runtime=Runtime(context=make()))
                after: Turn = update["turn"]
                yield state, before, after
                entered, after = TOPOLOGY[state][after.outcome], forget(after)
                alike = seen.setdefault((entered, *key_of(after)), [])
                if entered != END and after not in alike:
                    alike.append(after)
                    following.append((entered, after))
        frontier = following


def shown_action(snapshot: PolicySnapshot, clock: ManualClock) -> PendingAction:
    """Return the action that waits, as the question showed it: its preview is still the same."""
    known = Known(PREVIEWS[CONFIRMED_TOOL])
    description = say(snapshot.policy.rules[CONFIRMED_TOOL], DELETE[1], known).text
    return confirmed_action(Signer(SECRET), clock.now()).replace(
        description=description, whole_digest=digest_of_call(snapshot.policy.rules[CONFIRMED_TOOL], DELETE[1], known)
    )


def shown_card(snapshot: PolicySnapshot, clock: ManualClock, then: AfterYes) -> PendingAction:
    """Return a card of a deletion and an addition, after another addition."""
    one = shown_action(snapshot, clock)
    calls = one.each[0], PendingCall(tool_name="add_task", arguments=ADD[1], description="Add task")
    before = EarlierCall(tool_name="add_task", arguments={"description": "task 0"})
    return one.replace(calls=calls, then=then, done_before=(before,))


def forget(turn: Turn) -> Turn:
    """Return a turn without what no node reads back: the messages behind the first one, and the token usage."""
    if turn.prompt is None:
        return replace(turn, usage=None)
    first = turn.prompt.request.model_copy(update={"messages": turn.prompt.request.messages[:1]})
    return replace(turn, prompt=Prompt(first, turn.prompt.origins[:1]), usage=None)


@pytest.mark.parametrize(
    ("message", "rounds", "answers", "results"),
    [
        pytest.param("delete it", 2, [*ENDINGS, *ROUNDS], RESULTS, id="every answer in two rounds"),
        pytest.param(CALLED, 2, [], RESULTS, id=CALLED),
        *(
            pytest.param(message, *FEW_ANSWERS, id=message)
            for message in ("delete it", "yes", "no", "yes, and everything else")
        ),
        *(pytest.param(f"yes, {then}", 2, [*FEW_ANSWERS[1], *ROUNDS[3:5]], RESULTS, id=f"a card, {then}") for then in AfterYes),
    ],
)
async def test_no_path_through_the_compiled_graph_exceeds_the_limits(
    message: str, rounds: int, answers: list[LLMResponse], results: list[PortAnswers]
) -> None:
    clock = ManualClock()
    server = TableServer({}, PREVIEWS)
    engine = engine_of(server=server, clock=clock, config=AgentEngineConfig(max_iterations=rounds))
    snapshot: PolicySnapshot = await engine.prepare()
    pending = None if message in ("delete it", CALLED) else shown_action(snapshot, clock)
    if message in CARDS:
        pending, message = shown_card(snapshot, clock, CARDS[message]), "yes"
    sent: list[AuthorizedCall] = []

    def make_runtime(answers: PortAnswers) -> TurnRuntime:
        return TurnRuntime(NodePorts(answers, sent), snapshot)

    def runtimes(state: str) -> Sequence[Callable[[], TurnRuntime]]:
        possible = {
            "BUILD_REQUEST": CONSENTS,
            "INVOKE_LLM": [PortAnswers(answer) for answer in answers],
            "EXECUTE_TOOLS": results,
        }
        return [partial(make_runtime, answers) for answers in possible.get(state, [PortAnswers()])]

    context = asks(message, pending_confirmation=pending)
    if message == CALLED:
        context = DecisionContext.for_calls("ann", [FunctionCall(*LIST), FunctionCall(*ADD), FunctionCall(*DELETE)], "c1")
    start = Turn(context, "d1", ManualClock().now())
    taken = set()
    async for state, before, after in explore(engine.graph, start, runtimes, forget):
        taken.add((state, after.outcome))
        assert after.outcome in TOPOLOGY[state]
        assert after.iterations <= rounds
        assert after.adapter_calls <= rounds
        assert len(after.calls) <= 64 * rounds
        assert [call.sequence for call in after.calls] == list(range(1, len(after.calls) + 1))
        if state == "BUILD_REQUEST" and after.outcome == "confirmed":
            assert read_consent(message, [("Remove tasks", "Delete task")]) is Consent.YES
        consented = before.outcome == "confirmed"
        for call in sent:
            assert state == "EXECUTE_TOOLS"
            assert call.tool_name in WHITELIST
            assert call.user_id == "ann"
            assert call.tool_name != CONFIRMED_TOOL or (consented and call.operation_key == "p1" and pending is not None)
            # The calls of a card have its keys, and nothing that follows them has.
            assert (call.operation_key in ("p1", "p1:2")) == consented
        if consented and pending is not None:
            assert [call.operation_key for call in sent] == ["p1", "p1:2"][: len(sent)]
            assert len(sent) <= len(pending.each)
            if after.outcome == "executed":
                assert pending.then is not AfterYes.END
                assert not any(call.result.unknown for call in after.calls)
        assert len(sent) <= 5
        sent.clear()
        if state == "BUILD_DECISION":
            assert before.decision is None
            assert after.decision is not None
            assert after.decision.reply.strip()
            executed = [call for call in after.calls if call.disposition is CallDisposition.EXECUTED]
            assert len(executed) <= 10
    assert any(state == "BUILD_DECISION" for state, _ in taken)
    if message == "delete it" and rounds == 2:
        outcomes = {(state, outcome) for state, names in TOPOLOGY.items() for outcome in names}
        without_model = {
            "confirmed", "declined", "unclear", "void_answer", "called", "proposed", "agreed", "confirmed_done", "called_done"
        }  # fmt: skip
        assert taken == {(state, outcome) for state, outcome in outcomes if outcome not in without_model}
    if message == CALLED:
        assert taken == {
            ("BUILD_REQUEST", "called"),
            ("EXECUTE_TOOLS", "awaiting"),
            ("EXECUTE_TOOLS", "called_done"),
            ("BUILD_DECISION", "decided"),
        }


@pytest.mark.parametrize("marker", ["", " (in plans)"])
@pytest.mark.parametrize("runs", [True, False])
async def test_a_plan_from_the_record_is_asked_about_and_nothing_is_sent(marker: str, runs: bool) -> None:
    """Two states and no port of the model or of a tool: what the plan permits waits for the yes, as every other plan does."""
    added = '"Add task[ {description}]"'
    constitution = Constitution.load(None).text.replace(added, added + marker)
    # Only a database keeps the yes to a plan.
    audit = DatabaseAuditWriter(Database.open("sqlite://"))
    settings = grouped(clock=ManualClock(), signer=Signer(SECRET), audit=audit)
    engine = LLMAgentEngine(ScriptedAdapter([]), TableServer({}, PREVIEWS), constitution, **settings)
    snapshot, sent = await engine.prepare(), list[AuthorizedCall]()
    answers = PortAnswers(runs=runs)
    start = Turn(DecisionContext.for_plan("ann", PLAN, "c1"), "d1", ManualClock().now())
    taken = [
        (state, after)
        async for state, _, after in explore(
            engine.graph, start, lambda _: [lambda: TurnRuntime(NodePorts(answers, sent), snapshot)], forget
        )
    ]
    assert [(state, after.outcome) for state, after in taken] == [("BUILD_REQUEST", "proposed"), ("BUILD_DECISION", "decided")]
    decision, asks_it = taken[-1][1].decision, bool(marker) and runs
    assert decision is not None
    assert (decision.pending_action is not None) is asks_it
    assert (decision.decision_type is DecisionType.REQUEST_CONFIRMATION) is asks_it
    assert decision.pending_action is None or (decision.pending_action.plan, decision.pending_action.signature) == (
        PLAN.plan,
        "signed p2",
    )
    assert sent == []
    audit.database.close_now()


@pytest.mark.parametrize("message", ["yes", "no", "yes, and everything else", "delete it"])
async def test_a_standing_plan_begins_with_its_own_yes_once_and_nothing_is_sent(message: str) -> None:
    engine = engine_of(server=TableServer({}, PREVIEWS), clock=ManualClock())
    snapshot = await engine.prepare()
    plan = Plan(lines=(ADDS_BREAD,), job="nightly")
    asked = shown_action(snapshot, ManualClock()).replace(tool_name="propose_plan", arguments=plan.to_json(), plan=plan)
    start = Turn(asks(message, pending_confirmation=asked), "d1", ManualClock().now())
    ports: list[NodePorts] = []
    possible = {"BUILD_REQUEST": CONSENTS, "INVOKE_LLM": [PortAnswers(ENDINGS[0])]}

    def make(answers: PortAnswers) -> TurnRuntime:
        ports.append(NodePorts(answers, []))
        return TurnRuntime(ports[-1], snapshot)

    def runtimes(state: str) -> Sequence[Callable[[], TurnRuntime]]:
        return [partial(make, answers) for answers in possible.get(state, [PortAnswers()])]

    begun = 0
    async for state, _, after in explore(engine.graph, start, runtimes, forget):
        node = ports.pop()
        assert node.sent == []
        assert (after.outcome == "agreed") is bool(node.minted)
        assert not node.minted or (state, node.minted, node.consumed) == ("BUILD_REQUEST", ["p1"], [True])
        begun += len(node.minted)
    assert (begun > 0) is (message == "yes")


BUDGETS = ConditionsFile(
    """permit (principal, action, resource);
    @id("asks") forbid (principal, action, resource) when { context.used.day.calls > 10 } unless { context.confirmed };
    @id("refuses") forbid (principal, action, resource) when { context.used.day.calls > 20 };"""
)
"""Ten earlier calls ask, and twenty refuse."""


@pytest.mark.parametrize("message", ["delete it", "yes", CALLED])
async def test_the_compiled_graph_sends_what_guard_and_reservation_permit_and_uses_up_each_yes_once(message: str) -> None:
    """The proofs of `policy prove` are about calls that the guard accepts: this is the bridge to the calls that are sent."""
    clock, log = ManualClock(), Database.open("sqlite://")
    server, audit = TableServer({}, PREVIEWS), DatabaseAuditWriter(log)
    config = AgentEngineConfig(max_iterations=2)
    engine = engine_of(server=server, clock=clock, audit=audit, conditions=BUDGETS, config=config)
    snapshot: PolicySnapshot = await engine.prepare()
    pending = shown_action(snapshot, clock) if message == "yes" else None
    context = asks(message, pending_confirmation=pending)
    if message == CALLED:
        context = DecisionContext.for_calls("ann", [FunctionCall(*ADD), FunctionCall(*LIST), FunctionCall(*DELETE)], "c1")
    budgets = [PortAnswers(used=used, reserved=reserved) for used in (0, 10, 20) for reserved in (*Verdict, None)]
    possible = {
        "BUILD_REQUEST": CONSENTS,
        "INVOKE_LLM": [PortAnswers(answer) for answer in (*ENDINGS[:1], *ROUNDS[:5])],
        "EXECUTE_TOOLS": budgets,
    }
    ports: list[tuple[PortAnswers, NodePorts]] = []

    def make(answers: PortAnswers) -> TurnRuntime:
        ports.append((answers, NodePorts(answers, [])))
        return TurnRuntime(ports[-1][1], snapshot)

    def runtimes(state: str) -> Sequence[Callable[[], TurnRuntime]]:
        return [partial(make, answers) for answers in possible.get(state, [PortAnswers()])]

    confirmed_calls, asked, refused = 0, 0, 0
    async for state, before, after in explore(engine.graph, Turn(context, "d1", ManualClock().now()), runtimes, forget):
        answers, node = ports.pop()
        if after.outcome == "confirmed":
            assert node.consumed == [True]
        else:
            assert state == "BUILD_REQUEST" or not node.consumed
        if state != "EXECUTE_TOOLS":
            assert not node.sent
            continue
        consented = before.outcome == "confirmed"
        # Without a yes the call must need none: neither by the facts of its batch nor by its reservation.
        permitted = answers.used < 20 and answers.reserved is not Verdict.REFUSED if consented else answers.used < 10
        permitted = permitted and answers.reserved in ((Verdict.RUNS, Verdict.ASKS) if consented else (Verdict.RUNS,))
        assert permitted or not node.sent
        assert all(call.tool_name != CONFIRMED_TOOL or consented for call in node.sent)
        if consented:
            # A confirmed call ends its turn, so that the yes, which cannot be used up again, permits one call.
            assert len(node.sent) == permitted
            assert after.outcome == (
                "awaiting" if answers.reserved is Verdict.WAITS and answers.used < 20 else "confirmed_done"
            )
            assert all(call.operation_key == "p1" for call in node.sent)
        confirmed_calls += consented and len(node.sent)
        asked += after.pending is not None and answers.reserved is Verdict.ASKS
        refused += any(rule_of(call) == "a budget" for call in after.calls)
    assert (confirmed_calls > 0) is (message == "yes")
    assert refused
    assert asked
    log.close_now()


WAITING = ConditionsFile(
    """permit (principal, action, resource);
    @id("two people") forbid (principal, action == Action::"delete_task", resource)
    unless { context.approvals.manager + context.approvals.finance >= 2 };""",
    roles=("finance", "manager"),
)
KNOWN = (
    KnownRequests(),
    KnownRequests(same="r1"),
    KnownRequests(denied="denied by 'bob'"),
    KnownRequests(open=MAX_OPEN_REQUESTS),
)
CHANGED = PortAnswers(preview=ToolResult(success=True, data={"description": "another task"}))


def answers_of(*people: tuple[str, bool, str]) -> tuple[ApprovalAnswer, ...]:
    shared: dict[str, Any] = {"digest": "d", "identity": ApproverIdentity.TOKEN, "answered_at": ManualClock().now()}
    return tuple(ApprovalAnswer(approver=name, approve=yes, role=role, **shared) for name, yes, role in people)


@pytest.mark.parametrize(
    ("end", "people"),
    [
        (None, ()),
        (ApprovalState.APPROVED, ()),
        (ApprovalState.APPROVED, (("bob", True, "manager"),)),
        (ApprovalState.APPROVED, (("bob", True, "manager"), ("eve", True, "finance"))),
        (ApprovalState.APPROVED, (("bob", True, "manager"), ("ann", True, "finance"))),
        *(
            (end, (("bob", True, "manager"), ("eve", True, "manager")))
            for end in ApprovalState
            if end.value in "denied cancelled expired void"
        ),
    ],
)
@pytest.mark.parametrize("confirmed", [True, False])
async def test_aisvs_9_2_1_no_path_of_the_compiled_graph_sends_a_call_that_waits_without_its_claim(
    end: ApprovalState | None, people: tuple[tuple[str, bool, str], ...], confirmed: bool
) -> None:
    """Of a message, of the user's yes, and of every closing decision: only one with two other people's approvals sends it."""
    clock, server = ManualClock(), TableServer({}, PREVIEWS)
    requests = NoApprovalRequests()
    engine = engine_of(
        server=server, clock=clock, conditions=WAITING, approvals=requests, config=AgentEngineConfig(max_iterations=2)
    )
    snapshot: PolicySnapshot = await engine.prepare()
    action = shown_action(snapshot, clock)
    context = asks("yes" if confirmed else "delete it", pending_confirmation=action if confirmed else None)
    if end is not None:
        request = ApprovalRequest(
            action=action,
            roles=("finance", "manager"),
            rules=("two people",),
            confirmed=confirmed,
            prompt="p",
            user_id="ann",
            conversation_id="c1",
            decision_id="d0",
            origin="log",
        )
        context = asks("The request.", approval=ClosedRequest(request=request, answers=answers_of(*people), end=end))
    possible = {
        "BUILD_REQUEST": CONSENTS,
        "INVOKE_LLM": [PortAnswers(answer) for answer in (*ENDINGS[:1], *ROUNDS[:5])],
        "EXECUTE_TOOLS": [*RESULTS, CHANGED, *(PortAnswers(known=known) for known in KNOWN)],
    }
    ports: list[NodePorts] = []

    def make(answers: PortAnswers) -> TurnRuntime:
        ports.append(NodePorts(answers, []))
        return TurnRuntime(ports[-1], snapshot)

    def runtimes(state: str) -> Sequence[Callable[[], TurnRuntime]]:
        return [partial(make, answers) for answers in possible.get(state, [PortAnswers()])]

    sent, opened = 0, 0
    async for state, _, after in explore(engine.graph, Turn(context, "d1", clock.now()), runtimes, forget):
        made = [call for call in ports.pop().sent if call.tool_name == CONFIRMED_TOOL]
        assert state == "EXECUTE_TOOLS" or not made
        assert len(made) <= 1
        assert all(call.operation_key == "p1" for call in made)
        sent += len(made)
        opened += after.approval is not None
    others = {name for name, yes, _ in people if yes and name != "ann"}
    assert (sent > 0) is (end is ApprovalState.APPROVED and len(others) >= 2 and confirmed)
    # A request is opened after the yes, or anew by an approved call whose object has changed.
    assert (opened > 0) is (confirmed and (end is None or sent > 0))
