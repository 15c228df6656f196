"""Whole turns of the agent service over the wire: a server that speaks OpenAI's protocol, the shipped tools, SQLite."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from graph_agent.agent_service import AgentLoopConfig, AgentResponse, SystemPrompt, bind_mcp_tools, run_agent, shared_services
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.models.decision import AnswerState, OutcomeCategory
from graph_agent.models.llm import TokenUsage
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.constitution import Constitution
from graph_agent.record.tables import decision_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.fixed import CAP_REPLY, FAILURE_REPLY, RATE_LIMIT_REPLY, void_answer_reply
from tests.agent_service.environment import USER, after_results, answers, at, kept, said, wants
from tests.llm.wire_server import Reply, WireServer, drips, hangs, says, serving

EXAMPLE = """
# Get default configuration
config = get_default_config()

# Prepare message history
message_history = [
    {"role": "user", "content": "Show me my tasks"}
]

# Run agent
response = await run_agent(
    message_history=message_history,
    user_id="550e8400-e29b-41d4-a716-446655440000",
    config=config
)

# Handle response
if response.status == "completed":
    print(f"Agent: {response.final_response}")
elif response.status == "error":
    print(f"Error: {response.error}")
"""


@pytest.mark.parametrize(
    ("replies", "printed"),
    [
        ([wants(("list_tasks", {})), answers("You have no tasks.")], "Agent: You have no tasks.\n"),
        ([says({"error": {"message": "boom"}}, 500)], f"Error: {FAILURE_REPLY}\n"),
    ],
)
async def test_the_documented_example_runs_as_printed(
    replies: list[Reply], printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(*replies) as server:
        monkeypatch.setenv("GEMINI_API_KEY", "key")
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        names: dict[str, Any] = {}
        exec("from graph_agent import get_default_config, run_agent", names)
        running = eval(compile(EXAMPLE, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        assert inspect.iscoroutine(running)
        await running
    assert capsys.readouterr().out == printed
    assert server.requests[0].path == "/v1beta/openai/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer key"


@asynccontextmanager
async def conversing(*replies: Reply, **config: Any) -> AsyncIterator[tuple[WireServer, Callable[..., Any]]]:
    """Run a server that plays `replies`, and yield `ask(history, **options)`, which sends to it."""
    async with serving(*replies) as server:

        async def ask(history: Any, **options: Any) -> AgentResponse:
            messages = [said(history)] if isinstance(history, str) else history
            return await run_agent(messages, options.pop("user_id", USER), at(server.url, **config), **options)

        yield server, ask


async def recorded(home: Path, response: AgentResponse) -> DecisionRecord:
    """Return the closed record of a response's turn."""
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    try:
        found = await DatabaseAuditWriter(database).load(response.messages[-1]["graph_agent"]["decision_id"])
    finally:
        await database.close()
    assert isinstance(found, DecisionRecord)
    return found


async def tasks_of(user_id: str = USER) -> list[str]:
    listed = {binding.tool_name: binding.mcp_tool_reference for binding in await bind_mcp_tools()}["list_tasks"]
    return [task["description"] for task in (await listed(user_id=user_id))["data"]["tasks"]]


async def test_a_turn_with_a_tool_is_returned_and_recorded_completely(home: Path) -> None:
    call = wants(("add_task", {"description": "call mom", "user_id": USER}))
    async with conversing(call, answers("I added it.")) as (_, ask):
        response = await ask("add call mom")
    *messages, last = response.messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[0] == said("add call mom")
    arguments = json.dumps({"description": "call mom", "user_id": USER})
    assert messages[1]["tool_calls"] == [
        {"id": "call_a0", "type": "function", "function": {"name": "add_task", "arguments": arguments}}
    ]
    assert messages[2]["tool_call_id"] == "call_a0"
    result = json.loads(messages[2]["content"])
    assert (result["success"], result["data"]["task"]["description"]) == (True, "call mom")
    mark = last.pop("graph_agent")
    assert last == {"role": "assistant", "content": "I added it."}
    assert mark["effects"] == response.effects == ["Add task 'call mom'"]
    assert response.replace(messages=[]) == AgentResponse(
        status="completed",
        final_response="I added it.",
        iterations=2,
        finish_reason="completed",
        effects=["Add task 'call mom'"],
        usage=TokenUsage(prompt_tokens=10, completion_tokens=6, total_tokens=16),
    )
    assert await tasks_of() == ["call mom"]
    record = await recorded(home, response.replace(messages=[{**last, "graph_agent": mark}]))
    assert (record.usage, record.header.context.user_id) == (response.usage, USER)
    assert record.header.context.conversation_id == mark["conversation_id"]
    assert record.header.constitution == Constitution.load().digest
    assert record.header.prompt == digest(SystemPrompt().to_prompt_string(USER))


