"""Whole turns over the wire: the engine with a real adapter, the shipped tools over MCP, the log in SQLite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.agent_service.run import converse
from graph_agent.api.app import create_app
from graph_agent.clock import ManualClock
from graph_agent.turn.engine import FinishedTurn, LLMAgentEngine
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.decision import DecisionContext, DecisionType, Message, OutcomeCategory
from graph_agent.models.llm import TokenUsage
from graph_agent.policy.budget import MAX_RESULT_BYTES
from graph_agent.reply.fixed import CAP_REPLY, CUT_MARK, FAILURE_REPLY, RATE_LIMIT_REPLY
from tests.agent_service.world import at, surroundings
from tests.chat.world import World, migrated, open_world
from tests.llm.wire_scenarios import Outcome, Scenario
from tests.llm.wire_server import drips, hangs, says, serving
from tests.llm.wire_speakers import NOTHING, SIGNATURE, SPEAKERS, Call, Speaker
from tests.llm.wire_table import GROUPS
from tests.provider import KEY, AfterResults, Answer, Provider, Result, providing
from tests.still import stand_still

speaking = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
signed = pytest.mark.parametrize("signature", [SIGNATURE, NOTHING], ids=["signed", "unsigned"])
named = pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])

CALL_MOM = {"description": "call mom"}
ROWS = 3
"""How many rows of each class of the table are run as whole turns."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
async def world(tmp_path: Path, template: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path, template) as world:
        yield world


def adapter_of(speaker: Speaker, url: str, limit: float = 5) -> GeminiAdapter | OpenAICompatibleAdapter:
    config = LLMConfig(api_key="x", timeout_seconds=limit)
    kind = GeminiAdapter if speaker.name == "gemini" else OpenAICompatibleAdapter
    return kind(KEY, speaker.model, base_url=url, config=config)


@dataclass
class Talk:
    """One user who talks with an engine about one conversation, as the chat would have it."""

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
    world: World, speaker: Speaker, *answers: Answer, timeout_seconds: float = 30, limit: float = 5
) -> AsyncIterator[Talk]:
    async with providing(speaker, *answers) as provider:
        adapter = adapter_of(speaker, provider.url, limit)
        yield Talk(world.engine(adapter, timeout_seconds), provider, [])
        await adapter.aclose()
        assert provider.disorder == []


def wants(speaker: Speaker, *calls: Call, text: str | None = None) -> dict[str, Any]:
    return speaker.answer(text=text, calls=calls, finish="calls", usage=speaker.counted(100, 10, 110))


def answers(speaker: Speaker, text: str) -> dict[str, Any]:
    return speaker.answer(text=text, usage=speaker.counted(200, 20, 220))


async def rows_of(world: World, decision_id: str) -> list[tuple[str, str, str, str]]:
    """Status, type, outcome and reply of every row of a decision."""
    query = f"""SELECT status, decision_type, outcome_category, response_text FROM decision_logs
                WHERE decision_id = '{decision_id}'"""
    return await world.log.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(query)])


# What a user gets of everything that may come over the wire


def expected(outcome: Outcome) -> tuple[str, str]:
    """Reply and outcome category: the last column of `docs/wire.md`, where nothing was done."""
    if outcome.content and outcome.finish == "stop":
        return outcome.content, OutcomeCategory.RESPONSE_GIVEN
    if outcome.content and outcome.finish == "max_tokens":
        return f"{outcome.content}{CUT_MARK}", OutcomeCategory.RESPONSE_GIVEN
    if outcome.finish == "RATE_LIMITED":
        return RATE_LIMIT_REPLY, OutcomeCategory.RATE_LIMITED
    return FAILURE_REPLY, OutcomeCategory.RESPONSE_GENERATION


def sample(scenarios: Sequence[Scenario], speaker: Speaker) -> list[Scenario]:
    """Up to `ROWS` rows for each thing that a class of the table becomes; what comes of calls is the guard's business."""
    chosen: list[Scenario] = []
    for scenario in scenarios:
        alike = [one for one in chosen if one.becomes.finish == scenario.becomes.finish]
        fits = scenario.only in (None, speaker.name) and scenario.becomes.finish != "tool_calls"
        if fits and len(alike) < ROWS:
            chosen.append(scenario)
    return chosen


