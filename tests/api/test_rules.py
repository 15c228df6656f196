"""POST /api/rules and /api/rules/diff: texts as rows of tools, and what they newly permit for every possible call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from graph_agent.analysis import process
from graph_agent.api.app import create_app
from graph_agent.api.services import services_of
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import MAX_CHARACTERS, Constitution
from graph_agent.replays.pool import WORKERS
from tests.chat.environment import Environment

pytestmark = pytest.mark.usefixtures("quick_processes")

TEXT = Constitution.load(None).text
BASE = "permit (principal, action, resource);\n"
MILK = BASE + '@id("no milk")\nforbid (principal, action == Action::"add_task", resource)\n'
MILK += 'when { context.arguments.description like "milk*" };\n'
MILKSHAKES = '@id("no milkshakes")\nforbid (principal, action == Action::"add_task", resource)\n'
MILKSHAKES += 'when { context.arguments.description like "milkshake*" };'
NOT_ENCODED = "permit (principal, action, resource) when { context.used.day == context.used.hour };"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for an analysis as long as it takes: its process has a low priority, and others may use the machine."""
    # The limit is for users, and no part of a request.
    monkeypatch.setattr(process, "SECONDS", 900.0)


async def rows(client: httpx.AsyncClient, **texts: str) -> dict[str, Any]:
    answer = (await client.post("/api/rules", json=texts)).json()
    assert answer["problem"] is None
    return {row["name"]: row for row in answer["tools"]}


async def event_of(client: httpx.AsyncClient, name: str, **texts: str) -> dict[str, Any]:
    """Return the data of the only event of the analysis. A comment in the stream keeps a slow one open."""
    answer = await client.post("/api/rules/diff", json=texts, timeout=None)
    lines = [line for line in answer.text.splitlines() if line and not line.startswith(":")]
    assert lines[0] == f"event: {name}"
    data: dict[str, Any] = json.loads(lines[1].removeprefix("data: "))
    return data


async def compared(client: httpx.AsyncClient, **texts: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]] | None]:
    """Return change and call, and promise and answer, of each finding."""
    found = await event_of(client, "report", **texts)
    promises = found["promises"]
    return (
        [(one["answer"], one["call"]) for one in found["changes"]],
        None if promises is None else [(one["name"], one["answer"]) for one in promises],
    )


async def test_a_row_is_written_into_the_constitution_by_the_parser_that_reads_it(client: httpx.AsyncClient) -> None:
    async def change(**row: Any) -> tuple[str, dict[str, Any]]:
        answer = (await client.post("/api/rules/row", json=row)).json()
        return answer["constitution"], {one["name"]: one for one in answer["tools"]}

    text, found = await change(tool="add_task", verdict="asks")
    assert (found["add_task"]["verdict"], found["update_task"]["max_per_message"]) == ("asks", 3)
    text, found = await change(tool="update_task", max_per_message=None, constitution=text)
    assert (found["add_task"]["verdict"], found["update_task"]["max_per_message"]) == ("asks", None)
    text, found = await change(tool="add_task", verdict="refused", constitution=text)
    assert (found["add_task"]["line"], found["add_task"]["why"]) == (None, "not in the constitution")
    text, found = await change(tool="add_task", verdict="runs", constitution=text)
    assert (await change(tool="update_task", max_per_message=3, constitution=text))[0] == TEXT
    refused = await client.post("/api/rules/row", json={"tool": "add_task", "verdict": "runs", "constitution": "nothing"})
    assert refused.status_code == 422
    assert "there is no section '## Available Tools'" in refused.json()["error"]["message"]