async def test_the_model_reads_prompt_time_tools_and_what_was_said() -> None:
    config = {"temperature": 0.4, "max_tokens": 77}
    async with conversing(wants(("list_tasks", {})), answers("None."), **config) as (server, ask):
        first = await ask("hi", system_prompt=SystemPrompt(role_definition="You are a butler"))
        await ask([*kept(first), said("thanks")])
    sent = [request.body for request in server.requests]
    prompt, time_sentence = sent[0]["messages"][0]["content"].split("\n\nThe current time is ")
    assert prompt == SystemPrompt(role_definition="You are a butler").to_prompt_string(USER)
    assert time_sentence.endswith(" (UTC).")
    assert (sent[0]["model"], sent[0]["temperature"], sent[0]["max_tokens"]) == ("test-model", 0.4, 77)
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == [
        "add_task", "list_tasks", "update_task", "complete_task", "delete_task", "answer", "ask_user", "decline",
    ]  # fmt: skip
    assert sent[-1]["messages"][1:] == [said("hi"), {"role": "assistant", "content": "None."}, said("thanks")]
    assert "graph_agent" not in json.dumps(sent)


async def test_twenty_earlier_messages_are_kept_and_ten_are_sent(home: Path) -> None:
    history = [{"role": role, "content": f"{role} {n}"} for n in range(30) for role in ("user", "assistant")]
    async with conversing(answers("Fine.")) as (server, ask):
        response = await ask([*history, said("and now?")])
    assert [message["content"] for message in server.requests[0].body["messages"][1:]] == [
        *(message["content"] for message in history[-10:]),
        "and now?",
    ]
    context = (await recorded(home, response)).header.context
    assert [message.content for message in context.message_history] == [message["content"] for message in history[-20:]]
    assert response.messages[:-1] == [*history, said("and now?")]


async def test_a_large_tool_result_is_cut_for_the_model_and_says_so() -> None:
    add = next(binding for binding in await bind_mcp_tools() if binding.tool_name == "add_task").mcp_tool_reference
    async with shared_services():
        for n in range(12):
            await add(user_id=USER, description=f"{n:04}" + "x" * 996)
    async with conversing(wants(("list_tasks", {})), answers("Many.")) as (server, ask):
        await ask("show my tasks")
    result = server.requests[1].body["messages"][-1]["content"]
    assert len(result.encode()) <= 8.5 * 1024
    assert "of 12 are shown" in json.loads(result)["truncated"]


@asynccontextmanager
async def deleting(*after: Reply) -> AsyncIterator[tuple[WireServer, Callable[..., Any], AgentResponse]]:
    """Return a conversation that ends with the question whether to delete 'call mom'."""
    found: list[WireServer] = []
    delete = after_results(
        lambda: found[0], lambda results: wants(("delete_task", {"task_id": results[-1]["data"]["tasks"][0]["id"]}))
    )
    add = wants(("add_task", {"description": "call mom"}))
    async with conversing(add, answers("Added."), wants(("list_tasks", {})), delete, *after) as (server, ask):
        found.append(server)
        first = await ask("add call mom")
        asked = await ask([*kept(first), said("delete it")])
        yield server, ask, asked