CLASSES = [
    pytest.param(speaker, rows, id=f"{speaker.name}: {title}")
    for speaker in SPEAKERS
    for title, scenarios in GROUPS
    if (rows := sample(scenarios, speaker))
]


@pytest.mark.parametrize(("speaker", "scenarios"), CLASSES)
async def test_a_turn_ends_as_the_table_says_in_one_closed_row(
    world: World, speaker: Speaker, scenarios: list[Scenario]
) -> None:
    for scenario in scenarios:
        async with serving(*scenario.replies(speaker)) as wire:
            adapter = adapter_of(speaker, wire.url, scenario.limit)
            finished = await world.engine(adapter).process_message(
                DecisionContext(user_id="ann", message="add a task to call mom", conversation_id="c1")
            )
            await adapter.aclose()
        reply, outcome = expected(scenario.becomes)
        assert (finished.reply, finished.outcome_category) == (reply, outcome), scenario.wire
        assert finished.decision_id
        assert await rows_of(world, finished.decision_id) == [("completed", "RESPOND_ONLY", outcome, reply)], scenario.wire
        assert len(wire.requests) == scenario.attempts, scenario.wire
    assert len(await world.decisions()) == len(scenarios)
    assert await world.descriptions() == []


def test_every_class_of_failures_is_among_them() -> None:
    for speaker in SPEAKERS:
        failing = [
            scenario
            for case in CLASSES
            if case.values[0] is speaker and isinstance(case.values[1], list)
            for scenario in case.values[1]
            if not scenario.becomes.content
        ]
        assert len(failing) >= 25


@speaking
@pytest.mark.parametrize(
    ("title", "sentence"),
    [(title, RATE_LIMIT_REPLY if title == "Rate limits" else FAILURE_REPLY) for title, _ in GROUPS[2:]],
)
async def test_what_was_done_before_a_failure_is_told_with_it(
    world: World, speaker: Speaker, title: str, sentence: str
) -> None:
    failing = next(
        one
        for one in dict(GROUPS)[title]
        if not one.becomes.content and one.only in (None, speaker.name) and "then" not in one.wire
    )
    add = wants(speaker, Call("add_task", CALL_MOM, id="c-1"))
    async with talking(world, speaker, add, *failing.replies(speaker), limit=failing.limit) as talk:
        finished = await talk.ask("add a task to call mom")
    said = f"{sentence} Already done: added 'call mom'."
    outcome = "REFUSAL:RATE_LIMITED" if sentence == RATE_LIMIT_REPLY else "ERROR:RESPONSE_GENERATION"
    assert finished.decision.reply == said
    assert await rows_of(world, finished.record.header.decision_id) == [("completed", "RESPOND_ONLY", outcome, said)]
    assert (finished.decision.effects, await world.descriptions()) == (["added 'call mom'"], ["call mom"])


@speaking
async def test_a_turn_ends_at_its_deadline_whatever_drips(world: World, speaker: Speaker) -> None:
    """The drip would go on for minutes, and so long an attempt would have."""
    body = json.dumps(answers(speaker, "Added.")).encode()

    async def one(user: str, *first: Answer) -> tuple[str, int]:
        async with talking(world, speaker, *first, drips(body, 1), timeout_seconds=5, limit=300) as talk:
            finished = await talk.ask("add a task to call mom", user)
            rows = await rows_of(world, finished.record.header.decision_id)
        assert rows == [("completed", "RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", finished.decision.reply)]
        return finished.decision.reply, finished.record.duration_ms

    found = await asyncio.gather(one("ann"), one("bob", wants(speaker, Call("add_task", CALL_MOM))))
    assert [reply for reply, _ in found] == [FAILURE_REPLY, f"{FAILURE_REPLY} Already done: added 'call mom'."]
    assert max(took for _, took in found) < 60_000


