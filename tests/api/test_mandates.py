"""Plans over HTTP: everybody lists and revokes their own, and nobody those of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.mandate import DAY, JOB_NAME_RULE
from graph_agent.models.stop import Stop, StopScope
from graph_agent.policy.constitution import Constitution
from graph_agent.record.stops import place_stop
from graph_agent.testing import says
from tests.api.test_approvals import ANN, BOB, SIGN_IN
from tests.chat.environment import Environment
from tests.chat.test_approvals import rules
from tests.scripted_turns import calls

ADDS = '- add_task: "Add task[ {description}]"'
IN_PLANS = Constitution.load(None).text.replace(ADDS, f"{ADDS} (in plans)")
LINES = [{"tool": "add_task", "arguments": {"description": {"is": ["bread", "milk"]}}, "times": 2}]
AGREED = [calls(("propose_plan", {"lines": LINES})), calls(("add_task", {"description": "bread"})), says("Added.")]


@pytest.fixture
def script() -> list[Any]:
    return [*AGREED, calls(("add_task", {"description": "milk"}))]


@pytest.fixture
def runtime(environment: Environment, script: list[Any]) -> Runtime:
    asks = rules(approved="context.confirmed", name="additions need a yes")
    return environment.runtime(ScriptedAdapter(script), conditions=asks, settings=SIGN_IN, constitution=IN_PLANS)


@pytest.fixture
def http(runtime: Runtime, served: Callable[[Runtime], httpx.AsyncClient]) -> httpx.AsyncClient:
    return served(runtime)


async def say(http: httpx.AsyncClient, text: str, conversation_id: str | None = None) -> dict[str, Any]:
    named = {} if conversation_id is None else {"conversation_id": conversation_id}
    answer = await http.post("/api/chat", json={"content": text, **named}, headers=ANN)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def agree(http: httpx.AsyncClient) -> dict[str, Any]:
    """Agree to a plan, under which one call runs, and return the plan as its user lists it."""
    asked = await say(http, "add bread and milk")
    await say(http, "yes", asked["conversation_id"])
    newest: dict[str, Any] = (await listed(http))["mandates"][0]
    assert newest["id"] == asked["decision"]["pending_action"]["id"]
    return newest


async def listed(http: httpx.AsyncClient, query: str = "", headers: dict[str, str] = ANN) -> dict[str, Any]:
    answer = await http.get(f"/api/mandates{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_decision_after_the_yes_says_that_the_plan_is_in_force(http: httpx.AsyncClient) -> None:
    asked = await say(http, "add bread and milk")
    agreed = await say(http, "yes", asked["conversation_id"])
    shown = (await http.get(f"/api/decisions/{agreed['decision_id']}", headers=ANN)).json()
    assert "was given by the user's own answer: the plan is in force." in shown["findings"][0]


async def test_a_user_revokes_a_plan_and_the_next_call_asks(http: httpx.AsyncClient) -> None:
    plan = await agree(http)
    said = 'Add task: description = "bread" or "milk"; up to 2 times'
    assert plan["lines"] == [{"tool": "add_task", "said": said, "drawn": 1, "times": 2}]
    assert (plan["state"], plan["ended_at"], plan["ended_by"]) == ("open", None, None)

    revoked = await http.post(f"/api/mandates/{plan['id']}/revoke", headers=ANN)
    assert (revoked.status_code, revoked.json()["state"], revoked.json()["ended_by"]) == (200, "revoked", "you")
    assert (await http.post(f"/api/mandates/{plan['id']}/revoke", headers=ANN)).json() == revoked.json()
    assert (await listed(http))["mandates"] == [revoked.json()]
    asked = await say(http, "and milk", plan["conversation_id"])
    assert asked["decision"]["pending_action"]["arguments"] == {"description": "milk"}


async def test_nobody_sees_or_revokes_the_plans_of_others(http: httpx.AsyncClient) -> None:
    plan = await agree(http)
    assert await listed(http, headers=BOB) == {"mandates": [], "next": None}
    refused = await http.post(f"/api/mandates/{plan['id']}/revoke", headers=BOB)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "MANDATE_NOT_FOUND")
    assert (await listed(http))["mandates"] == [plan]
    assert (await http.get("/api/mandates")).status_code == 401


@pytest.mark.parametrize("script", [AGREED * 2])
async def test_a_list_of_plans_comes_in_pages_and_by_conversation(http: httpx.AsyncClient) -> None:
    plans = [await agree(http), await agree(http)]
    first = await listed(http, "?limit=1")
    last = await http.get("/api/mandates", params={"limit": 1, "before": first["next"]}, headers=ANN)
    assert [*first["mandates"], *last.json()["mandates"]] == plans[::-1]
    end = await http.get("/api/mandates", params={"limit": 1, "before": last.json()["next"]}, headers=ANN)
    assert end.json() == {"mandates": [], "next": None}
    assert (await listed(http, f"?conversation_id={plans[0]['conversation_id']}"))["mandates"] == plans[:1]
    for query in ("?before=x", "?before=2026-01-01T00:00:00_x", "?conversation_id=x", "?limit=0"):
        assert (await http.get(f"/api/mandates{query}", headers=ANN)).status_code in (400, 422)


async def test_a_plan_that_a_stop_has_revoked_names_no_operator(http: httpx.AsyncClient, runtime: Runtime) -> None:
    plan = await agree(http)
    await place_stop(runtime.database, Stop(number=0, scope=StopScope.TOOL, name="add_task", by="olga"))
    (found,) = (await listed(http))["mandates"]
    assert (found["id"], found["state"], found["ended_by"]) == (plan["id"], "revoked", "operator")


async def test_a_plan_under_other_rules_is_shown_as_void(
    http: httpx.AsyncClient, environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    plan = await agree(http)
    others = served(environment.runtime(ScriptedAdapter([]), settings=SIGN_IN))
    (found,) = (await listed(others))["mandates"]
    assert (found["id"], found["state"], found["ended_by"]) == (plan["id"], "void", None)
    assert found["lines"][0]["said"].startswith("Add task: ")


async def again(http: httpx.AsyncClient, decision: str, **body: Any) -> httpx.Response:
    return await http.post(f"/api/decisions/{decision}/mandate", headers={**ANN, "Idempotency-Key": "k"}, json=body or None)


@pytest.fixture
async def made(http: httpx.AsyncClient) -> dict[str, Any]:
    """The answer of the decision that has added bread under a plan."""
    asked = await say(http, "add bread and milk")
    return await say(http, "yes", asked["conversation_id"])


async def test_a_decision_is_done_again_after_a_yes(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    path = f"/api/decisions/{made['decision_id']}/mandate"
    shown = (await http.get(path, headers=ANN)).json()
    assert shown["said"] == ['Add task: description = "bread"']
    assert (shown["left_out"], shown["problem"], shown["usual_minutes"]) == ([], None, 60)
    standing = (await http.get(path, headers=ANN, params={"job": JOB})).json()
    assert (standing["plan"]["minutes"], standing["usual_minutes"]) == (90 * DAY, 30 * DAY)
    asked = (await again(http, made["decision_id"])).json()
    assert asked["conversation_id"] == made["conversation_id"]
    assert asked["decision"]["pending_action"]["plan"] == shown["plan"]
    assert (await again(http, made["decision_id"])).json() == asked
    other = await again(http, made["decision_id"], minutes=5)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    detail = (await http.get(f"/api/decisions/{asked['decision_id']}", headers=ANN)).json()
    assert (detail["again"], detail["states"]) == (made["decision_id"], ["BUILD_REQUEST", "BUILD_DECISION"])
    assert (await http.get(f"/api/decisions/{made['decision_id']}/undo", headers=ANN)).json()["again"] is True
    # The words of the command are code's: they give nothing to the calls that follow.
    stored = (await http.get(f"/api/conversations/{made['conversation_id']}", headers=ANN)).json()["messages"]
    assert [one["authors"]["message"] for one in stored if one["content"] == f"do decision {made['decision_id']} again"] == [
        "code"
    ]
    await say(http, "yes", made["conversation_id"])
    # The model goes on, with the milk of the earlier plan.
    assert [one["state"] for one in (await listed(http))["mandates"]] == ["open", "used"]


async def test_a_person_asks_for_less_and_never_for_more(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    line = {"tool": "add_task", "arguments": {"description": {"is": ["bread"]}}}
    fewer = await http.post(f"/api/decisions/{made['decision_id']}/mandate", headers=ANN, json={"lines": [line], "minutes": 5})
    assert fewer.json()["decision"]["pending_action"]["plan"]["minutes"] == 5
    bodies: list[dict[str, Any]] = [
        {"lines": [{**line, "times": 2}]},
        {"minutes": 61},
        {"lines": []},
        {"more": 1},
        {"minutes": 0},
    ]
    for body in bodies:
        refused = await http.post(f"/api/decisions/{made['decision_id']}/mandate", headers=ANN, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), body


async def test_only_the_caller_does_a_decision_again(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    for decision, status in ((made["decision_id"], 404), ("nothing", 400)):
        for request in (http.get, http.post):
            assert (await request(f"/api/decisions/{decision}/mandate", headers=BOB)).status_code == status
    asked = await again(http, made["decision_id"])
    path = f"/api/decisions/{asked.json()['decision_id']}/mandate"
    refused = await http.post(path, headers=ANN)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_REPEATABLE")
    none = (await http.get(path, headers=ANN)).json()
    assert (none["plan"], none["usual_minutes"], none["problem"]) == (None, 0, refused.json()["error"]["message"])


async def test_a_name_that_no_job_has_is_refused_in_words(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    path = f"/api/decisions/{made['decision_id']}/mandate"
    asked = await http.get(path, headers=ANN, params={"job": "a b"})
    assert (asked.status_code, asked.json()["error"]["message"]) == (422, f"job: the name {JOB_NAME_RULE}.")
    posted = await http.post(path, headers=ANN, json={"job": "a b"})
    assert (posted.status_code, posted.json()["error"]["message"]) == (422, f"job: the name {JOB_NAME_RULE}")


JOB = "groceries"
RUN = [calls(("add_task", {"description": "bread"})), says("Added.")]


async def stand(http: httpx.AsyncClient, made: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Agree to a standing plan, and return it as its user lists it."""
    asked = await http.post(f"/api/decisions/{made['decision_id']}/mandate", headers=ANN, json={"job": JOB, **more})
    assert asked.status_code == 200, asked.text
    pending = asked.json()["decision"]["pending_action"]
    answers = {"pending_action": pending["id"], "yes": True}
    assert (await http.post("/api/chat", headers=ANN, json={"answers": answers})).status_code == 200
    newest: dict[str, Any] = (await listed(http))["mandates"][0]
    return newest