async def test_a_yes_in_the_next_call_runs_exactly_the_pending_action_once(home: Path) -> None:
    async with deleting(answers("What do you mean?")) as (server, ask, asked):
        assert asked.status == "completed"
        assert asked.final_response == "Delete task 'call mom'. Should I go ahead? Please answer yes or no."
        assert await tasks_of() == ["call mom"]
        requests = len(server.requests)

        done = await ask([*kept(asked), said("yes")])
        assert done.final_response == "Done: Delete task 'call mom'."
        assert (done.iterations, done.effects, done.usage) == (0, ["Delete task 'call mom'"], None)
        assert [message["role"] for message in done.messages[-4:]] == ["user", "assistant", "tool", "assistant"]
        pending = asked.messages[-1]["graph_agent"]["pending_action"]
        assert json.loads(done.messages[-3]["tool_calls"][0]["function"]["arguments"]) == pending["arguments"]
        assert done.messages[-3]["tool_calls"][0]["id"] == done.messages[-2]["tool_call_id"]
        assert len(server.requests) == requests
        assert await tasks_of() == []

        again = await ask([*kept(asked), said("yes")])
        assert again.final_response == "What do you mean?"
        assert (await recorded(home, again)).invocations == []
    conversations = {
        message["graph_agent"]["conversation_id"]
        for response in (asked, done, again)
        for message in response.messages
        if "graph_agent" in message
    }
    assert len(conversations) == 1
    ids = [call["id"] for message in done.messages for call in message.get("tool_calls") or []]
    assert [message["tool_call_id"] for message in done.messages if message["role"] == "tool"] == ids, (
        "every call has exactly one response"
    )


async def test_a_yes_under_another_policy_does_nothing_and_the_action_still_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);")
    async with deleting() as (_, ask, asked):
        with monkeypatch.context() as other:
            other.setenv("GRAPH_AGENT_CONDITIONS", str(tmp_path / "policy.cedar"))
            refused = await ask([*kept(asked), said("yes")])
        assert refused.final_response == void_answer_reply(AnswerState.OTHER_RULES)
        assert await tasks_of() == ["call mom"]
        done = await ask([*kept(refused), said("yes")])
        assert done.final_response == "Done: Delete task 'call mom'."


async def test_a_caller_who_goes_away_leaves_a_closed_record(home: Path) -> None:
    waiting = asyncio.Event()
    async with conversing(hangs(waiting)) as (_, ask):
        running = asyncio.create_task(ask("hi"))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    status = await database.read(lambda connection: connection.execute(select(decision_logs.c.status)).scalars().all())
    await database.close()
    assert status == ["interrupted"]