@speaking
async def test_a_hundred_turns_against_a_provider_that_hangs_end_together_at_their_deadline(
    world: World, speaker: Speaker
) -> None:
    clock = stand_still(ManualClock())
    world.clock = clock
    async with talking(world, speaker, hangs(), timeout_seconds=2, limit=30) as talk:
        contexts = [DecisionContext(user_id=f"u{n}", message="hi", conversation_id=f"c{n}") for n in range(100)]
        turns = asyncio.gather(*(talk.engine.process_message(context) for context in contexts))
        while len(await world.decisions()) < 100 and not turns.done():
            pass
        clock.advance(seconds=2)
        decisions = await turns
    assert {decision.reply for decision in decisions} == {FAILURE_REPLY}
    rows = await world.decisions()
    assert len(rows) == 100
    assert {row[1] for row in rows} == {"ERROR:RESPONSE_GENERATION"}
    assert {row[2] for row in rows} <= {"completed", "interrupted"}


# A request, a call, its result, a reply


@speaking
@signed
@named
async def test_a_turn_is_request_call_result_and_reply(world: World, speaker: Speaker, signature: Any, ids: bool) -> None:
    call = Call("add_task", CALL_MOM, id="call-17" if ids else NOTHING, signature=signature)
    async with talking(world, speaker, wants(speaker, call), answers(speaker, "I've added it.")) as talk:
        finished = await talk.ask("add a task to call mom")
    assert finished.decision.reply == "I've added it."
    assert (finished.decision.decision_type, finished.decision.effects) == (DecisionType.INVOKE_TOOL, ["added 'call mom'"])
    assert finished.record.iterations == 1
    assert finished.record.usage == TokenUsage(prompt_tokens=300, completion_tokens=30, total_tokens=330)
    assert len(talk.provider.bodies) == 2
    (result,) = talk.provider.results()
    assert (result.response["success"], result.response["data"]["task"]["description"]) == (True, "call mom")
    assert result.id == ("call-17" if ids else None if speaker.name == "gemini" else result.id)
    counted = "SELECT prompt_tokens, completion_tokens, total_tokens FROM decision_logs"
    rows = await world.log.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(counted)])
    assert rows == [(300, 30, 330)]


@speaking
@named
async def test_three_turns_with_calls_keep_every_call_and_every_result_in_order(
    world: World, speaker: Speaker, ids: bool
) -> None:
    numbers = iter(range(100))

    def call(name: str, args: dict[str, Any], first: bool = True) -> Call:
        given = f"id-{next(numbers)}" if ids else NOTHING
        return Call(name, args, id=given, signature=SIGNATURE if first else NOTHING)

    def the(description: str, results: list[Result]) -> str:
        tasks = results[-1].response["data"]["tasks"]
        return str(next(task["id"] for task in tasks if task["description"] == description))

    script: list[Answer] = [
        wants(speaker, call("add_task", CALL_MOM), call("add_task", {"description": "buy milk"}, False), text="Two tasks."),
        answers(speaker, "I've added both."),
        wants(speaker, call("list_tasks", {}), call("default_api.list_tasks", {"status": "completed"}, False)),
        AfterResults(lambda told: wants(speaker, call("complete_task", {"task_id": the("buy milk", told[:1])}))),
        answers(speaker, "Done with the milk."),
        wants(speaker, call("list_tasks", {"status": "pending"})),
        AfterResults(
            lambda told: wants(
                speaker,
                call("update_task", {"task_id": the("call mom", told), "description": "call dad"}),
                call("hack", {"x": 1}, False),
                call("update_task", {"task_id": the("call mom", told)}, False),
            )
        ),
        answers(speaker, "It's dad now."),
    ]
    async with talking(world, speaker, *script) as talk:
        turns = [await talk.ask(text) for text in ("add call mom and buy milk", "I have the milk", "dad, not mom")]
        provider = talk.provider
    assert [turn.decision.effects for turn in turns] == [
        ["added 'call mom'", "added 'buy milk'"],
        ["completed 'buy milk'"],
        ["renamed 'call mom' to 'call dad'"],
    ]
    assert [turn.decision.reply for turn in turns] == ["I've added both.", "Done with the milk.", "It's dad now."]
    assert [result.response["success"] for result in provider.results()] == [True, True, False, False]
    assert await world.descriptions() == ["call dad", "buy milk"]
    history = [text for _, text in provider.spoken(5)]
    assert history == [
        "add call mom and buy milk", "I've added both.", "I have the milk", "Done with the milk.", "dad, not mom",
    ]  # fmt: skip
    assert [len(provider.results(n)) for n in range(8)] == [0, 2, 0, 2, 3, 0, 1, 4]


