"""Whole turns over the wire: the engine with a real adapter, the shipped tools over MCP, the log in SQLite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from graph_agent.agent_service.run import AgentRequest, converse
from graph_agent.api.app import create_app
from graph_agent.clock import ManualClock
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.decision import DecisionContext, DecisionType, Message, OutcomeCategory
from graph_agent.models.llm import TokenUsage
from graph_agent.models.result_size import MAX_RESULT_BYTES
from graph_agent.reply.fixed import CAP_REPLY, CUT_MARK, FAILURE_REPLY, RATE_LIMIT_REPLY
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.hooks import HookedModelCall, TurnHook
from tests.agent_service.environment import agent_services, at
from tests.chat.environment import Environment
from tests.frozen_clock import freeze_loop_time, pass_time
from tests.llm.wire_apis import API, APIS, NOTHING, SIGNATURE, Call
from tests.llm.wire_scenarios import Outcome, Scenario
from tests.llm.wire_server import Writer, drips, hangs, says, serving
from tests.llm.wire_table import GROUPS
from tests.provider import KEY, AfterResults, Answer, Provider, Result, providing

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
signed = pytest.mark.parametrize("signature", [SIGNATURE, NOTHING], ids=["signed", "unsigned"])
named = pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])

CALL_MOM = {"description": "call mom"}
ROWS = 3
"""The number of scenarios of each group and result that are run as whole turns."""


def adapter_of(api: API, url: str, limit: float = 5) -> GeminiAdapter | OpenAICompatibleAdapter:
    config = LLMConfig(api_key="x", timeout_seconds=limit)
    kind = GeminiAdapter if api.name == "gemini" else OpenAICompatibleAdapter
    return kind(KEY, api.model, base_url=url, config=config)


@dataclass
class Talk:
    """One conversation of one user with an engine, with the history that the chat would pass on."""

    engine: LLMAgentEngine
    provider: Provider
    said: list[Message]

    async def ask(self, message: str, user: str = "ann") -> FinishedTurn:
        context = DecisionContext(user_id=user, message=message, conversation_id="c1", message_history=self.said)
        finished = await self.engine.run(context)
        now = datetime.now(UTC)
        self.said += [
            Message(role="user", content=message, timestamp=now),
            Message(role="assistant", content=finished.decision.reply, timestamp=now),
        ]
        return finished


@asynccontextmanager
async def talking(
    environment: Environment, api: API, *answers: Answer, timeout_seconds: float = 30, limit: float = 5
) -> AsyncIterator[Talk]:
    async with providing(api, *answers) as provider:
        adapter = adapter_of(api, provider.url, limit)
        yield Talk(environment.engine(adapter, timeout_seconds), provider, [])
        await adapter.aclose()
        assert provider.violations == []


def wants(api: API, *calls: Call, text: str | None = None) -> dict[str, Any]:
    return api.answer(text=text, calls=calls, finish="calls", usage=api.counted(100, 10, 110))


def answers(api: API, text: str) -> dict[str, Any]:
    return api.answer(text=text, usage=api.counted(200, 20, 220))


async def rows_of(environment: Environment, decision_id: str) -> list[tuple[str, str, str, str]]:
    """Return the status, type, outcome and reply of every row of a decision."""
    query = f"""SELECT status, decision_type, outcome_category, response_text FROM decision_logs
                WHERE decision_id = '{decision_id}'"""
    return await environment.database.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(query)])


# The reply to the user in the scenarios of the wire


def expected(outcome: Outcome) -> tuple[str, str]:
    """Return the reply and outcome category of a turn that changed nothing: the last column of the table of model errors."""
    if outcome.content and outcome.finish == "stop":
        return outcome.content, OutcomeCategory.RESPONSE_GIVEN
    if outcome.content and outcome.finish == "max_tokens":
        return f"{outcome.content}{CUT_MARK}", OutcomeCategory.RESPONSE_GIVEN
    if outcome.finish == "RATE_LIMITED":
        return RATE_LIMIT_REPLY, OutcomeCategory.RATE_LIMITED
    return FAILURE_REPLY, OutcomeCategory.RESPONSE_GENERATION


def sample(scenarios: Sequence[Scenario], api: API) -> list[Scenario]:
    """Return up to `ROWS` scenarios for each result. Calls are left out: their replies depend on the guard and the tools."""
    chosen: list[Scenario] = []
    for scenario in scenarios:
        alike = [one for one in chosen if one.becomes.finish == scenario.becomes.finish]
        fits = scenario.only in (None, api.name) and scenario.becomes.finish != "tool_calls"
        if fits and len(alike) < ROWS:
            chosen.append(scenario)
    return chosen


CLASSES = [
    pytest.param(api, rows, id=f"{api.name}: {title}")
    for api in APIS
    for title, scenarios in GROUPS
    if (rows := sample(scenarios, api))
]


@pytest.mark.parametrize(("api", "scenarios"), CLASSES)
async def test_a_turn_ends_as_the_table_says_in_one_closed_row(
    environment: Environment, api: API, scenarios: list[Scenario]
) -> None:
    for scenario in scenarios:
        async with serving(*scenario.replies(api)) as wire:
            adapter = adapter_of(api, wire.url, scenario.limit)
            finished = await environment.engine(adapter).process_message(
                DecisionContext(user_id="ann", message="add a task to call mom", conversation_id="c1")
            )
            await adapter.aclose()
        reply, outcome = expected(scenario.becomes)
        assert (finished.reply, finished.outcome_category) == (reply, outcome), scenario.wire
        assert finished.decision_id
        assert await rows_of(environment, finished.decision_id) == [("completed", "RESPOND_ONLY", outcome, reply)], (
            scenario.wire
        )
        sent = tuple(api.requires_call(request.body) for request in wire.requests)
        assert sent == scenario.requests("required"), scenario.wire
    assert len(await environment.decisions()) == len(scenarios)
    assert await environment.descriptions() == []


@each_api
@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        (title, RATE_LIMIT_REPLY if title == "Rate limits" else FAILURE_REPLY)
        for title, _ in GROUPS[2:]
        if title != "Required calls"
    ],
)
async def test_the_reply_to_a_failure_lists_what_was_done_before(
    environment: Environment, api: API, title: str, sentence: str
) -> None:
    failing = next(
        one
        for one in dict(GROUPS)[title]
        if not one.becomes.content and one.only in (None, api.name) and "then" not in one.wire
    )
    add = wants(api, Call("add_task", CALL_MOM, id="c-1"))
    async with talking(environment, api, add, *failing.replies(api), limit=failing.limit) as talk:
        finished = await talk.ask("add a task to call mom")
    said = f"{sentence} Already done: Add task 'call mom'."
    outcome = "REFUSAL:RATE_LIMITED" if sentence == RATE_LIMIT_REPLY else "ERROR:RESPONSE_GENERATION"
    assert finished.decision.reply == said
    assert await rows_of(environment, finished.record.header.decision_id) == [("completed", "RESPOND_ONLY", outcome, said)]
    assert (finished.decision.effects, await environment.descriptions()) == (["Add task 'call mom'"], ["call mom"])


@each_api
@pytest.mark.parametrize("calls", [(), (Call("add_task", CALL_MOM),)], ids=["at once", "after a call"])
async def test_a_turn_ends_at_its_deadline_during_a_slow_response(
    environment: Environment, api: API, calls: Sequence[Call]
) -> None:
    """The server would send bytes for minutes, and the limit of one attempt is longer than that."""
    clock = freeze_loop_time(ManualClock())
    environment.clock = clock
    body = json.dumps(answers(api, "Added.")).encode()
    begun = asyncio.Event()

    async def drip(writer: Writer) -> bool:
        begun.set()
        return await drips(body, 1)(writer)

    first = [wants(api, *calls)] if calls else []
    async with talking(environment, api, *first, drip, timeout_seconds=20, limit=300) as talk:
        turn = asyncio.create_task(talk.ask("add a task to call mom"))
        # No time passes while the turn comes so far, however slow the machine is.
        await begun.wait()
        finished = await pass_time(clock, turn)
    done = " Already done: Add task 'call mom'." if calls else ""
    assert finished.decision.reply == f"{FAILURE_REPLY}{done}"
    assert finished.record.duration_ms < 60_000
    rows = await rows_of(environment, finished.record.header.decision_id)
    assert rows == [("completed", "RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", finished.decision.reply)]


class OpeningHook(TurnHook):
    """Releases a semaphore before the model call of a turn, when its opening row is written."""

    def __init__(self, opened: asyncio.Semaphore) -> None:
        self._opened = opened

    def before_model_call(self, call: HookedModelCall) -> None:  # noqa: ARG002 - the hook interface passes it
        self._opened.release()


@each_api
async def test_a_hundred_turns_end_at_their_deadline_if_the_provider_never_answers(environment: Environment, api: API) -> None:
    clock = freeze_loop_time(ManualClock())
    environment.clock = clock
    async with talking(environment, api, hangs(), timeout_seconds=2, limit=30) as talk:
        contexts = [DecisionContext(user_id=f"u{n}", message="hi", conversation_id=f"c{n}") for n in range(100)]
        opened = asyncio.Semaphore(0)
        turns = asyncio.gather(*(talk.engine.run(context, hooks=[OpeningHook(opened)]) for context in contexts))
        for _ in contexts:
            await opened.acquire()
        clock.advance(seconds=2)
        finished = await turns
    assert {turn.decision.reply for turn in finished} == {FAILURE_REPLY}
    rows = await environment.decisions()
    assert len(rows) == 100
    assert {row[1] for row in rows} == {"ERROR:RESPONSE_GENERATION"}
    assert {row[2] for row in rows} <= {"completed", "interrupted"}


# A request, a call, its result, a reply


@each_api
@signed
@named
async def test_a_turn_is_request_call_result_and_reply(environment: Environment, api: API, signature: Any, ids: bool) -> None:
    call = Call("add_task", CALL_MOM, id="call-17" if ids else NOTHING, signature=signature)
    async with talking(environment, api, wants(api, call), answers(api, "I've added it.")) as talk:
        finished = await talk.ask("add a task to call mom")
    assert finished.decision.reply == "I've added it."
    assert (finished.decision.decision_type, finished.decision.effects) == (DecisionType.INVOKE_TOOL, ["Add task 'call mom'"])
    assert finished.record.iterations == 1
    assert finished.record.usage == TokenUsage(prompt_tokens=300, completion_tokens=30, total_tokens=330)
    assert len(talk.provider.bodies) == 2
    (result,) = talk.provider.results()
    assert (result.response["success"], result.response["data"]["task"]["description"]) == (True, "call mom")
    assert result.id == ("call-17" if ids else None if api.name == "gemini" else result.id)
    counted = "SELECT prompt_tokens, completion_tokens, total_tokens FROM decision_logs"
    rows = await environment.database.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(counted)])
    assert rows == [(300, 30, 330)]


@each_api
@named
async def test_three_turns_with_calls_keep_every_call_and_every_result_in_order(
    environment: Environment, api: API, ids: bool
) -> None:
    numbers = iter(range(100))

    def call(name: str, args: dict[str, Any], first: bool = True) -> Call:
        given = f"id-{next(numbers)}" if ids else NOTHING
        return Call(name, args, id=given, signature=SIGNATURE if first else NOTHING)

    def the(description: str, results: list[Result]) -> str:
        tasks = results[-1].response["data"]["tasks"]
        return str(next(task["id"] for task in tasks if task["description"] == description))

    script: list[Answer] = [
        wants(api, call("add_task", CALL_MOM), call("add_task", {"description": "buy milk"}, False), text="Two tasks."),
        answers(api, "I've added both."),
        wants(api, call("list_tasks", {}), call("default_api.list_tasks", {"status": "completed"}, False)),
        AfterResults(lambda results: wants(api, call("complete_task", {"task_id": the("buy milk", results[:1])}))),
        answers(api, "Done with the milk."),
        wants(api, call("list_tasks", {"status": "pending"})),
        AfterResults(
            lambda results: wants(
                api,
                call("update_task", {"task_id": the("call mom", results), "description": "call dad"}),
                call("hack", {"x": 1}, False),
                call("update_task", {"task_id": the("call mom", results)}, False),
            )
        ),
        answers(api, "It's dad now."),
    ]
    async with talking(environment, api, *script) as talk:
        turns = [await talk.ask(text) for text in ("add call mom and buy milk", "I have the milk", "dad, not mom")]
        provider = talk.provider
    assert [turn.decision.effects for turn in turns] == [
        ["Add task 'call mom'", "Add task 'buy milk'"],
        ["Complete task 'buy milk'"],
        ["Rename task 'call mom' to 'call dad'"],
    ]
    assert [turn.decision.reply for turn in turns] == ["I've added both.", "Done with the milk.", "It's dad now."]
    assert [result.response["success"] for result in provider.results()] == [True, True, False, False]
    assert await environment.descriptions() == ["call dad", "buy milk"]
    history = [text for _, text in provider.spoken(5)]
    assert history == [
        "add call mom and buy milk", "I've added both.", "I have the milk", "Done with the milk.", "dad, not mom",
    ]  # fmt: skip
    assert [len(provider.results(n)) for n in range(8)] == [0, 2, 0, 2, 3, 0, 1, 4]


@each_api
async def test_a_deletion_over_the_wire_waits_for_the_users_yes(environment: Environment, api: API) -> None:
    def delete(results: list[Result]) -> dict[str, Any]:
        task_id = results[-1].response["data"]["tasks"][0]["id"]
        again = Call("delete_task", {"task_id": task_id}, id="d-2")
        return wants(api, Call("delete_task", {"task_id": task_id}, id="d-1", signature=SIGNATURE), again)

    script = [wants(api, Call("add_task", CALL_MOM)), answers(api, "Added."), wants(api, Call("list_tasks", {}))]
    async with talking(environment, api, *script, AfterResults(delete)) as talk:
        await talk.ask("add call mom")
        asked = await talk.ask("delete it")
        assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
        assert await environment.descriptions() == ["call mom"]
        yes = DecisionContext(
            user_id="ann", message="yes", conversation_id="c1", pending_confirmation=asked.decision.pending_action
        )
        done = await talk.engine.process_message(yes)
    assert (done.reply, await environment.descriptions()) == ("Done: Delete task 'call mom'.", [])
    assert len(talk.provider.bodies) == 4


@each_api
async def test_a_turn_ends_after_five_requests_and_says_so(environment: Environment, api: API) -> None:
    tasks = [f"task {n}" for n in range(5)]
    # Every round's call has the same id: results belong to the calls of their own round.
    rounds = [wants(api, Call("add_task", {"description": task}, id="same")) for task in tasks]
    async with talking(environment, api, *rounds) as talk:
        finished = await talk.ask("add five tasks")
    done = "; ".join(f"Add task '{task}'" for task in tasks)
    assert finished.decision.reply == f"{CAP_REPLY} Already done: {done}."
    assert len(talk.provider.bodies) == 5
    assert finished.record.usage == TokenUsage(prompt_tokens=500, completion_tokens=50, total_tokens=550)
    assert sorted(await environment.descriptions()) == tasks


@each_api
async def test_the_chat_api_runs_whole_turns_over_the_wire(environment: Environment, api: API) -> None:
    script: list[Answer] = [
        wants(api, Call("add_task", CALL_MOM, id="a", signature=SIGNATURE)),
        answers(api, "Added."),
        says({}, 429),
    ]
    async with providing(api, *script) as provider:
        adapter = adapter_of(api, provider.url)
        app = create_app(environment.runtime(adapter))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            added = (await client.post("/api/chat", json={"content": "add a task to call mom"})).json()
            again = {"content": "and again", "conversation_id": added["conversation_id"]}
            limited = await client.post("/api/chat", json=again)
            decision = (await client.get(f"/api/decisions/{added['decision_id']}")).json()
        await adapter.aclose()
    assert (added["reply"], added["decision"]["effects"]) == ("Added.", ["Add task 'call mom'"])
    assert (limited.status_code, limited.json()["reply"]) == (200, RATE_LIMIT_REPLY)
    assert limited.json()["decision"]["outcome_category"] == "REFUSAL:RATE_LIMITED"
    assert provider.spoken() == [("user", "add a task to call mom"), ("assistant", "Added."), ("user", "and again")]
    assert provider.violations == []
    assert KEY not in json.dumps([added, limited.json(), decision])


async def test_the_agent_service_takes_its_own_messages_back_over_three_turns(environment: Environment) -> None:
    api = APIS[1]
    add = Call("add_task", CALL_MOM, id="a-1", signature=SIGNATURE)

    def complete(results: list[Result]) -> dict[str, Any]:
        return wants(api, Call("complete_task", {"task_id": results[-1].response["data"]["tasks"][0]["id"]}, id=""))

    script: list[Answer] = [
        wants(api, add, Call("list_tasks", {}, id="a-2"), text="On it."), answers(api, "Added."),
        wants(api, Call("list_tasks", {}, id="a-1")), AfterResults(complete), answers(api, "Done."),
        wants(api, Call("list_tasks", {"status": "completed"}, id="a-1")), answers(api, "One is done."),
    ]  # fmt: skip
    messages: list[dict[str, Any]] = []
    async with providing(api, *script) as provider:
        adapter = adapter_of(api, provider.url)
        place = agent_services(environment.tools)
        for text in ("add call mom", "I've called her", "what is done?"):
            asked = [*messages, {"role": "user", "content": text}]
            response = await converse(place, adapter, AgentRequest(asked, "ann", at(provider.url)))
            assert (response.status, response.error) == ("completed", None)
            messages = json.loads(json.dumps(response.messages))
        await adapter.aclose()
    assert provider.violations == []
    assert [message["content"] for message in messages if message["role"] == "assistant" and message.get("content")] == [
        "On it.", "Added.", "Done.", "One is done.",
    ]  # fmt: skip
    made = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    result_ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert result_ids == made
    assert len(made) == 5
    assert len(provider.bodies) == 7


# Kinds of replies, in the forms that real models use

QUESTION = {"question": "Which task do you mean?", "reason": "multiple_matches"}
ASKED = (DecisionType.ASK_CLARIFICATION, OutcomeCategory.MULTIPLE_MATCHES, "Which task do you mean?")
REFUSED = (DecisionType.RESPOND_ONLY, OutcomeCategory.OUT_OF_SCOPE, "I can only help with your tasks.")
FAILED = (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GENERATION, FAILURE_REPLY)
WRITTEN_OUT = (
    DecisionType.RESPOND_ONLY,
    OutcomeCategory.RESPONSE_GENERATION,
    "The model wrote a call as text instead of making it, so nothing came of it: it cannot call tools here as it should. "
    "`graph-agent doctor` says what to change.",
)
ADDED = (DecisionType.INVOKE_TOOL, OutcomeCategory.TASK_COMPLETED, "I've added it.")

Ends = tuple[DecisionType, OutcomeCategory, str]
Says = Callable[[API], dict[str, Any]]


def form(name: str = "ask_user", args: Any = QUESTION, text: str | None = None) -> Says:
    return lambda api: wants(api, Call(name, args, id="f"), text=text)


def words(text: str) -> Says:
    return lambda api: answers(api, text)


def thinking(thought: str, text: str) -> Says:
    """Return thoughts in the field that the API has for them."""

    def said(api: API) -> dict[str, Any]:
        if api.name == "gemini":
            parts = [{"text": thought, "thought": True}, {"text": text, "thoughtSignature": SIGNATURE}]
            return api.wrap({"role": "model", "parts": parts})
        return api.wrap({"role": "assistant", "content": text, "reasoning_content": thought})

    return said


DECLINING = {"text": "I can only help with your tasks."}
ONE_ANSWER: dict[str, tuple[Says, Ends]] = {
    "a question": (form(), ASKED),
    "a refusal": (form("decline", DECLINING), REFUSED),
    "a question with a prefix": (form("default_api.ask_user"), ASKED),
    "a question beside the same in words": (form(text="Which task do you mean?"), ASKED),
    "a question twice": (lambda s: wants(s, Call("ask_user", QUESTION, id="1"), Call("ask_user", QUESTION, id="2")), ASKED),
    "a question and a refusal": (
        lambda s: wants(s, Call("ask_user", QUESTION), Call("decline", DECLINING)),
        (*ASKED[:2], "Which task do you mean?\n\nI can only help with your tasks."),
    ),
    "an answer": (
        form("answer", {"text": "Hello! How can I help you today?", "reports_change": False}),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "Hello! How can I help you today?"),
    ),
    "an answer that reports a change": (
        form("answer", {"text": "I've added it.", "reports_change": True}),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "I've added it.\n\nNothing was changed."),
    ),
    "a question without arguments, said beside": (
        form(args={}, text="Which task do you mean?"),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Which task do you mean?"),
    ),
    "an empty question and a good one": (lambda s: wants(s, Call("ask_user", {}), Call("ask_user", QUESTION)), ASKED),
    "a question without arguments": (form(args={}), FAILED),
    "a question that is null": (form(args={"question": None, "reason": None}), FAILED),
    "a question that is a number": (form(args={"question": 5, "reason": "multiple_matches"}), FAILED),
    "a blank refusal": (form("decline", {"text": " \n"}), FAILED),
    "a question for a reason of its own": (
        form(args={"question": "Which one?", "reason": "curiosity"}),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Which one?"),
    ),
    "a question that names the tools": (
        form(args={"question": "Shall I call `add_task` or default_api.list_tasks?", "reason": "unclear_intent"}),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Shall I call add task or list tasks?"),
    ),
    "a question written as Python": (words('ask_user(question="Which task do you mean?", reason="multiple_matches")'), ASKED),
    "a question written as tool code": (
        words('```tool_code\nprint(default_api.ask_user(question="Which task do you mean?", reason="multiple_matches"))\n```'),
        ASKED,
    ),
    "a question written as JSON": (words(json.dumps({"name": "ask_user", "arguments": QUESTION})), ASKED),
    "a question written as OpenAI's JSON": (
        words(json.dumps({"type": "function", "function": {"name": "ask_user", "arguments": json.dumps(QUESTION)}})),
        ASKED,
    ),
    "a question in tags": (
        words(f"<tool_call>\n{json.dumps({'name': 'ask_user', 'arguments': QUESTION})}\n</tool_call>"),
        ASKED,
    ),
    "a refusal written as Python": (words("decline(text='I can only help with your tasks.')"), REFUSED),
    "a tool written as Python": (words('default_api.add_task(description="call mom")'), WRITTEN_OUT),
    "a tool written as tool code": (words("```tool_code\nprint(add_task(description='call mom'))\n```"), WRITTEN_OUT),
    "a tool written as JSON": (words(json.dumps({"name": "add_task", "arguments": CALL_MOM})), WRITTEN_OUT),
    "a tool with the prefix default_api:": (words('default_api:add_task(description="call mom")'), WRITTEN_OUT),
    "a tool in Gemini's own notation": (words("call:default_api:add_task{description:call mom}"), WRITTEN_OUT),
    "a tool in a template's notation": (
        words('<|tool_call_begin|>functions.add_task:0{"description": "x"}<|tool_call_end|>'),
        WRITTEN_OUT,
    ),
    "a tool in Mistral's notation": (words('[TOOL_CALLS]add_task{"description": "call mom"}'), WRITTEN_OUT),
    "words and a tool written out": (
        words("One moment, please.\n```tool_code\nprint(default_api.list_tasks())\n```"),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "One moment, please.\n\nNothing was changed."),
    ),
    "words that name a tool": (
        words("You can use add_task for that."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "You can use add task for that."),
    ),
    "a question in words": (
        words("I found two tasks: 'call mom' and 'call dad'. Which one do you mean?"),
        (
            DecisionType.ASK_CLARIFICATION,
            OutcomeCategory.UNCLEAR_INTENT,
            "I found two tasks: 'call mom' and 'call dad'. Which one do you mean?",
        ),
    ),
    "a refusal in words": (
        words("I'm sorry, but I can only help with your tasks."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "I'm sorry, but I can only help with your tasks."),
    ),
    "a greeting that ends in a question": (
        words("Hello! How can I help you today?"),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Hello! How can I help you today?"),
    ),
    "thoughts beside an answer": (
        thinking("SECRET-THOUGHT: use add_task", "Hello!"),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "Hello!"),
    ),
}
MECHANISM = (
    "ask_user",
    "decline(",
    "add_task",
    "list_tasks",
    "default_api",
    "tool_code",
    "tool_outputs",
    "Action:",
    "print(",
    "SECRET-THOUGHT",
    "think>",
)


@each_api
@pytest.mark.parametrize(("said", "ends"), ONE_ANSWER.values(), ids=ONE_ANSWER)
async def test_each_form_of_a_response_becomes_the_right_kind_of_reply(
    environment: Environment, api: API, said: Says, ends: Ends
) -> None:
    async with talking(environment, api, said(api)) as talk:
        finished = await talk.ask("do it")
    decision = finished.decision
    assert (decision.decision_type, decision.outcome_category, decision.reply) == ends
    assert len(talk.provider.bodies) == 1
    assert await environment.descriptions() == []
    assert not [word for word in MECHANISM if word in decision.reply]


@each_api
@pytest.mark.parametrize("beside", [("ask_user", QUESTION), ("decline", DECLINING), ("ask_user", {})])
async def test_a_form_beside_a_tool_call_is_answered_not_now(
    environment: Environment, api: API, beside: tuple[str, dict[str, Any]]
) -> None:
    both = wants(api, Call(*beside, id="f"), Call("add_task", CALL_MOM, id="t"), text="On it, with add_task.")
    async with talking(environment, api, both, answers(api, "I've added it.")) as talk:
        finished = await talk.ask("add call mom")
    decision = finished.decision
    assert (decision.decision_type, decision.outcome_category, decision.reply) == ADDED
    form_result, tool_result = talk.provider.results()
    assert form_result.response["error"].startswith("not now")
    assert tool_result.response["success"]
    assert [call.tool_name for call in finished.record.invocations] == ["add_task"]


@each_api
async def test_thoughts_alone_are_requested_once_more_and_never_shown(environment: Environment, api: API) -> None:
    async with talking(environment, api, thinking("SECRET-THOUGHT", "")(api)) as talk:
        finished = await talk.ask("do it")
    decision = finished.decision
    assert (decision.decision_type, decision.outcome_category, decision.reply) == FAILED
    assert [api.requires_call(body) for body in talk.provider.bodies] == [True, False]


THOUGHTS = {
    "tags": "<think>\nSECRET-THOUGHT: add_task\n</think>\n\nHello!",
    "tags in capitals": "<THINK>SECRET-THOUGHT</THINK>Hello!",
    "Gemini's tags": "<thought>SECRET-THOUGHT</thought>Hello!",
    "other tags": "<thinking>SECRET-THOUGHT</thinking>\nHello!",
    "the closing tag only": "SECRET-THOUGHT\n</think>\n\nHello!",
    "tags twice": "<think>SECRET-THOUGHT</think> <think>SECRET-THOUGHT</think> Hello!",
    "a template's marks": "<|channel|>analysis<|message|>SECRET-THOUGHT<|end|><|channel|>final<|message|>Hello!<|return|>",
    "empty tags": "<think>\n\n</think>\n\nHello!",
}


@pytest.mark.parametrize("content", THOUGHTS.values(), ids=THOUGHTS)
async def test_reasoning_of_a_local_model_in_its_text_is_not_shown(environment: Environment, content: str) -> None:
    api = APIS[1]
    async with talking(environment, api, answers(api, content)) as talk:
        finished = await talk.ask("hi")
    assert (finished.decision.reply, finished.decision.outcome_category) == ("Hello!", OutcomeCategory.RESPONSE_GIVEN)


@pytest.mark.parametrize("content", ["<think>SECRET-THOUGHT", "<think>SECRET-THOUGHT</think>\n", "<|end|>"])
@pytest.mark.parametrize("finish", ["stop", "truncated"])
async def test_reasoning_alone_is_not_an_answer(environment: Environment, content: str, finish: str) -> None:
    api = APIS[1]
    async with talking(environment, api, api.answer(text=content, finish=finish)) as talk:
        finished = await talk.ask("hi")
    assert (finished.decision.reply, finished.decision.outcome_category) == (FAILURE_REPLY, OutcomeCategory.RESPONSE_GENERATION)


# Budgets


@each_api
async def test_a_long_conversation_keeps_twenty_messages_and_sends_ten(environment: Environment, api: API) -> None:
    async with talking(environment, api, answers(api, "Yes.")) as talk:
        for n in range(30):
            talk.said.append(Message(role="assistant" if n % 2 else "user", content=f"m{n}", timestamp=datetime.now(UTC)))
        finished = await talk.ask("and now?")
    assert [message.content for message in finished.record.header.context.message_history] == [f"m{n}" for n in range(10, 30)]
    assert [text for _, text in talk.provider.spoken()] == [*(f"m{n}" for n in range(20, 30)), "and now?"]


@each_api
async def test_a_long_chat_sends_its_last_ten_messages(environment: Environment, api: API) -> None:
    async with providing(api, answers(api, "Yes.")) as provider:
        adapter = adapter_of(api, provider.url)
        chat = environment.chat(adapter)
        first = await chat.send("ann", "m0")
        for n in range(1, 13):
            last = await chat.send("ann", f"m{n}", conversation_id=first.conversation_id)
        await adapter.aclose()
    kept = await environment.database.read(
        lambda connection: connection.exec_driver_sql(
            "SELECT header FROM decision_logs WHERE decision_id = ?", (last.decision_id,)
        ).scalar_one()
    )
    assert len(json.loads(kept)["context"]["message_history"]) == 20
    assert [text for role, text in provider.spoken() if role == "user"] == [f"m{n}" for n in range(7, 13)]
    assert len(provider.spoken()) == 11
    assert provider.violations == []


@each_api
@pytest.mark.parametrize("letter", ["x", "é", "🎉", '"'])
async def test_a_long_result_is_truncated_between_items_and_says_so(environment: Environment, api: API, letter: str) -> None:
    def adds(first: int) -> dict[str, Any]:
        described = [{"description": f"{n} {letter * 400}"} for n in range(first, first + 5)]
        return wants(api, *(Call("add_task", description) for description in described))

    said = answers(api, "Done.")
    script = [adds(0), said, adds(5), said, adds(10), said, adds(15), said, wants(api, Call("list_tasks", {})), said]
    async with talking(environment, api, *script) as talk:
        for _ in range(5):
            await talk.ask("go on")
    (listed,) = talk.provider.results()
    notice, tasks = listed.response["truncated"], listed.response["data"]["tasks"]
    assert notice == f"only the first {len(tasks)} of 20 are shown"
    assert 0 < len(tasks) < 20
    assert all(task["description"].endswith(letter * 400) for task in tasks)
    assert len(json.dumps(listed.response, ensure_ascii=False).encode()) <= MAX_RESULT_BYTES
