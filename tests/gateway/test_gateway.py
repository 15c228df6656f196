"""The gateway before the task server: what its MCP clients see, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult, Implementation, InputRequiredResult

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.clock import ManualClock
from graph_agent.gateway.server import DECISION_META, WAITING, Gateway
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import replay
from tests.chat.environment import Environment

PAGE = "http://127.0.0.1:8000"
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
"""The revisions in which a client can be: one with a handshake and sessions, and the newest."""


class User:
    """Answers the questions that a client shows: each with the next of `answers`."""

    def __init__(self, *answers: ElicitResult | asyncio.Event) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.shown = asyncio.Event()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:  # noqa: ARG002 (the SDK's signature)
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params.message)
        self.shown.set()
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = YES
        return answer


YES = ElicitResult(action="accept", content={"yes": True})
NO = ElicitResult(action="decline")


NOT_DONE = (
    "Not done yet: the user has to confirm it on the graph-agent page or in a terminal. "
    "Do not call it again: it is done when the user confirms it."
)


@asynccontextmanager
async def opened(
    environment: Environment, announce: Callable[[str], None] = print, **engine: Any
) -> AsyncGenerator[tuple[Gateway, Runtime]]:
    runtime = environment.runtime(**engine)
    gateway = Gateway(runtime.engine, runtime.chat, user_id="ann", page=PAGE, announce=announce)
    async with gateway.maintained():
        yield gateway, runtime


def connect(gateway: Gateway, mode: Any, user: User | None = None, name: str = "editor") -> Client:
    return Client(gateway.server, mode=mode, elicitation_callback=user, client_info=Implementation(name=name, version="1"))


def value(result: CallToolResult) -> Any:
    """What a result says, after the error if there is one."""
    assert result.structured_content is not None
    return result.structured_content


async def add(client: Client, description: str) -> str:
    added = await client.call_tool("add_task", {"description": description})
    return str(value(added)["data"]["task"]["id"])


async def all_replay(environment: Environment) -> list[str]:
    """The type of every decision; each must be closed and replay."""
    records = await environment.records()
    assert len(records) == len(await environment.decisions())
    for record in records:
        texts = await environment.engines[0].audit.texts(list(record.header.digests.values()))
        assert (await replay(record, texts)).identical
    return [str(record.decision.decision_type) for record in records]


@MODES
async def test_a_client_sees_the_granted_tools_and_each_call_is_a_recorded_decision(
    environment: Environment,
    mode: str,
) -> None:
    async with opened(environment) as (gateway, runtime), connect(gateway, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["add_task", "complete_task", "delete_task", "list_tasks", "question_status", "update_task"]
        hints = [tools[name].annotations for name in ("list_tasks", "add_task", "delete_task")]
        assert [hint and (hint.read_only_hint, hint.destructive_hint) for hint in hints] == [
            (True, False),
            (False, False),
            (False, True),
        ]
        assert tools["add_task"].input_schema["required"] == ["description"]

        added = await client.call_tool("add_task", {"description": "call mom"})
        assert (added.is_error, value(added)["data"]["preview"]) == (False, "call mom")
        listed = await client.call_tool("list_tasks", {})
        assert [task["description"] for task in value(listed)["data"]["tasks"]] == ["call mom"]
        refused = await client.call_tool("list_tasks", {"user_id": "bob"})
        assert (refused.is_error, value(refused)["error_code"]) == (True, "ACCESS_DENIED")
        unknown = await client.call_tool("drop_table", {})
        assert (unknown.is_error, value(unknown)["error"]) == (True, "there is no such tool")

        (conversation,) = (await runtime.chat.conversations("ann")).conversations
        page = await runtime.chat.conversation("ann", conversation.id)
        assert [message.content for message in page.messages][:2] == [
            'call "add_task" {"description":"call mom"}',
            "Done: Add task 'call mom'.",
        ]
    records = await environment.records()
    assert added.meta is not None
    assert added.meta[DECISION_META] == records[0].header.decision_id
    assert {record.header.context.user_id for record in records} == {"ann"}
    assert await all_replay(environment) == ["INVOKE_TOOL", "INVOKE_TOOL", "RESPOND_ONLY", "INVOKE_TOOL"]


@MODES
async def test_a_confirmation_is_asked_by_elicitation(environment: Environment, mode: str) -> None:
    user = User(NO, ElicitResult(action="accept", content={"yes": False}), YES)
    async with opened(environment) as (gateway, _), connect(gateway, mode, user) as client:
        task = await add(client, "call mom")
        for _ in range(2):
            declined = await client.call_tool("delete_task", {"task_id": task})
            assert value(declined) == {"success": False, "error": "OK, I won't do that. Nothing was changed."}
        deleted = await client.call_tool("delete_task", {"task_id": task})
        assert value(deleted)["data"]["preview"] == "call mom"
    assert set(user.asked) == {"Delete task 'call mom'. Should I go ahead? Please answer yes or no."}
    assert await environment.descriptions() == []
    assert (await all_replay(environment))[-1] == "EXECUTE_PENDING"


@MODES
async def test_without_elicitation_a_call_waits_for_a_yes_on_the_page_and_reads_go_on(
    environment: Environment,
    mode: str,
) -> None:
    announced: list[str] = []
    async with opened(environment, announced.append) as (gateway, runtime), connect(gateway, mode) as client:
        task = await add(client, "call mom")
        announced.clear()
        waiting = await client.call_tool("delete_task", {"task_id": task})
        (conversation,) = (await runtime.chat.conversations("ann")).conversations
        asked = value(waiting)["id"]
        assert waiting.is_error
        assert value(waiting) == {"success": False, "error": NOT_DONE, "state": WAITING, "id": asked}
        status = await client.call_tool("question_status", {"id": asked})
        assert (status.is_error, value(status)["state"]) == (True, WAITING)
        # The user is told, and the client is not.
        assert announced == [f"a call waits for its user's yes on {PAGE}/chat/{conversation.id}"]
        await client.call_tool("list_tasks", {})
        await add(client, "call dad")
        # The page shows the question still, and its answer deletes the task.
        pending = (await runtime.chat.conversation("ann", conversation.id)).pending_action
        assert pending is not None
        answer = await runtime.chat.send("ann", "yes", conversation_id=conversation.id)
        assert answer.decision.effects == ["Delete task 'call mom'"]
        done = await client.call_tool("question_status", {"id": asked})
        assert (done.is_error, value(done)["state"]) == (False, "approved")
        assert value(done)["data"]["preview"] == "call mom"
    assert await environment.descriptions() == ["call dad"]


async def test_while_the_form_of_a_client_is_open_an_answer_of_the_page_counts(environment: Environment) -> None:
    class Away(User):
        async def __call__(self, context: Any, params: Any) -> ElicitResult:
            await super().__call__(context, params)
            waiting = runtime.chat.questions
            (question,) = (await waiting.inbox(Person("ann"))).questions
            await waiting.answer(question.id, Person("ann"), GivenAnswer(yes=True, digest=question.digest))
            await asyncio.Event().wait()
            raise AssertionError

    user = Away(NO)
    async with opened(environment) as (gateway, runtime), connect(gateway, "legacy", user) as client:
        task = await add(client, "call mom")
        deleted = await client.call_tool("delete_task", {"task_id": task})
        assert value(deleted)["data"]["preview"] == "call mom"
    assert await environment.descriptions() == []


@MODES
@pytest.mark.parametrize("answer", [None, ElicitResult(action="cancel"), NO, ElicitResult(action="accept"), YES])
async def test_nothing_that_a_client_gets_confirms_a_call(
    environment: Environment, mode: str, answer: ElicitResult | None
) -> None:
    user = None if answer is None else User(answer)
    async with opened(environment) as (gateway, runtime), connect(gateway, mode, user) as client:
        first, second = await add(client, "call mom"), await add(client, "call dad")
        got = [(await client.call_tool("delete_task", {"task_id": first})).model_dump_json(by_alias=True)]
        if user is not None and mode == "auto":
            arguments = {"task_id": second}
            asked = await client.session.call_tool("delete_task", arguments, allow_input_required=True)
            assert isinstance(asked, InputRequiredResult)
            unanswered = await client.session.call_tool("delete_task", arguments, request_state=asked.request_state)
            assert value(unanswered)["error"] == NOT_DONE
            got += [one.model_dump_json(by_alias=True) for one in (asked, unanswered)]
        (conversation,) = (await runtime.chat.conversations("ann")).conversations
    ids = [one.decision.pending_action.id for one in await environment.records() if one.decision.pending_action is not None]
    assert ids
    for secret in (*ids, conversation.id, PAGE, "graph-agent ask", "--yes", "/chat"):
        assert not [one for one in got if secret in one], secret


UNUSABLE: list[Any] = [None, {}, {"yes": "true"}, {"yes": 1}, {"yes": None}, {"yes": ["yes"]}, {"no": True}]
ANSWERED = {
    "declined": (NO, "Declined the question.", "CANCEL_PENDING", "OK, I won't do that. Nothing was changed."),
    "no": (
        ElicitResult(action="accept", content={"yes": False}),
        "No.",
        "CANCEL_PENDING",
        "OK, I won't do that. Nothing was changed.",
    ),
    "closed": (
        ElicitResult(action="cancel"),
        "Closed the question without an answer.",
        "REQUEST_CONFIRMATION",
        "Not done yet: the user closed the question without an answer, and can still confirm it",
    ),
    **{
        str(content): (
            ElicitResult(action="accept", content=content),
            "Answered the question with neither yes nor no.",
            "REQUEST_CONFIRMATION",
            "Not done yet: the user's answer was neither yes nor no, and the user can still confirm it",
        )
        for content in UNUSABLE
    },
}


@MODES
@pytest.mark.parametrize("name", ANSWERED)
async def test_the_record_says_what_the_user_did_with_the_form(environment: Environment, mode: str, name: str) -> None:
    answer, words, decision_type, reply = ANSWERED[name]
    async with opened(environment) as (gateway, runtime), connect(gateway, mode, User(answer)) as client:
        task = await add(client, "call mom")
        result = await client.call_tool("delete_task", {"task_id": task})
        assert result.is_error
        assert value(result)["error"].startswith(reply)
        last = (await environment.records())[-1]
        assert (last.header.context.message, last.decision.decision_type) == (words, decision_type)
        # Only a yes or a no closes the question: the user can still answer the other ones.
        (conversation,) = (await runtime.chat.conversations("ann")).conversations
        waiting = (await runtime.chat.conversation("ann", conversation.id)).pending_action
        assert (waiting is not None) is (decision_type == "REQUEST_CONFIRMATION")
        assert await environment.descriptions() == ["call mom"]
        if waiting is not None:
            assert waiting.asked == 1
            given = ConfirmationAnswer(pending_action=waiting.id, yes=True)
            assert (await runtime.chat.send("ann", answers=given)).decision.effects == ["Delete task 'call mom'"]
    await all_replay(environment)


@MODES
async def test_a_call_that_waits_for_a_yes_blocks_no_other_call(environment: Environment, mode: str) -> None:
    answer = asyncio.Event()
    user = User(answer, YES)
    async with opened(environment) as (gateway, _), connect(gateway, mode, user) as client:
        first, second = await add(client, "call mom"), await add(client, "call dad")
        waiting = asyncio.create_task(client.call_tool("delete_task", {"task_id": first}))
        await user.shown.wait()
        listed, added = await asyncio.gather(client.call_tool("list_tasks", {}), add(client, "call aunt"))
        assert len(value(listed)["data"]["tasks"]) >= 2
        assert added
        if mode == "legacy":
            # The second question waits for the answer to the first one.
            other = asyncio.create_task(client.call_tool("delete_task", {"task_id": second}))
            await add(client, "call uncle")
            assert len(user.asked) == 1
        answer.set()
        assert value(await waiting)["data"]["preview"] == "call mom"
        if mode == "legacy":
            assert value(await other)["data"]["preview"] == "call dad"


@MODES
async def test_the_calls_of_a_client_queue_and_each_client_has_a_conversation(
    environment: Environment,
    mode: str,
) -> None:
    async with (
        opened(environment) as (gateway, runtime),
        connect(gateway, mode) as client,
        connect(gateway, mode, name="other") as other,
    ):
        await asyncio.gather(*(add(client, f"task {n}") for n in range(5)), add(other, "of the other"))
        conversations = (await runtime.chat.conversations("ann")).conversations
    assert len(conversations) == 2
    assert len(await environment.descriptions()) == 6


@MODES
async def test_a_tool_that_is_limited_per_message_asks_for_each_call(environment: Environment, mode: str) -> None:
    announced: list[str] = []
    user = User(YES, YES, YES, NO)
    async with opened(environment, announced.append) as (gateway, _), connect(gateway, mode, user) as client:
        assert announced == [
            f"MCP clients send no messages, so each call asks its user: {limit}"
            for limit in (
                "update_task: at most 3 per message (constitution, line 9)",
                "complete_task: at most 5 per message (constitution, line 10)",
            )
        ]
        task = await add(client, "call mom")
        for number in range(4):
            changed = await client.call_tool("update_task", {"task_id": task, "description": f"call {number}"})
            assert changed.is_error is (number == 3)
    assert len(user.asked) == 4
    assert user.asked[0].startswith("A rule asks for your yes: at most 3 per message (constitution).")
    assert await environment.descriptions() == ["call 2"]
    await all_replay(environment)


PER_MESSAGE = """permit (principal, action, resource);
@id("at most two for one message")
forbid (principal, action == Action::"add_task", resource) when { context.used.message.calls > 2 };
"""
TAINTED = """permit (principal, action, resource);
@id("descriptions are your words")
forbid (principal, action == Action::"add_task", resource)
when { context.tainted && !(["user"].containsAll(context.source.description)) } unless { context.confirmed };
"""
PRIVATE = """permit (principal, action, resource);
@id("nothing is added after a read")
forbid (principal, action == Action::"add_task", resource) when { context.attempted.contains(Action::"list_tasks") };
"""


@MODES
async def test_a_condition_on_what_a_message_has_used_asks_for_each_call(environment: Environment, mode: str) -> None:
    announced: list[str] = []
    user = User(YES, NO)
    conditions = ConditionsFile(PER_MESSAGE)
    async with (
        opened(environment, announced.append, conditions=conditions) as (gateway, _),
        connect(gateway, mode, user) as one,
    ):
        assert announced[-1].endswith("add_task: at most two for one message (policy.cedar, line 2)")
        await one.call_tool("add_task", {"description": "call mom"})
        await one.call_tool("add_task", {"description": "call dad"})
        assert not (await one.call_tool("list_tasks", {})).is_error
    assert user.asked[0].startswith("A rule asks for your yes: at most two for one message.")
    assert await environment.descriptions() == ["call mom"]


NO_DOUBLES = """- known: list_tasks() $.tasks[*].description
@id("base") permit (principal, action, resource);
@id("nothing twice") forbid (principal, action == Action::"add_task", resource)
when { context.result has known && context.result.known.contains(context.arguments.description) };
@id("only what is known") forbid (principal, action == Action::"list_tasks", resource)
unless { context.result has known };
"""


@MODES
async def test_a_client_s_call_is_judged_with_facts_which_it_does_not_get(environment: Environment, mode: str) -> None:
    async with (
        opened(environment, conditions=ConditionsFile(NO_DOUBLES)) as (gateway, _),
        connect(gateway, mode) as client,
    ):
        first = await client.call_tool("add_task", {"description": "call mom"})
        assert value(first)["success"]
        second = value(await client.call_tool("add_task", {"description": "call mom"}))
        assert second["error"] == "not permitted: nothing twice"
        assert not (await client.call_tool("list_tasks", {})).is_error
    assert await environment.descriptions() == ["call mom"]


@MODES
async def test_after_an_untrusted_result_no_argument_of_a_client_is_the_users(environment: Environment, mode: str) -> None:
    user, other = User(NO), User(YES)
    async with opened(environment, conditions=ConditionsFile(TAINTED)) as (gateway, _):
        async with connect(gateway, mode, user) as client:
            await client.call_tool("add_task", {"description": "call mom"})
            await client.call_tool("list_tasks", {})
            await client.call_tool("add_task", {"description": "call dad"})
        async with connect(gateway, mode, other, name="another") as client:
            await client.call_tool("add_task", {"description": "call eve"})
    assert "description 'call dad' is not from you: the model wrote it." in user.asked[0]
    assert "description 'call eve' is not from you: the model wrote it." in other.asked[0]
    assert await environment.descriptions() == ["call mom", "call eve"]


@MODES
@pytest.mark.parametrize("is_shown", [True, False])
async def test_an_object_that_a_question_has_shown_taints_the_calls_of_a_new_session(
    environment: Environment, mode: str, is_shown: bool
) -> None:
    user = User(NO)
    async with opened(environment, conditions=ConditionsFile(TAINTED)) as (gateway, runtime):
        await runtime.chat.send("ann", "add a task to call mom")
        task = await environment.task_id("call mom")
        async with connect(gateway, mode, user) as client:
            if is_shown:
                await client.call_tool("delete_task", {"task_id": task})
                assert "call mom" in user.asked[0]
        async with connect(gateway, mode, name="another") as client:
            waits = "has to confirm" in str(value(await client.call_tool("add_task", {"description": "call eve"})))
    assert waits is is_shown
    await all_replay(environment)


@MODES
async def test_what_was_called_before_is_not_forgotten_by_a_new_session(
    environment: Environment, clock: ManualClock, mode: str
) -> None:
    refused = {"success": False, "error": "not permitted: nothing is added after a read", "error_code": "ACCESS_DENIED"}
    call = "add_task", {"description": "call mom"}
    async with opened(environment, conditions=ConditionsFile(PRIVATE)) as (gateway, runtime):
        async with connect(gateway, mode) as client:
            await client.call_tool("list_tasks", {})
            assert value(await client.call_tool(*call)) == refused
        async with connect(gateway, mode, name="another") as client:
            assert value(await client.call_tool(*call)) == refused
        # A user's own conversation with a model is not one of a client, and those of other users are not theirs.
        chat = await runtime.chat.send("ann", "add a task to call mom")
        assert chat.decision.effects == ["Add task 'call mom'"]
        other = Gateway(runtime.engine, runtime.chat, user_id="bob", page=PAGE)
        async with connect(other, mode) as client:
            assert not (await client.call_tool(*call)).is_error
        clock.advance(seconds=24 * 3600 + 1)
        async with connect(gateway, mode, name="later") as client:
            assert not (await client.call_tool(*call)).is_error
    await all_replay(environment)


@MODES
async def test_a_question_of_one_session_is_judged_with_what_another_one_has_read_since(
    environment: Environment, mode: str
) -> None:
    rules = PRIVATE.replace("add_task", "delete_task")
    async with opened(environment, conditions=ConditionsFile(rules)) as (gateway, runtime):
        async with connect(gateway, mode) as client:
            task = await add(client, "call mom")
            await client.call_tool("delete_task", {"task_id": task})
        async with connect(gateway, mode, name="another") as client:
            await client.call_tool("list_tasks", {})
        (conversation,) = [one for one in (await runtime.chat.conversations("ann")).conversations if "add_task" in one.title]
        await runtime.chat.send("ann", "yes", conversation_id=conversation.id)
    assert await environment.descriptions() == ["call mom"]