@speaking
async def test_a_deletion_over_the_wire_waits_for_the_users_yes(world: World, speaker: Speaker) -> None:
    def delete(told: list[Result]) -> dict[str, Any]:
        task_id = told[-1].response["data"]["tasks"][0]["id"]
        again = Call("delete_task", {"task_id": task_id}, id="d-2")
        return wants(speaker, Call("delete_task", {"task_id": task_id}, id="d-1", signature=SIGNATURE), again)

    script = [wants(speaker, Call("add_task", CALL_MOM)), answers(speaker, "Added."), wants(speaker, Call("list_tasks", {}))]
    async with talking(world, speaker, *script, AfterResults(delete)) as talk:
        await talk.ask("add call mom")
        asked = await talk.ask("delete it")
        assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
        assert await world.descriptions() == ["call mom"]
        yes = DecisionContext(
            user_id="ann", message="yes", conversation_id="c1", pending_confirmation=asked.decision.pending_action
        )
        done = await talk.engine.process_message(yes)
    assert (done.reply, await world.descriptions()) == ("Done: deleted 'call mom'.", [])
    assert len(talk.provider.bodies) == 4


@speaking
async def test_the_cap_is_five_requests_and_an_honest_answer(world: World, speaker: Speaker) -> None:
    async with talking(world, speaker, wants(speaker, Call("add_task", CALL_MOM, id="same"))) as talk:
        # Every round's call has the same id: results belong to the calls of their own round.
        finished = await talk.ask("add call mom")
    assert finished.decision.reply == f"{CAP_REPLY} Already done: added 'call mom'."
    assert len(talk.provider.bodies) == 5
    assert finished.record.usage == TokenUsage(prompt_tokens=500, completion_tokens=50, total_tokens=550)
    assert await world.descriptions() == ["call mom"]


@speaking
async def test_the_chat_api_runs_whole_turns_over_the_wire(world: World, speaker: Speaker) -> None:
    script: list[Answer] = [
        wants(speaker, Call("add_task", CALL_MOM, id="a", signature=SIGNATURE)),
        answers(speaker, "Added."),
        says({}, 429),
    ]
    async with providing(speaker, *script) as provider:
        adapter = adapter_of(speaker, provider.url)
        app = create_app(world.runtime(adapter))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            added = (await client.post("/api/chat", json={"content": "add a task to call mom"})).json()
            again = {"content": "and again", "conversation_id": added["conversation_id"]}
            limited = await client.post("/api/chat", json=again)
            decision = (await client.get(f"/api/decisions/{added['decision_id']}")).json()
        await adapter.aclose()
    assert (added["reply"], added["decision"]["effects"]) == ("Added.", ["added 'call mom'"])
    assert (limited.status_code, limited.json()["reply"]) == (200, RATE_LIMIT_REPLY)
    assert limited.json()["decision"]["outcome_category"] == "REFUSAL:RATE_LIMITED"
    assert provider.spoken() == [("user", "add a task to call mom"), ("assistant", "Added."), ("user", "and again")]
    assert provider.disorder == []
    assert KEY not in json.dumps([added, limited.json(), decision])


