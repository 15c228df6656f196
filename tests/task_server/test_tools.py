"""What the five tools do, on both databases."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from graph_agent.errors import ToolErrorCode
from graph_agent.task_server.models import Outcome
from tests.task_server.conftest import World

NOBODY = str(uuid.UUID(int=999))


async def test_a_task_is_added(world: World) -> None:
    assert await world.call("add_task", description="  call mom ") == Outcome.done(
        task={
            "id": str(uuid.UUID(int=1)),
            "user_id": "ann",
            "description": "call mom",
            "status": "pending",
            "created_at": "2026-01-05T09:00:00Z",
            "completed_at": None,
        },
        receipt="added 'call mom'",
    )


async def test_lists_are_newest_first_even_within_one_instant(world: World) -> None:
    for description in ("a", "b"):
        await world.add(description)
    world.clock.advance(seconds=1)
    await world.add("c")
    assert await world.descriptions() == ["c", "b", "a"]


async def test_lists_can_be_filtered_and_are_counted(world: World) -> None:
    done = await world.add("a")
    await world.add("b")
    await world.call("complete_task", task_id=done)
    found = {}
    for status in ("pending", "completed", "all"):
        outcome = await world.call("list_tasks", status=status)
        assert outcome.data is not None
        found[status] = (outcome.data["count"], [task["description"] for task in outcome.data["tasks"]])
    assert found == {"pending": (1, ["b"]), "completed": (1, ["a"]), "all": (2, ["b", "a"])}


async def test_a_task_is_renamed_also_when_completed(world: World) -> None:
    task = await world.add("a")
    await world.call("complete_task", task_id=task)
    outcome = await world.call("update_task", task_id=task, description="b")
    assert outcome.data is not None
    assert outcome.data["receipt"] == "renamed 'a' to 'b'"
    assert outcome.data["task"]["status"] == "completed"
    assert await world.descriptions() == ["b"]


async def test_a_task_is_completed_once(world: World) -> None:
    task = await world.add("a")
    world.clock.advance(minutes=1)
    first = await world.call("complete_task", task_id=task)
    world.clock.advance(minutes=1)
    again = await world.call("complete_task", task_id=task.upper())
    assert first.data is not None
    assert again.data is not None
    assert first.data["task"] == again.data["task"]
    assert first.data["task"]["completed_at"] == "2026-01-05T09:01:00Z"
    assert [first.data["receipt"], again.data["receipt"]] == ["completed 'a'", "'a' was already completed"]


async def test_a_task_is_deleted_and_deleting_it_again_finds_nothing(world: World) -> None:
    task = await world.add("a")
    first = await world.call("delete_task", task_id=task)
    assert first.data is not None
    assert first.data["receipt"] == "deleted 'a'"
    assert await world.call("delete_task", task_id=task) == Outcome.done(task=None, receipt="nothing was there to delete")
    assert await world.descriptions() == []


async def test_another_users_task_is_as_if_it_were_not_there(world: World) -> None:
    task = await world.add("mine", "ann")
    strange: list[Outcome] = []
    missing: list[Outcome] = []
    for target, outcomes in ((task, strange), (NOBODY, missing)):
        outcomes.append(await world.call("update_task", "bob", task_id=target, description="x"))
        outcomes.append(await world.call("complete_task", "bob", task_id=target))
        outcomes.append(await world.call("delete_task", "bob", task_id=target))
    assert strange == missing
    assert [outcome.error_code for outcome in strange] == [ToolErrorCode.NOT_FOUND, ToolErrorCode.NOT_FOUND, None]
    assert await world.tools.preview("bob", task) is None
    assert await world.descriptions("bob") == []
    assert await world.descriptions("ann") == ["mine"]


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
async def test_bad_arguments_are_one_sentence_that_repeats_none_of_them(
    world: World, tool: str, arguments: dict[str, Any]
) -> None:
    outcome = await world.tools.call(_call(tool, arguments))
    assert outcome.error_code is ToolErrorCode.VALIDATION_ERROR
    assert outcome.error is not None
    assert outcome.error.endswith(".")
    assert tool not in outcome.error
    assert await world.descriptions() == []
    assert await world.ledger() == []


def _call(tool: str, arguments: dict[str, Any]) -> Any:
    from graph_agent.task_server.tools import Call

    return Call(tool, arguments, "ann")


@pytest.mark.parametrize("description", ["x" * 1000, "ünï¢ode 🎉", "'; DROP TABLE tasks; --", "a\nb", "😀" * 1000])
async def test_any_other_text_is_kept_as_it_is(world: World, description: str) -> None:
    await world.add(description)
    assert await world.descriptions() == [description]


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
async def test_the_database_itself_refuses_what_must_not_be(world: World, change: str) -> None:
    await world.add("a")
    with pytest.raises(IntegrityError):
        await world.database.write(lambda connection: connection.exec_driver_sql(change).close())


async def test_a_tasks_id_is_not_used_again(world: World) -> None:
    first = await world.add("a")
    await world.call("delete_task", task_id=first)
    assert await world.add("b") != first


async def test_without_a_database_every_tool_says_so_in_its_own_words(world: World) -> None:
    await world.database.close()
    for tool, arguments in (("add_task", {"description": "x"}), ("list_tasks", {}), ("delete_task", {"task_id": NOBODY})):
        outcome = await world.tools.call(_call(tool, arguments))
        assert outcome == Outcome.failed(
            ToolErrorCode.DATABASE_ERROR, "The tasks are not available right now; nothing was changed."
        )


async def test_times_are_stored_in_utc(world: World) -> None:
    await world.add("a")
    task = await world.tools.preview("ann", str(uuid.UUID(int=1)))
    assert task is not None
    assert task.created_at == datetime(2026, 1, 5, 9, tzinfo=UTC)
