"""POST /api/replay: decisions run again in other processes, streamed, and dropped when the client goes away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.policy.constitution import Constitution
from tests.api.live_server import LiveServer, live_server
from tests.fork_server import quick_processes

TEXT = Constitution.load(None).text
CONFIRMS_ADDING = TEXT.replace(
    '- add_task: "Add task[ {description}]"', '- add_task: "Add task[ {description}]" (requires confirmation)'
)


@contextmanager
def serving(folder: Path, template: Path) -> Iterator[LiveServer]:
    with quick_processes(), live_server(folder, template, lambda environment: environment.runtime()) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[LiveServer]:
    """A server whose last decisions are those of `said`."""
    with serving(tmp_path_factory.mktemp("live"), template) as server:
        yield server


@pytest.fixture(scope="module")
def said(server: LiveServer) -> list[str]:
    """The ids of three decisions, oldest first."""
    texts = ("add a task to call mom", "what's the weather?", "show my tasks")
    return [server.post("/api/chat", json={"content": text}).json()["decision_id"] for text in texts]


def replayed(server: LiveServer, path: str = "/api/replay", **asked: Any) -> list[tuple[str, Any]]:
    """Return kind and data of every event."""
    # Replays of clients that have disconnected end when the server notices it.
    while (answer := httpx.post(f"{server.url}{path}", json=asked, timeout=120)).status_code == 503:
        pass
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    blocks = [block.splitlines() for block in answer.text.replace("\r\n", "\n").split("\n\n")]
    found = [dict(line.split(": ", 1) for line in block if not line.startswith(":")) for block in blocks]
    return [(event["event"], json.loads(event["data"])) for event in found if event]


def test_a_decision_runs_again_state_by_state(server: LiveServer, said: list[str]) -> None:
    start, report, end = replayed(server, decision_id=said[0])
    assert (start, end) == (("start", {"total": 1}), ("end", {"total": 1, "identical": 1}))
    _, found = report
    assert (found["message"], found["identical"], found["departure"]) == ("add a task to call mom", True, None)
    assert [step["state"] for step in found["steps"]] == found["states"] == found["recorded"]["states"]
    assert found["steps"][-1]["changes"]["decision"] == "INVOKE_TOOL, SUCCESS:TASK_COMPLETED"


def test_another_constitution_changes_the_outcome_of_the_decision_it_concerns(server: LiveServer, said: list[str]) -> None:
    assert CONFIRMS_ADDING != TEXT
    events = replayed(server, last=3, rules={"constitution": CONFIRMS_ADDING})
    assert [kind for kind, _ in events] == ["start", "report", "report", "report", "end"]
    reports = {data["decision_id"]: data for _, data in events[1:-1]}
    assert [reports[one]["identical"] for one in said] == [False, True, True]
    assert reports[said[0]]["decision"]["decision_type"] == "REQUEST_CONFIRMATION"
    assert events[-1][1] == {"total": 3, "identical": 2}


def test_a_constitution_that_does_not_fit_the_recorded_tools_is_reported(server: LiveServer, said: list[str]) -> None:
    without_marker = TEXT.replace(
        'delete_task: "Delete task[ {preview or task_id}]" (requires confirmation)',
        'delete_task: "Delete task[ {preview or task_id}]"',
    )
    assert without_marker != TEXT
    events = replayed(server, last=3, rules={"constitution": without_marker})
    assert [kind for kind, _ in events] == ["start", "report", "report", "report", "end"]
    assert {data["decision_id"] for _, data in events[1:-1]} == set(said)
    assert all("'delete_task' as destructive" in data["departure"] for _, data in events[1:-1])


def test_only_the_matching_decisions_run_again(server: LiveServer, said: list[str]) -> None:
    assert [data["decision_id"] for _, data in replayed(server, outcome="REFUSAL")[1:-1]] == [said[1]]
    assert [data["decision_id"] for _, data in replayed(server, last=1)[1:-1]] == [said[2]]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"decision_id": "00000000-0000-4000-8000-000000000000"}, 404, "DECISION_NOT_FOUND"),
        ({"rules": {"constitution": "no constitution"}}, 422, "VALIDATION_ERROR"),
        ({"rules": {"constitution": "\ud800"}}, 422, "VALIDATION_ERROR"),
        ({"last": 501}, 422, "VALIDATION_ERROR"),
        ({"colour": "red"}, 422, "VALIDATION_ERROR"),
        ({"rules": {"constitution": "x" * 300_000}}, 422, "VALIDATION_ERROR"),
        ({"rules": {"constitution": "x" * 1_100_000}}, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
def test_an_invalid_request_is_refused_before_the_stream(server: LiveServer, asked: Any, status: int, code: str) -> None:
    headers = {"content-type": "application/json"}
    answer = server.post("/api/replay", content=json.dumps(asked), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_client_that_disconnects_ends_its_replay_and_others_go_on(server: LiveServer, said: list[str]) -> None:
    # More than the streams that are served at the same time: an abandoned one would keep its place.
    for _ in range(10):
        abandon_replay(server)
    assert replayed(server, decision_id=said[0])[-1] == ("end", {"total": 1, "identical": 1})


def abandon_replay(server: LiveServer) -> None:
    """Begin a replay and disconnect. The server may need a moment to notice it, and refuses the next ones until then."""
    started = False
    while not started:
        with httpx.stream("POST", f"{server.url}/api/replay", json={"last": 3}, timeout=120) as answer:
            started = next(answer.iter_lines()) == "event: start"
            assert started or answer.status_code == 503


def flows(server: LiveServer, **asked: Any) -> dict[str, tuple[str, str, str | None]]:
    """Return, by the message, what was decided about the calls, what would be, and the tool."""
    events = replayed(server, "/api/replay/flows", **asked)
    assert [kind for kind, _ in (events[0], events[-1])] == ["start", "end"]
    items = [item for kind, data in events if kind == "flows" for item in data["items"]]
    assert len(items) == events[0][1]["total"] == events[-1][1]["total"]
    # With the reasons, which a failed test shows.
    print(json.dumps(items))
    return {item["message"]: (item["before"], item["after"], item["tool_name"]) for item in items}


@pytest.mark.usefixtures("said")
def test_the_flow_of_each_decision_says_what_becomes_of_its_calls(server: LiveServer) -> None:
    found = {"add a task to call mom": ("runs", "runs", None), "what's the weather?": ("no call", "no call", None)}
    found["show my tasks"] = ("runs", "runs", None)
    assert flows(server, last=3) == found
    added = "add a task to call mom"
    assert flows(server, last=3, rules={"constitution": CONFIRMS_ADDING}) == {**found, added: ("runs", "asks", "add_task")}
    unlisted = TEXT.replace('- add_task: "Add task[ {description}]"\n', "")
    assert flows(server, last=3, rules={"constitution": unlisted}) == {**found, added: ("runs", "refused", "add_task")}
    conditions = 'permit (principal, action, resource);\nforbid (principal, action == Action::"list_tasks", resource);'
    listed = ("runs", "refused", "list_tasks")
    assert flows(server, last=3, rules={"conditions": conditions}) == {**found, "show my tasks": listed}


def test_a_flow_says_that_a_call_would_run_or_be_asked_about_though_the_record_has_no_answer(
    tmp_path: Path, template: Path
) -> None:
    with serving(tmp_path, template) as server:
        said = server.post("/api/chat", json={"content": "add a task to feed the cat"}).json()
        in_it = {"conversation_id": said["conversation_id"]}
        asked = server.post("/api/chat", json={**in_it, "content": "delete the feed the cat task"}).json()
        done = server.post("/api/chat", json={**in_it, "content": "mark the feed the cat task as done"}).json()
        assert [one["decision"]["decision_type"] for one in (asked, done)] == ["REQUEST_CONFIRMATION", "INVOKE_TOOL"]
        unasked = TEXT.replace(
            'delete_task: "Delete task[ {preview or task_id}]" (requires confirmation)',
            'delete_task: "Delete task[ {preview or task_id}]" (without confirmation)',
        )
        (flow,) = flows(server, decision_id=asked["decision_id"], rules={"constitution": unasked}).values()
        assert flow == ("asks", "runs", "delete_task")
        confirmed = TEXT.replace(
            'complete_task: "Complete task[ {preview or task_id}]"',
            'complete_task: "Complete task[ {preview or task_id}]" (requires confirmation)',
        )
        (flow,) = flows(server, decision_id=done["decision_id"], rules={"constitution": confirmed}).values()
        assert flow == ("runs", "asks", "complete_task")


def trial(events: list[tuple[str, Any]]) -> tuple[dict[str, Any], list[tuple[str, str, list[list[str]]]]]:
    """Return the figures of the trial, and message, call and verdicts of the calls in the order of the events."""
    *_, figures = (data for kind, data in events if kind == "trial")
    items = [item for kind, data in events if kind == "flows" for item in data["items"]]
    calls = [(item["message"], call["call"], call["verdicts"]) for item in items for call in item["shadow"]]
    return figures, calls


SHADOW = """permit (principal, action, resource);
@shadow @id("no mom") forbid (principal, action == Action::"add_task", resource)
when { context.arguments.description like "*mom*" };
@shadow @id("a yes") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };
@shadow @id("none a day") forbid (principal, action == Action::"list_tasks", resource) when { context.used.day.calls > 0 };
@shadow @id("no deletion") forbid (principal, action == Action::"delete_task", resource);"""


@pytest.mark.usefixtures("said")
def test_a_trial_says_what_each_edited_rule_in_the_shadow_would_have_changed(server: LiveServer) -> None:
    figures, calls = trial(replayed(server, "/api/replay/flows", last=3, rules={"conditions": SHADOW}))
    added = 'add_task {"description":"call mom"}'
    assert calls == [
        ("show my tasks", "list_tasks {}", [["none a day", "unknown"]]),
        ("add a task to call mom", added, [["no mom", "refused"], ["a yes", "asks"]]),
    ]
    assert (figures["decisions"], figures["ended_early"], list(figures["rules"])) == (3, 0, [
        "no mom", "a yes", "none a day", "no deletion"
    ])  # fmt: skip
    nothing = {
        "asked": 0,
        "waited": 0,
        "refused": 0,
        "unknown": 0,
        "decisions": 0,
        "judged": 3,
        "by_tool": {},
        "by_user": {},
        "examples": [],
    }
    user = next(iter(figures["rules"]["no mom"]["by_user"]))
    [example] = figures["rules"]["no mom"]["examples"]
    of_add = {"decisions": 1, "by_tool": {"add_task": 1}, "by_user": {user: 1}, "examples": [example]}
    assert example[1] == added
    assert figures["rules"]["no mom"] == {**nothing, "refused": 1, **of_add}
    assert figures["rules"]["a yes"] == {**nothing, "asked": 1, **of_add}
    assert figures["rules"]["none a day"] == {**nothing, "unknown": 1}
    assert figures["rules"]["no deletion"] == nothing


@pytest.mark.usefixtures("said")
def test_a_trial_counts_what_the_other_rules_let_through_and_names_what_it_could_not_try(server: LiveServer) -> None:
    enforced = SHADOW.replace('@shadow @id("no mom")', '@id("no mom")')
    figures, calls = trial(replayed(server, "/api/replay/flows", last=3, rules={"conditions": enforced}))
    assert [call for _, call, _ in calls] == ["list_tasks {}"]
    assert (figures["ended_early"], figures["rules"]["a yes"]["asked"]) == (1, 0)
    # The decision that could not be tried to its end is none in which the rule would have changed nothing.
    assert figures["rules"]["a yes"]["judged"] == 2
    unusable = replayed(server, "/api/replay/flows", last=3, rules={"conditions": "permit (principal, action);"})
    assert trial(unusable) == ({"decisions": 3, "ended_early": 3, "rules": {}}, [])


def test_the_number_of_flows_is_limited(server: LiveServer) -> None:
    answer = server.post("/api/replay/flows", json={"last": 10_001})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
