"""Turns of the agent service with a scripted model: cases that the shipped tools and the real clock cannot produce."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.agent_service import AgentLoopConfig, ToolBinding
from graph_agent.clock import ManualClock
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.reply.fixed import UNKNOWN_REPLY
from graph_agent.testing import says
from tests.agent_service.environment import USER, agent_services, kept, said, talk
from tests.frozen_clock import pass_time
from tests.scripted_turns import TableServer, calls, done, failed

LIST = calls(("list_tasks", {}))
ADD = calls(("add_task", {"description": "a"}))
DELETE = calls(("delete_task", {"task_id": "t1"}))
UNCERTAIN = failed(ToolErrorCode.TIMEOUT_ERROR)


def failing_first(times: int) -> Any:
    left = [failed(ToolErrorCode.DATABASE_ERROR)] * times
    return lambda _: left.pop() if left else done({"tasks": []})


@pytest.mark.parametrize(
    ("loop", "sent"),
    [
        (AgentLoopConfig(), 1),
        (AgentLoopConfig(retry_attempts=3), 1),
        (AgentLoopConfig(enable_retry=True), 2),
        (AgentLoopConfig(enable_retry=True, retry_attempts=5), 3),
        (AgentLoopConfig(enable_retry=True, retry_attempts=0), 1),
    ],
)
async def test_a_failed_read_is_tried_again_where_that_is_enabled(loop: AgentLoopConfig, sent: int) -> None:
    server = TableServer({"list_tasks": failing_first(2)})
    response = await talk(agent_services(server), [LIST, says("So.")], "show my tasks", loop_config=loop)
    assert (response.status, len(server.sent)) == ("completed", sent)


async def test_a_failed_change_is_never_tried_again() -> None:
    server = TableServer({"add_task": failed(ToolErrorCode.DATABASE_ERROR)})
    loop = AgentLoopConfig(enable_retry=True, retry_attempts=3)
    await talk(agent_services(server), [ADD, says("It did not work.")], "add a", loop_config=loop)
    assert len(server.sent) == 1


async def test_a_change_without_an_answer_is_settled_and_a_warning_names_what_stays_unknown() -> None:
    server = TableServer({"add_task": UNCERTAIN}, settlements=[UNCERTAIN])
    response = await talk(agent_services(server), [ADD, says("I don't know whether it was added.")], "add a")
    assert (response.status, response.warning) == (
        "completed",
        "It is not known whether everything that was asked for was done.",
    )
    assert (len(server.sent), len(server.settled)) == (1, 1)
    server = TableServer({"add_task": UNCERTAIN}, settlements=[done({"preview": "a"})])
    response = await talk(agent_services(server), [ADD, says("Added.")], "add a")
    assert (response.warning, response.effects) == (None, ["Add task 'a'"])


async def test_a_confirmed_action_without_an_answer_is_reported_as_unknown() -> None:
    server = TableServer({"delete_task": UNCERTAIN}, settlements=[UNCERTAIN])
    place = agent_services(server)
    asked = await talk(place, [DELETE], "delete it")
    response = await talk(place, [], [*kept(asked), said("yes")])
    assert (response.status, response.final_response) == ("completed", UNKNOWN_REPLY)
    assert response.warning == "It is not known whether everything that was asked for was done."


async def test_the_cap_and_an_unknown_outcome_are_reported_together() -> None:
    server = TableServer({"add_task": UNCERTAIN}, settlements=[UNCERTAIN])
    response = await talk(agent_services(server), [ADD], "add a", loop_config=AgentLoopConfig(max_iterations=1))
    assert response.warning == (
        "The limit of 1 iterations was reached before the request was finished. "
        "It is not known whether everything that was asked for was done."
    )


async def test_ids_that_no_model_gave_differ_from_turn_to_turn() -> None:
    place = agent_services()
    first = await talk(place, [LIST, says("None.")], "show my tasks")
    second = await talk(place, [LIST, says("None.")], [*kept(first), said("again")])
    ids = [call["id"] for message in second.messages for call in message.get("tool_calls") or []]
    assert [message["tool_call_id"] for message in second.messages if message["role"] == "tool"] == ids
    assert all(len(call_id) <= 40 for call_id in ids)


async def test_every_call_has_one_result_also_where_the_turn_stops_to_ask() -> None:
    batch = calls(("list_tasks", {}), ("delete_task", {"task_id": "t1"}), ("add_task", {"description": "a"}))
    response = await talk(agent_services(), [batch], "do all that")
    made = [call["id"] for message in response.messages for call in message.get("tool_calls") or []]
    assert [message["tool_call_id"] for message in response.messages if message["role"] == "tool"] == made
    assert len(made) == 3


async def test_a_record_that_cannot_be_written_is_an_error_and_no_turn() -> None:
    audit = MemoryAuditWriter()
    audit.available = False
    sentence = "The request cannot be recorded right now. Please try again later."
    for message in ("hi", ""):
        response = await talk(agent_services(audit=audit), [], message)
        assert (response.status, response.error, response.messages) == ("error", sentence, [said(message)])


async def test_a_turn_whose_end_cannot_be_recorded_is_not_reported_as_never_started() -> None:
    audit, clock = MemoryAuditWriter(), ManualClock()

    def lose_the_log(_: dict[str, Any]) -> ToolResult:
        audit.available = False
        return done()

    place = agent_services(TableServer({"add_task": lose_the_log}), audit=audit, clock=clock)
    response = await pass_time(clock, talk(place, [ADD], "add a"), step_seconds=1.0)
    sentence = "The request was started, and its outcome is not known. Check what was done before you repeat it."
    assert (response.status, response.error) == ("error", sentence)


async def test_the_server_that_is_given_is_the_one_that_is_called() -> None:
    shipped, given = TableServer(), TableServer()
    await talk(agent_services(shipped), [ADD, says("Added.")], "add a", tools=given)
    assert (len(shipped.sent), len(given.sent)) == (0, 1)


async def test_functions_are_called_with_the_authenticated_user_whatever_the_model_says() -> None:
    seen: list[dict[str, Any]] = []

    async def add_task(user_id: str, title: str) -> dict[str, Any]:
        seen.append({"user_id": user_id, "title": title})
        return {"success": True, "id": 7}

    schema = {
        "type": "function",
        "function": {
            "name": "add_task",
            "parameters": {
                "type": "object",
                "properties": {"user_id": {"type": "string"}, "title": {"type": "string"}},
                "required": ["user_id", "title"],
            },
        },
    }
    tools = [ToolBinding(tool_name="add_task", openai_function_schema=schema, mcp_tool_reference=add_task)]
    script = [
        calls(("add_task", {"title": "a"})),
        calls(("add_task", {"title": "b", "user_id": USER})),
        calls(("add_task", {"title": "c", "user_id": "somebody else"})),
        says("Added."),
    ]
    response = await talk(agent_services(), script, "add three", tools=tools)
    assert seen == [{"user_id": USER, "title": "a"}, {"user_id": USER, "title": "b"}]
    assert response.effects == ["Add task (title 'a')", "Add task (title 'b')"]


def binding(name: str, function: Any, **settings: Any) -> ToolBinding:
    schema = {"type": "function", "function": {"name": name}}
    return ToolBinding(tool_name=name, openai_function_schema=schema, mcp_tool_reference=function, **settings)


async def test_a_bound_tool_that_the_constitution_does_not_list_stops_the_start() -> None:
    async def format_disk(**_: Any) -> None:
        raise AssertionError("called")

    tools = [binding("list_tasks", format_disk), binding("format_disk", format_disk)]
    with pytest.raises(ConfigurationError, match="the constitution does not list the bound tools: format_disk"):
        await talk(agent_services(), [], "format it", tools=tools)


async def test_a_bound_tool_that_reads_runs_every_time_and_leaves_no_receipt() -> None:
    seen: list[str] = []

    async def list_tasks(user_id: str) -> list[str]:
        seen.append(user_id)
        return [f"answer {len(seen)}"]

    script = [calls(("list_tasks", {})), calls(("list_tasks", {})), says("Two answers.")]
    tools = [binding("list_tasks", list_tasks, reads=True)]
    response = await talk(agent_services(), script, "list twice", tools=tools)
    assert (seen, response.effects) == ([USER, USER], [])


async def test_a_bound_function_that_raises_has_failed() -> None:
    async def add_task(user_id: str) -> None:  # noqa: ARG001 - the signature of a bound tool
        raise LookupError("no such list")

    script = [calls(("add_task", {})), says("It failed.")]
    response = await talk(agent_services(), script, "add a", tools=[binding("add_task", add_task)])
    assert (response.warning, response.effects) == (None, [])


async def test_a_server_without_a_granted_tool_stops_the_start() -> None:
    server = TableServer(served=TableServer().served[:2])
    with pytest.raises(ConfigurationError, match="the constitution lists tools that no server serves"):
        await talk(agent_services(), [], "hi", tools=server)


async def test_an_answer_that_is_no_json_is_unknown_and_not_a_crash() -> None:
    async def add_task(**_: Any) -> Any:
        return {"at": object()}

    schema = {"type": "function", "function": {"name": "add_task"}}
    tools = [ToolBinding(tool_name="add_task", openai_function_schema=schema, mcp_tool_reference=add_task)]
    response = await talk(agent_services(), [calls(("add_task", {})), says("Who knows.")], "add a", tools=tools)
    assert response.warning == "It is not known whether everything that was asked for was done."


async def test_a_history_is_not_changed_and_shares_nothing_with_the_response() -> None:
    history = [said("hi")]
    response = await talk(agent_services(), [says("Hi.")], history)
    assert history == [said("hi")]
    assert response.messages[0] is not history[0]


async def test_results_of_the_turn_are_plain_data() -> None:
    server = TableServer({"list_tasks": ToolResult(success=True, data={"tasks": [{"id": "t1"}]})})
    response = await talk(agent_services(server), [LIST, says("One.")], "show my tasks")
    assert type(response).model_validate_json(response.model_dump_json()) == response


@pytest.mark.parametrize("history", [None, {}, [], [None], ["hi"], iter([said("hi")])])
async def test_what_is_no_conversation_at_all_is_an_error_and_no_crash(history: Any) -> None:
    response = await talk(agent_services(), [], history)
    assert (response.status, response.messages) == ("error", [])
    assert response.error in (
        "The message history must be a list that ends in the user's message.",
        "The last message of the history must be the user's.",
    )


async def test_the_caller_may_name_the_time_zone_of_its_user() -> None:
    audit = MemoryAuditWriter()
    place = agent_services(audit=audit)
    await talk(place, [says("Hi.")], "hi", time_zone="Asia/Tokyo")
    refused = await talk(place, [], "hi", time_zone="Nowhere")
    (record,) = audit.records.values()
    assert record.header.context.time_zone == "Asia/Tokyo"
    assert refused.error == "The time zone is none that is known here."