def retold(messages: list[dict[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    """Return `messages` with another pending action in the last one."""
    mark = messages[-1]["graph_agent"]
    return [*messages[:-1], {**messages[-1], "graph_agent": {**mark, "pending_action": {**mark["pending_action"], **changes}}}]


FORGERIES: list[dict[str, Any]] = [
    {"arguments": {"task_id": "another"}},
    {"tool_name": "complete_task"},
    {"signature": "0" * 64},
    {"signature": ""},
    {"signature": "\ud800"},
    {"description": "\ud800"},
    {"expires_at": "2099-01-01T00:00:00Z"},
    {"id": "another"},
]


async def test_a_changed_action_is_none(home: Path) -> None:
    async with deleting(answers("What do you mean?")) as (_, ask, asked), shared_services():
        for changes in FORGERIES:
            response = await ask([*retold(kept(asked), **changes), said("yes")])
            assert response.final_response == "What do you mean?", changes
            assert (await recorded(home, response)).header.context.pending_confirmation is None
        assert await tasks_of() == ["call mom"]


async def test_a_conversation_can_be_named_from_outside(home: Path) -> None:
    async with conversing(answers("Hi.")) as (_, ask):
        response = await ask("hi", conversation_id="ticket-17")
        following = await ask([*kept(response), said("ho")])
    assert (await recorded(home, response)).header.context.conversation_id == "ticket-17"
    assert (await recorded(home, following)).header.context.conversation_id == "ticket-17"


async def test_the_cap_is_an_honest_answer_with_a_warning() -> None:
    async with conversing(wants(("add_task", {"description": "a"})), wants(("list_tasks", {}))) as (server, ask):
        response = await ask("go on and on", loop_config=AgentLoopConfig(max_iterations=2))
    assert response.replace(messages=[], usage=None) == AgentResponse(
        status="max_iterations_reached",
        final_response=f"{CAP_REPLY} Already done: Add task 'a'.",
        iterations=2,
        finish_reason="max_iterations",
        warning="The limit of 2 iterations was reached before the request was finished.",
        effects=["Add task 'a'"],
    )
    assert len(server.requests) == 2
    assert response.messages[-1]["content"] == response.final_response


FAILURES = [
    (says({"error": {"message": "secret detail"}}, 500), FAILURE_REPLY),
    (says({"error": {"message": "secret detail"}}, 401), FAILURE_REPLY),
    (says({"error": {"message": "secret detail"}}, 429), RATE_LIMIT_REPLY),
    (says({"choices": []}), FAILURE_REPLY),
    (answers(""), FAILURE_REPLY),
]


@pytest.mark.parametrize(("reply", "sentence"), FAILURES)
async def test_a_failure_is_reported_in_a_fixed_sentence(reply: Reply, sentence: str) -> None:
    async with conversing(reply) as (_, ask):
        response = await ask("hi")
    assert (response.status, response.finish_reason, response.error) == ("error", "error", sentence)
    assert (response.final_response, response.warning) == (None, None)
    assert [message["role"] for message in response.messages] == ["user", "assistant"]
    assert "secret" not in response.model_dump_json()


async def test_effects_before_a_failure_are_reported() -> None:
    async with conversing(wants(("add_task", {"description": "a"})), says({}, 500)) as (_, ask):
        response = await ask("add a")
    assert response.error == f"{FAILURE_REPLY} Already done: Add task 'a'."
    assert response.effects == ["Add task 'a'"]


@pytest.mark.parametrize("reply", [hangs(), drips(b" " * 1000, 0.2)])
async def test_an_iteration_ends_in_time_whatever_hangs(home: Path, reply: Reply) -> None:
    """Without the limit of an iteration, the slow response would take more than a minute."""
    async with conversing(reply) as (_, ask):
        response = await ask("hi", loop_config=AgentLoopConfig(iteration_timeout=1, turn_timeout=120))
    assert (response.status, response.error) == ("error", FAILURE_REPLY)
    assert (await recorded(home, response)).duration_ms < 60_000


async def test_a_turn_ends_in_time_whatever_hangs(home: Path) -> None:
    async with conversing(hangs()) as (_, ask):
        response = await ask("hi", loop_config=AgentLoopConfig(turn_timeout=3))
    assert (response.status, response.error) == ("error", FAILURE_REPLY)
    assert (await recorded(home, response)).duration_ms < 60_000


async def test_an_answer_that_was_cut_is_completed_with_a_warning() -> None:
    async with conversing(answers("This is what I know", "length")) as (_, ask):
        response = await ask("tell me everything")
    assert (response.status, response.warning) == ("completed", "The answer was cut short at the limit of its length.")
    assert response.final_response == "This is what I know […] (this answer was cut short)"


@pytest.mark.parametrize(
    "reply",
    [
        wants(("ask_user", {"question": "Which one?", "reason": "multiple_matches"})),
        wants(("decline", {"text": "Which one?"})),
        answers("Which one?"),
    ],
)
async def test_a_question_and_a_refusal_are_completed(reply: Reply) -> None:
    async with conversing(reply) as (_, ask):
        response = await ask("do it")
    assert (response.status, response.final_response, response.error) == ("completed", "Which one?", None)
    assert response.messages[1:] == [{**response.messages[-1], "role": "assistant", "content": "Which one?"}]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [("", "The message is empty."), ("x" * 4001, "The message is longer than 4000 characters.")],
)
async def test_a_refused_message_gets_a_reason_and_is_logged(message: str, sentence: str, home: Path) -> None:
    async with conversing(answers("Hi.")) as (server, ask):
        response = await ask(message)
    assert response == AgentResponse(
        status="error", finish_reason="error", iterations=0, error=sentence, messages=[said(message)]
    )
    assert server.requests == []
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    columns = (
        decision_logs.c.outcome_category,
        decision_logs.c.response_text,
        decision_logs.c.user_id,
        decision_logs.c.total_tokens,
    )
    logged = select(*columns)
    rows = await database.read(lambda connection: [tuple(row) for row in connection.execute(logged)])
    await database.close()
    assert rows == [("ERROR:USER_INPUT", sentence, USER, None)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"user_id": ""}, "user_id must be a text of 1 to 255 characters."),
        ({"user_id": "u" * 256}, "user_id must be a text of 1 to 255 characters."),
        ({"user_id": None}, "user_id must be a text of 1 to 255 characters."),
        ({"conversation_id": "a\x00"}, "conversation_id must be a text of 1 to 255 characters."),
    ],
)
async def test_an_invalid_id_is_reported(options: dict[str, Any], sentence: str) -> None:
    async with conversing(answers("Hi.")) as (server, ask):
        response = await ask("hi", **options)
    assert (response.status, response.error, server.requests) == ("error", sentence, [])