async def test_the_agent_service_takes_its_own_messages_back_over_three_turns(world: World) -> None:
    speaker = SPEAKERS[1]
    add = Call("add_task", CALL_MOM, id="a-1", signature=SIGNATURE)

    def complete(told: list[Result]) -> dict[str, Any]:
        return wants(speaker, Call("complete_task", {"task_id": told[-1].response["data"]["tasks"][0]["id"]}, id=""))

    script: list[Answer] = [
        wants(speaker, add, Call("list_tasks", {}, id="a-2"), text="On it."), answers(speaker, "Added."),
        wants(speaker, Call("list_tasks", {}, id="a-1")), AfterResults(complete), answers(speaker, "Done."),
        wants(speaker, Call("list_tasks", {"status": "completed"}, id="a-1")), answers(speaker, "One is done."),
    ]  # fmt: skip
    messages: list[dict[str, Any]] = []
    async with providing(speaker, *script) as provider:
        adapter = adapter_of(speaker, provider.url)
        place = surroundings(world.tools)
        for text in ("add call mom", "I've called her", "what is done?"):
            asked = [*messages, {"role": "user", "content": text}]
            response = await converse(place, adapter, asked, "ann", at(provider.url))
            assert (response.status, response.error) == ("completed", None)
            messages = json.loads(json.dumps(response.messages))
        await adapter.aclose()
    assert provider.disorder == []
    assert [message["content"] for message in messages if message["role"] == "assistant" and message.get("content")] == [
        "On it.", "Added.", "Done.", "One is done.",
    ]  # fmt: skip
    made = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    told = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert told == made
    assert len(made) == 5
    assert len(provider.bodies) == 7


# Reply kinds, with the habits of real models

QUESTION = {"question": "Which task do you mean?", "reason": "multiple_matches"}
ASKED = (DecisionType.ASK_CLARIFICATION, OutcomeCategory.MULTIPLE_MATCHES, "Which task do you mean?")
REFUSED = (DecisionType.RESPOND_ONLY, OutcomeCategory.OUT_OF_SCOPE, "I can only help with your tasks.")
FAILED = (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GENERATION, FAILURE_REPLY)
ADDED = (DecisionType.INVOKE_TOOL, OutcomeCategory.TASK_COMPLETED, "I've added it.")

Ends = tuple[DecisionType, OutcomeCategory, str]
Says = Callable[[Speaker], dict[str, Any]]


def form(name: str = "ask_user", args: Any = QUESTION, text: str | None = None) -> Says:
    return lambda speaker: wants(speaker, Call(name, args, id="f"), text=text)


def words(text: str) -> Says:
    return lambda speaker: answers(speaker, text)


def thinking(thought: str, text: str) -> Says:
    """Thoughts where the protocol has a place for them."""

    def said(speaker: Speaker) -> dict[str, Any]:
        if speaker.name == "gemini":
            parts = [{"text": thought, "thought": True}, {"text": text, "thoughtSignature": SIGNATURE}]
            return speaker.wrap({"role": "model", "parts": parts})
        return speaker.wrap({"role": "assistant", "content": text, "reasoning_content": thought})

    return said


