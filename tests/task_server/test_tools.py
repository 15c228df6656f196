"""The five tools on both databases."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.protocol import ResultEnvelope
from tests.task_server.conftest import ToolsOnDatabase

NOBODY = str(uuid.UUID(int=999))


async def test_a_task_is_added(environment: ToolsOnDatabase) -> None:
    assert await environment.call("add_task", description="  call mom ") == ResultEnvelope.done(
        task={
            "id": str(uuid.UUID(int=1)),
            "user_id": "ann",
            "description": "call mom",
            "status": "pending",
            "created_at": "2026-01-05T09:00:00Z",
            "completed_at": None,
        },
        preview="call mom",
    )


async def test_lists_are_newest_first_even_at_the_same_time(environment: ToolsOnDatabase) -> None:
    for description in ("a", "b"):
        await environment.add(description)
    environment.clock.advance(seconds=1)
    await environment.add("c")
    assert await environment.descriptions() == ["c", "b", "a"]


async def test_lists_can_be_filtered_and_are_counted(environment: ToolsOnDatabase) -> None:
    done = await environment.add("a")
    await environment.add("b")
    await environment.call("complete_task", task_id=done)
    found = {}
    for status in ("pending", "completed", "all"):
        outcome = await environment.call("list_tasks", status=status)
        assert outcome.data is not None
        found[status] = (outcome.data["count"], [task["description"] for task in outcome.data["tasks"]])
    assert found == {"pending": (1, ["b"]), "completed": (1, ["a"]), "all": (2, ["b", "a"])}


async def test_a_task_can_be_renamed_after_completion(environment: ToolsOnDatabase) -> None:
    task = await environment.add("a")
    await environment.call("complete_task", task_id=task)
    outcome = await environment.call("update_task", task_id=task, description="b")
    assert outcome.data is not None
    assert outcome.data["preview"] == "a"
    assert outcome.data["task"]["status"] == "completed"
    assert await environment.descriptions() == ["b"]


async def test_a_task_is_completed_once(environment: ToolsOnDatabase) -> None:
    task = await environment.add("a")
    environment.clock.advance(minutes=1)
    first = await environment.call("complete_task", task_id=task)
    environment.clock.advance(minutes=1)
    again = await environment.call("complete_task", task_id=task.upper())
    assert first.data is not None
    assert again.data is not None
    assert first.data["task"] == again.data["task"]
    assert first.data["task"]["completed_at"] == "2026-01-05T09:01:00Z"
    assert [first.data.get("receipt"), again.data["receipt"]] == [None, "it was completed already"]


async def test_a_task_is_deleted_and_deleting_it_again_finds_nothing(environment: ToolsOnDatabase) -> None:
    task = await environment.add("a")
    first = await environment.call("delete_task", task_id=task)
    assert first.data is not None
    assert first.data["preview"] == "a"
    assert await environment.call("delete_task", task_id=task) == ResultEnvelope.done(
        task=None, receipt="nothing was there to delete"
    )
    assert await environment.descriptions() == []


async def test_another_users_task_is_not_found(environment: ToolsOnDatabase) -> None:
    task = await environment.add("mine", "ann")
    strange: list[ResultEnvelope] = []
    missing: list[ResultEnvelope] = []
    for target, outcomes in ((task, strange), (NOBODY, missing)):
        outcomes.append(await environment.call("update_task", "bob", task_id=target, description="x"))
        outcomes.append(await environment.call("complete_task", "bob", task_id=target))
        outcomes.append(await environment.call("delete_task", "bob", task_id=target))
    assert strange == missing
    assert [outcome.error_code for outcome in strange] == [ToolErrorCode.NOT_FOUND, ToolErrorCode.NOT_FOUND, None]
    assert await environment.tools.preview("bob", task) is None
    assert await environment.descriptions("bob") == []
    assert await environment.descriptions("ann") == ["mine"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_task", {}),
        ("add_task", {"description": ""}),
        ("add_task", {"description": " \n "}),
        ("add_task", {"description": "x" * 1001}),
        ("add_task", {"description": "nul\x00"}),
        ("add_task", {"description": "lone \ud800"}),
        ("add_task", {"description": 7}),
        ("add_task", {"description": None}),
        ("add_task", {"description": "x", "user_id": "bob"}),
        ("list_tasks", {"status": "done"}),
        ("list_tasks", {"status": None}),
        ("list_tasks", {"limit": 3}),
        ("update_task", {"task_id": NOBODY}),
        ("update_task", {"task_id": NOBODY, "description": ""}),
        ("complete_task", {"task_id": "1"}),
        ("complete_task", {"task_id": ["x"]}),
        ("complete_task", {"task_id": f"{{{NOBODY}}}"}),
        ("delete_task", {"task_id": "' OR 1=1 --"}),
        ("delete_task", {}),
    ],
)
async def test_invalid_arguments_are_reported_in_one_sentence_without_their_values(
    environment: ToolsOnDatabase, tool: str, arguments: dict[str, Any]
) -> None:
    outcome = await environment.tools.call(tool, arguments, "ann")
    assert outcome.error_code is ToolErrorCode.VALIDATION_ERROR
    assert outcome.error is not None
    assert outcome.error.endswith(".")
    assert tool not in outcome.error
    assert await environment.descriptions() == []
    assert await environment.ledger() == []


@pytest.mark.parametrize("description", ["x" * 1000, "ünï¢ode 🎉", "'; DROP TABLE tasks; --", "a\nb", "😀" * 1000])
async def test_any_other_description_is_stored_unchanged(environment: ToolsOnDatabase, description: str) -> None:
    await environment.add(description)
    assert await environment.descriptions() == [description]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tasks SET status = 'completed'",
        "UPDATE tasks SET completed_at = created_at",
        "UPDATE tasks SET status = 'started'",
        "UPDATE tasks SET description = ''",
        "INSERT INTO tasks (id, user_id, description, status, created_at) "
        "SELECT id, user_id, 'x', 'pending', created_at FROM tasks",
        "INSERT INTO operations VALUES ('k', 'u', 't', 'd', 'DONE', NULL, '2026-01-01T00:00:00.000000+00:00')",
        "INSERT INTO operations VALUES ('k', 'u', 't', 'd', 'LOST', NULL, '2026-01-01T00:00:00.000000+00:00')",
    ],
)
async def test_the_database_constraints_reject_invalid_rows(environment: ToolsOnDatabase, change: str) -> None:
    await environment.add("a")
    with pytest.raises(IntegrityError):
        await environment.database.write(lambda connection: connection.exec_driver_sql(change).close())


async def test_a_task_id_is_never_reused(environment: ToolsOnDatabase) -> None:
    first = await environment.add("a")
    await environment.call("delete_task", task_id=first)
    assert await environment.add("b") != first


async def test_without_a_database_every_tool_returns_a_database_error(environment: ToolsOnDatabase) -> None:
    await environment.database.close()
    for tool, arguments in (("add_task", {"description": "x"}), ("list_tasks", {}), ("delete_task", {"task_id": NOBODY})):
        outcome = await environment.tools.call(tool, arguments, "ann")
        assert outcome == ResultEnvelope.failed(
            ToolErrorCode.DATABASE_ERROR, "The tasks are not available right now; nothing was changed."
        )


async def test_times_are_stored_in_utc(environment: ToolsOnDatabase) -> None:
    await environment.add("a")
    task = await environment.tools.preview("ann", str(uuid.UUID(int=1)))
    assert task is not None
    assert task.created_at == datetime(2026, 1, 5, 9, tzinfo=UTC)