async def test_without_texts_the_rows_are_those_in_force(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/api/rules", json={})).json()
    assert (answer["constitution"], answer["conditions"], answer["promises"]) == (TEXT, None, None)
    shown = [(row["name"], row["verdict"], row["max_per_message"]) for row in answer["tools"]]
    assert shown == [
        ("add_task", "runs", None),
        ("list_tasks", "runs", None),
        ("update_task", "runs", 3),
        ("complete_task", "runs", 5),
        ("delete_task", "asks", None),
    ]
    lines = TEXT.splitlines()
    assert all(lines[row["line"] - 1].startswith(f"- {row['name']}:") for row in answer["tools"])


async def test_reading_the_rules_in_force_prepares_the_replays_of_others(environment: Environment) -> None:
    app = create_app(environment.runtime())
    replays = services_of(app).replays
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        await client.post("/api/rules", json={"constitution": TEXT})
        assert replays.workers == []
        await client.post("/api/rules", json={})
        while len(replays.workers) < WORKERS:  # noqa: ASYNC110 (they start in another thread)
            await asyncio.sleep(0.01)
    replays.close()


async def test_other_texts_make_other_rows(client: httpx.AsyncClient) -> None:
    found = await rows(client, constitution=TEXT.replace('- add_task: "Add task[ {description}]"\n', ""))
    assert (found["add_task"]["verdict"], found["add_task"]["line"]) == ("refused", None)
    milk = (await rows(client, conditions=MILK))["add_task"]
    assert milk["conditions"] == [{"name": "no milk", "line": 2, "number": 1, "effect": "forbid", "shadow": False}]
    only_reads = 'permit (principal, action in Action::"all reads", resource);'
    found = await rows(client, conditions=only_reads)
    assert (found["add_task"]["why"], found["list_tasks"]["verdict"]) == ("no condition permits it", "runs")


@pytest.mark.parametrize(
    ("texts", "where", "sentence"),
    [
        ({"constitution": TEXT.replace("Available", "Other")}, "constitution", "there is no section '## Available Tools'"),
        ({"constitution": TEXT.replace(" (without confirmation)", "")}, "constitution", "'update_task' as destructive"),
        ({"conditions": BASE + 'forbid (principal, action == Action::"x", resource);'}, "conditions", "line 2: unrecognized"),
        ({"conditions": "forbid (principal, action, resource);"}, "conditions", "permits nothing"),
    ],
)
async def test_a_text_that_cannot_be_used_is_one_sentence(
    client: httpx.AsyncClient, texts: dict[str, str], where: str, sentence: str
) -> None:
    answer = (await client.post("/api/rules", json=texts)).json()
    assert (answer["problem"]["text"], answer["tools"]) == (where, [])
    assert sentence in answer["problem"]["message"]
    assert answer["problem"]["message"].endswith(".")
    refused = await client.post("/api/rules/diff", json=texts)
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, answer["problem"]["message"])


async def test_texts_as_long_as_the_server_takes_them_can_be_tried_and_longer_ones_cannot(client: httpx.AsyncClient) -> None:
    constitution = "x" * (MAX_CHARACTERS - len(TEXT) - 1) + "\n" + TEXT
    conditions = MILK + "//" + "x" * (MAX_CHARACTERS - len(MILK) - 2)
    found = await rows(client, constitution=constitution, conditions=conditions)
    assert [one["name"] for one in found["add_task"]["conditions"]] == ["no milk"]
    for texts, status in [({"constitution": constitution + " "}, 422), ({"constitution": 4 * constitution}, 413)]:
        assert (await client.post("/api/rules", json=texts)).status_code == status


async def test_conditions_that_would_overflow_the_stack_of_their_parser_are_refused(client: httpx.AsyncClient) -> None:
    # It would end the process of the server, and with it all turns.
    nested = f"{MILK}\nforbid (principal, action, resource) when {{ {'(' * 2000}true{')' * 2000} }};"
    answer = (await client.post("/api/rules", json={"conditions": nested})).json()
    assert answer["problem"]["message"].endswith("its expressions are nested too deep.")


async def test_a_change_that_the_solver_cannot_express_is_reported_as_not_compared(client: httpx.AsyncClient) -> None:
    report = await event_of(client, "report", conditions=NOT_ENCODED)
    condition = "'the condition in line 1 of the conditions file'"
    found = [(one["answer"], one["name"], one.get("why"), one["certain"], one["may_loosen"]) for one in report["changes"]]
    assert ("not compared", "add_task", f"{condition} is not encoded: `==` of records", False, True) in found


async def test_the_analysis_finds_what_becomes_possible_and_what_does_not(client: httpx.AsyncClient) -> None:
    loosened = TEXT.replace(
        'delete_task: "Delete task[ {preview or task_id}]" (requires confirmation)',
        'delete_task: "Delete task[ {preview or task_id}]" (without confirmation)',
    )
    changes, promises = await compared(client, constitution=loosened, conditions=MILK, promises=MILKSHAKES)
    assert changes == [
        ("no longer possible", 'add_task(description="milk")'),
        ("newly possible without a yes", 'delete_task(task_id="")'),
    ]
    assert promises == [("no milkshakes", "proved")]


async def test_the_promises_beside_the_conditions_are_checked(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    folder = environment.settings.home
    (folder / "promises.cedar").write_text(MILKSHAKES)
    runtime = environment.runtime(conditions=ConditionsFile(MILK), settings={"conditions": folder / "policy.cedar"})
    client = served(runtime)
    assert (await client.post("/api/rules", json={})).json()["promises"] == MILKSHAKES
    assert await compared(client) == ([], [("no milkshakes", "proved")])
    changes, promises = await compared(client, conditions=BASE)
    assert changes == [("newly possible without a yes", 'add_task(description="milk")')]
    assert promises == [("no milkshakes", "fails")]


async def test_promises_that_cannot_be_used_are_one_sentence(client: httpx.AsyncClient) -> None:
    error = (await event_of(client, "error", promises=BASE))["error"]
    assert "have a permit: a promise is a forbid" in error["message"]