DECLINING = {"message": "I can only help with your tasks."}
ONE_ANSWER: dict[str, tuple[Says, Ends]] = {
    "a question": (form(), ASKED),
    "a refusal": (form("decline", DECLINING), REFUSED),
    "a question with a prefix": (form("default_api.ask_user"), ASKED),
    "a question beside the same in words": (form(text="Which task do you mean?"), ASKED),
    "a question twice": (lambda s: wants(s, Call("ask_user", QUESTION, id="1"), Call("ask_user", QUESTION, id="2")), ASKED),
    "a question and a refusal": (lambda s: wants(s, Call("ask_user", QUESTION), Call("decline", DECLINING)), ASKED),
    "a question without arguments, said beside": (
        form(args={}, text="Which task do you mean?"),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Which task do you mean?"),
    ),
    "an empty question and a good one": (lambda s: wants(s, Call("ask_user", {}), Call("ask_user", QUESTION)), ASKED),
    "a question without arguments": (form(args={}), FAILED),
    "a question that is null": (form(args={"question": None, "reason": None}), FAILED),
    "a question that is a number": (form(args={"question": 5, "reason": "multiple_matches"}), FAILED),
    "a blank refusal": (form("decline", {"message": " \n"}), FAILED),
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
    "a refusal written as Python": (words("decline(message='I can only help with your tasks.')"), REFUSED),
    "a tool written as Python": (words('default_api.add_task(description="call mom")'), FAILED),
    "a tool written as tool code": (words("```tool_code\nprint(add_task(description='call mom'))\n```"), FAILED),
    "a tool written as JSON": (words(json.dumps({"name": "add_task", "arguments": CALL_MOM})), FAILED),
    "a tool with the prefix default_api:": (words('default_api:add_task(description="call mom")'), FAILED),
    "a tool in Gemini's own notation": (words("call:default_api:add_task{description:call mom}"), FAILED),
    "a tool in a template's notation": (
        words('<|tool_call_begin|>functions.add_task:0{"description": "x"}<|tool_call_end|>'),
        FAILED,
    ),
    "a tool in Mistral's notation": (words('[TOOL_CALLS]add_task{"description": "call mom"}'), FAILED),
    "a tool as thought and action": (words('Thought: add_task.\nAction: add_task\nAction Input: {"description": "x"}'), FAILED),
    "a tool and its result written out": (
        words("```tool_code\nadd_task(description='x')\n```\n```tool_outputs\n{\"success\": true}\n```\nAll right."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "All right."),
    ),
    "an answer after a thought": (
        words("Thought: SECRET-THOUGHT\nFinal Answer: You have no tasks."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "You have no tasks."),
    ),
    "a question's arguments alone": (words(json.dumps(QUESTION)), ASKED),
    "a question behind its name": (
        words("**ask_user**: Which one?"),
        (DecisionType.ASK_CLARIFICATION, OutcomeCategory.UNCLEAR_INTENT, "Which one?"),
    ),
    "words and a tool written out": (
        words("One moment, please.\n```tool_code\nprint(default_api.list_tasks())\n```"),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "One moment, please."),
    ),
    "words that name a tool": (
        words("You can use add_task for that."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "You can use add task for that."),
    ),
    "a question in words": (
        words("I found two tasks: 'call mom' and 'call dad'. Which one do you mean?"),
        (
            DecisionType.ASK_CLARIFICATION,
            OutcomeCategory.MULTIPLE_MATCHES,
            "I found two tasks: 'call mom' and 'call dad'. Which one do you mean?",
        ),
    ),
    "a refusal in words": (
        words("I'm sorry, but I can only help with your tasks."),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.OUT_OF_SCOPE, "I'm sorry, but I can only help with your tasks."),
    ),
    "a greeting that ends in a question": (
        words("Hello! How can I help you today?"),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "Hello! How can I help you today?"),
    ),
    "thoughts beside an answer": (
        thinking("SECRET-THOUGHT: use add_task", "Hello!"),
        (DecisionType.RESPOND_ONLY, OutcomeCategory.RESPONSE_GIVEN, "Hello!"),
    ),
    "thoughts and nothing else": (thinking("SECRET-THOUGHT", ""), FAILED),
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


@speaking
@pytest.mark.parametrize(("said", "ends"), ONE_ANSWER.values(), ids=ONE_ANSWER)
async def test_a_habit_of_a_model_becomes_the_right_kind_of_reply(
    world: World, speaker: Speaker, said: Says, ends: Ends
) -> None:
    async with talking(world, speaker, said(speaker)) as talk:
        finished = await talk.ask("do it")
    decision = finished.decision
    assert (decision.decision_type, decision.outcome_category, decision.reply) == ends
    assert len(talk.provider.bodies) == 1
    assert await world.descriptions() == []
    assert not [word for word in MECHANISM if word in decision.reply]