async def run(http: httpx.AsyncClient, headers: dict[str, str] = ANN, **more: Any) -> httpx.Response:
    return await http.post("/api/chat", headers=headers, json={"content": "add what is missing", "job": JOB, **more})


@pytest.mark.parametrize("script", [[*AGREED, *RUN * 3]])
async def test_a_standing_plan_covers_the_runs_of_its_job(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    for runs, minutes in ((3, 2 * 24 * 60), (2, 24 * 60), (31, None), (0, None), (91, None)):
        wider = {"job": JOB, "runs": runs, **({} if minutes is None else {"minutes": minutes})}
        refused = await http.post(f"/api/decisions/{made['decision_id']}/mandate", headers=ANN, json=wider)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), wider
    plan = await stand(http, made, minutes=3 * 24 * 60, runs=2)
    assert (plan["job"], plan["state"], plan["lines"][0]["times"], plan["runs_drawn"], plan["runs"]) == (JOB, "open", 1, 0, 2)
    first = (await run(http)).json()
    assert [one.endswith("(plan, 1 of 1)") for one in first["decision"]["effects"]] == [True]
    assert first["conversation_id"] != made["conversation_id"]
    second = (await run(http)).json()
    assert second["conversation_id"] != first["conversation_id"]
    assert second["decision"]["effects"] == first["decision"]["effects"]
    (used,) = [one for one in (await listed(http))["mandates"] if one["id"] == plan["id"]]
    assert (used["state"], used["runs_drawn"], used["lines"][0]["drawn"]) == ("used", 2, 2)
    # It is used up: the call waits in the inbox of its user, and its answer runs it.
    third = (await run(http)).json()
    pending = third["decision"]["pending_action"]
    assert (pending["job"], pending["arguments"]) == (JOB, {"description": "bread"})
    (waits,) = [
        one for one in (await http.get("/api/questions", headers=ANN)).json()["questions"] if one["id"] == pending["id"]
    ]
    shown = (await http.get(f"/api/questions/{pending['id']}", headers=ANN)).json()
    answer = {"yes": True, "digest": shown["digest"]}
    answered = await http.post(f"/api/questions/{waits['id']}/answer", headers=ANN, json=answer)
    assert answered.status_code == 200, answered.text
    assert answered.json()["reply"]["decision"]["decision_type"] == "EXECUTE_PENDING"


async def test_a_run_begins_a_conversation_and_names_its_job_in_plain_letters(http: httpx.AsyncClient) -> None:
    conversation = {"conversation_id": "01a227da-0952-7c9d-b630-c40919ff842a"}
    for more in (conversation, {"job": "a b"}, {"job": "x" * 65}, {"job": "\u0430"}, {"job": "a\n"}):
        refused = await http.post("/api/chat", headers=ANN, json={"content": "add it", "job": JOB, **more})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), more


@pytest.mark.parametrize("script", [[*AGREED, *RUN]])
async def test_the_job_of_another_user_has_no_plan(http: httpx.AsyncClient, made: dict[str, Any]) -> None:
    plan = await stand(http, made)
    other = (await run(http, BOB)).json()
    assert other["decision"]["decision_type"] == "REQUEST_CONFIRMATION"
    assert (await http.post(f"/api/mandates/{plan['id']}/revoke", headers=BOB)).status_code == 404
    assert (await http.post(f"/api/mandates/{plan['id']}/revoke", headers=ANN)).json()["state"] == "revoked"