async def test_bound_tools_keep_preview_ledger_and_confirmation() -> None:
    tools = await bind_mcp_tools()
    found: list[WireServer] = []
    delete = after_results(
        lambda: found[0], lambda results: wants(("delete_task", {"task_id": results[-1]["data"]["task"]["id"]}))
    )
    async with conversing(wants(("add_task", {"description": "call mom"})), delete) as (server, ask):
        found.append(server)
        asked = await ask("add call mom and delete it", tools=tools)
        question = "Delete task 'call mom'. Should I go ahead? Please answer yes or no."
        assert asked.final_response == f"Already done: Add task 'call mom'. {question}"
        done = await ask([*kept(asked), said("yes")], tools=tools)
    assert done.effects == ["Delete task 'call mom'"]
    assert await tasks_of() == []


async def test_fewer_bindings_are_fewer_tools(home: Path) -> None:
    tools = [binding for binding in await bind_mcp_tools() if binding.tool_name == "list_tasks"]
    async with conversing(wants(("add_task", {"description": "x"})), answers("I can't.")) as (server, ask):
        response = await ask("add x", tools=tools)
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == [
        "list_tasks",
        "answer",
        "ask_user",
        "decline",
    ]
    assert [call.error_code for call in (await recorded(home, response)).invocations] == ["TOOL_NOT_FOUND"]
    assert await tasks_of() == []


async def test_concurrent_turns_share_the_services() -> None:
    async with conversing(answers("Hi.")) as (server, ask):
        responses = await asyncio.gather(*(ask("hi", user_id=f"user {n}") for n in range(20)))
    assert {response.status for response in responses} == {"completed"}
    assert len(server.requests) == 20


async def test_two_event_loops_can_run_agents_at_the_same_time() -> None:
    async with conversing(answers("Hi.")) as (_, ask):
        here, there = await asyncio.gather(ask("hi"), asyncio.to_thread(lambda: asyncio.run(ask("hi"))))
    assert (here.status, there.status) == ("completed", "completed")


async def test_a_home_that_cannot_be_created_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(ConfigurationError, match=r"\(GRAPH_AGENT_HOME\) cannot be created"):
        await run_agent([said("hi")], USER, at("http://127.0.0.1:9/"))


async def test_an_answer_after_a_question_answers_it_whatever_the_wording(home: Path) -> None:
    question = wants(("ask_user", {"question": "Tell me which one.", "reason": "multiple_matches"}))
    async with conversing(question, answers("All right.")) as (_, ask):
        asked = await ask([said("finish it")])
        assert asked.messages[-1]["graph_agent"]["decision_type"] == "ASK_CLARIFICATION"
        answered = await ask([*kept(asked), said("the first")])
    record = await recorded(home, answered)
    assert record.decision.outcome_category is OutcomeCategory.CLARIFICATION_ANSWERED