@speaking
@pytest.mark.parametrize("beside", [("ask_user", QUESTION), ("decline", DECLINING), ("ask_user", {})])
async def test_a_form_beside_a_tool_is_told_not_now(world: World, speaker: Speaker, beside: tuple[str, dict[str, Any]]) -> None:
    both = wants(speaker, Call(*beside, id="f"), Call("add_task", CALL_MOM, id="t"), text="On it, with add_task.")
    async with talking(world, speaker, both, answers(speaker, "I've added it.")) as talk:
        finished = await talk.ask("add call mom")
    decision = finished.decision
    assert (decision.decision_type, decision.outcome_category, decision.reply) == ADDED
    form_result, tool_result = talk.provider.results()
    assert form_result.response["error"].startswith("not now")
    assert tool_result.response["success"]
    assert [call.tool_name for call in finished.record.invocations] == ["add_task"]


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
async def test_thoughts_that_a_local_model_writes_into_its_answer_are_not_shown(world: World, content: str) -> None:
    speaker = SPEAKERS[1]
    async with talking(world, speaker, answers(speaker, content)) as talk:
        finished = await talk.ask("hi")
    assert (finished.decision.reply, finished.decision.outcome_category) == ("Hello!", OutcomeCategory.RESPONSE_GIVEN)


@pytest.mark.parametrize("content", ["<think>SECRET-THOUGHT", "<think>SECRET-THOUGHT</think>\n", "<|end|>"])
@pytest.mark.parametrize("finish", ["stop", "cut"])
async def test_thoughts_and_nothing_else_are_no_answer(world: World, content: str, finish: str) -> None:
    speaker = SPEAKERS[1]
    async with talking(world, speaker, speaker.answer(text=content, finish=finish)) as talk:
        finished = await talk.ask("hi")
    assert (finished.decision.reply, finished.decision.outcome_category) == (FAILURE_REPLY, OutcomeCategory.RESPONSE_GENERATION)


# Budgets


@speaking
async def test_of_a_long_conversation_twenty_messages_are_kept_and_ten_are_sent(world: World, speaker: Speaker) -> None:
    async with talking(world, speaker, answers(speaker, "Yes.")) as talk:
        for n in range(30):
            talk.said.append(Message(role="assistant" if n % 2 else "user", content=f"m{n}", timestamp=datetime.now(UTC)))
        finished = await talk.ask("and now?")
    assert [message.content for message in finished.record.header.context.message_history] == [f"m{n}" for n in range(10, 30)]
    assert [text for _, text in talk.provider.spoken()] == [*(f"m{n}" for n in range(20, 30)), "and now?"]


@speaking
async def test_a_long_chat_sends_its_last_ten_messages(world: World, speaker: Speaker) -> None:
    async with providing(speaker, answers(speaker, "Yes.")) as provider:
        adapter = adapter_of(speaker, provider.url)
        chat = world.chat(adapter)
        first = await chat.send("ann", "m0")
        for n in range(1, 13):
            last = await chat.send("ann", f"m{n}", conversation_id=first.conversation_id)
        await adapter.aclose()
    kept = await world.log.read(
        lambda connection: connection.exec_driver_sql(
            "SELECT header FROM decision_logs WHERE decision_id = ?", (last.decision_id,)
        ).scalar_one()
    )
    assert len(json.loads(kept)["context"]["message_history"]) == 20
    assert [text for role, text in provider.spoken() if role == "user"] == [f"m{n}" for n in range(7, 13)]
    assert len(provider.spoken()) == 11
    assert provider.disorder == []


@speaking
@pytest.mark.parametrize("letter", ["x", "é", "🎉", '"'])
async def test_a_long_result_is_cut_between_items_and_says_so(world: World, speaker: Speaker, letter: str) -> None:
    def adds(first: int) -> dict[str, Any]:
        described = [{"description": f"{n} {letter * 400}"} for n in range(first, first + 5)]
        return wants(speaker, *(Call("add_task", description) for description in described))

    said = answers(speaker, "Done.")
    script = [adds(0), said, adds(5), said, adds(10), said, adds(15), said, wants(speaker, Call("list_tasks", {})), said]
    async with talking(world, speaker, *script) as talk:
        for _ in range(5):
            await talk.ask("go on")
    (listed,) = talk.provider.results()
    told, tasks = listed.response["truncated"], listed.response["data"]["tasks"]
    assert told == f"only the first {len(tasks)} of 20 are shown"
    assert 0 < len(tasks) < 20
    assert all(task["description"].endswith(letter * 400) for task in tasks)
    assert len(json.dumps(listed.response, ensure_ascii=False).encode()) <= MAX_RESULT_BYTES
