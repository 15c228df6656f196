"""Confirmations over HTTP: two clients of one user, two questions, and answers by id or by text, with either kind of model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.questions import Person
from graph_agent.clock import ManualClock
from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.testing import calls, says
from tests.chat.environment import Environment, open_environment
from tests.permission import permitted

SUPERSEDED = "That question has been replaced by a later one, so nothing was done."
EXPIRED = "That question has expired, so nothing was done. Please ask me again."
USED = "That question has already been answered, so nothing was done now."
NOT_ON_SCREEN = "Your answer may belong to another question, so nothing was done. This one is waiting now."
UNKNOWN = "I have no such question waiting for you here, so nothing was done."


class DeletesWhatIsNamed:
    """A model that requests the deletion of the task that the message names, and else asks what is wanted."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def generate(self, messages: list[LLMMessage], **_: Any) -> LLMResponse:
        said = next(message.content or "" for message in reversed(messages) if message.role == "user")
        if not said.startswith("delete "):
            return says("What would you like to do?")
        return calls("delete_task", task_id=await self._environment.task_id(said.removeprefix("delete ")))


@pytest.fixture
async def environment(tmp_path: Path, template: Path, clock: ManualClock) -> AsyncGenerator[Environment]:
    async with open_environment(tmp_path, template, clock) as environment:
        yield environment


class Client:
    """A client of the local user: its own application and model, and the databases of all."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.conversation: str | None = None

    async def send(self, **body: Any) -> dict[str, Any]:
        answered = await self.http.post("/api/chat", json=body)
        assert answered.status_code == 200, answered.text
        found: dict[str, Any] = answered.json()
        return found

    async def say(self, content: str, **more: Any) -> dict[str, Any]:
        """Send `content` in this client's conversation."""
        known = {} if self.conversation is None else {"conversation_id": self.conversation}
        answer = await self.send(content=content, **known, **more)
        self.conversation = answer["conversation_id"]
        return answer

    async def messages(self) -> list[dict[str, Any]]:
        """Return the messages of this client's conversation."""
        found: list[dict[str, Any]] = (await self.http.get(f"/api/conversations/{self.conversation}")).json()["messages"]
        return found

    async def ask_to_delete(self, task: str) -> dict[str, Any]:
        """Return the pending action of the question."""
        answer = await self.say(f"delete {task}")
        assert answer["reply"] == f"Delete task '{task}'. Should I go ahead? Please answer yes or no."
        pending: dict[str, Any] = answer["decision"]["pending_action"]
        return pending

    async def answer(self, pending: dict[str, Any], yes: bool = True, **more: Any) -> dict[str, Any]:
        return await self.send(answers={"pending_action": pending["id"], "yes": yes}, **more)


def shown(pending: dict[str, Any] | None) -> dict[str, Any]:
    return {"pending_action": None if pending is None else pending["id"]}


@pytest.fixture
async def clients(environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]) -> tuple[Client, Client]:
    """Two clients of the local user, who has the tasks 'call mom' and 'buy bread'."""

    def client() -> Client:
        model: Any = DeletesWhatIsNamed(environment)  # it takes fewer arguments than the port passes by name
        return Client(served(environment.runtime(model)))

    for task in ("call mom", "buy bread"):
        assert (await environment.tools.execute(permitted("add_task", {"description": task}, "local"))).success
    return client(), client()


async def test_an_answer_by_id_confirms_from_another_client_and_works_once(
    environment: Environment, clients: tuple[Client, Client]
) -> None:
    phone, laptop = clients
    pending = await phone.ask_to_delete("call mom")
    done = await laptop.answer(pending)
    assert (done["conversation_id"], done["reply"]) == (phone.conversation, "Done: Delete task 'call mom'.")
    again = await phone.answer(pending, content="Yes, that one.", conversation_id=phone.conversation)
    assert (again["reply"], again["decision"]["outcome_category"]) == (USED, "ERROR:USER_INPUT")
    assert [said["content"] for said in await phone.messages() if said["role"] == "user"][1:] == ["Yes.", "Yes, that one."]
    assert await environment.descriptions("local") == ["buy bread"]


async def test_a_no_by_id_declines_whatever_stands_beside_it(environment: Environment, clients: tuple[Client, Client]) -> None:
    phone, laptop = clients
    pending = await phone.ask_to_delete("call mom")
    declined = await laptop.answer(pending, yes=False, content="yes")
    assert declined["decision"]["decision_type"] == "CANCEL_PENDING"
    assert (await phone.answer(pending))["reply"] == USED
    assert len(await environment.descriptions("local")) == 2


async def test_two_devices_with_a_question_each_do_not_answer_for_each_other(
    environment: Environment, clients: tuple[Client, Client]
) -> None:
    phone, laptop = clients
    older, newer = await phone.ask_to_delete("call mom"), await laptop.ask_to_delete("buy bread")
    assert (await laptop.answer(older, conversation_id=laptop.conversation))["reply"] == UNKNOWN
    assert (await laptop.say("yes"))["decision"]["effects"] == ["Delete task 'buy bread'"]
    assert await environment.descriptions("local") == ["call mom"]
    assert (await laptop.answer(older))["decision"]["effects"] == ["Delete task 'call mom'"]
    assert (await phone.answer(newer))["reply"] == USED


@pytest.mark.parametrize("typed", ["yes", "no", "yes pls"])
async def test_what_is_typed_in_one_tab_answers_no_question_of_another_tab(
    environment: Environment, clients: tuple[Client, Client], typed: str
) -> None:
    tab, other_tab = clients
    older = await tab.ask_to_delete("call mom")
    other_tab.conversation = tab.conversation
    newer = await other_tab.ask_to_delete("buy bread")
    for question in (older, None):
        again = await tab.say(typed, shown=shown(question))
        assert again["reply"] == f"{NOT_ON_SCREEN} Delete task 'buy bread'. Should I go ahead? Please answer yes or no."
        assert again["decision"]["pending_action"]["id"] == newer["id"]
    assert len(await environment.descriptions("local")) == 2
    assert (await other_tab.say("yes", shown=shown(newer)))["decision"]["effects"] == ["Delete task 'buy bread'"]


async def test_without_the_id_of_the_shown_question_a_yes_counts_only_if_it_can_mean_one(
    environment: Environment, clients: tuple[Client, Client], clock: ManualClock
) -> None:
    tab, other_tab = clients
    await tab.ask_to_delete("call mom")
    other_tab.conversation = tab.conversation
    clock.advance(minutes=3)
    await other_tab.ask_to_delete("buy bread")
    assert (await tab.say("yes"))["reply"].startswith(NOT_ON_SCREEN)
    assert len(await environment.descriptions("local")) == 2
    clock.advance(minutes=2)
    assert (await tab.say("yes"))["decision"]["effects"] == ["Delete task 'buy bread'"]


async def test_a_second_device_reads_the_question_and_answers_it_by_text(
    environment: Environment, clients: tuple[Client, Client]
) -> None:
    phone, laptop = clients
    await phone.ask_to_delete("call mom")
    laptop.conversation = phone.conversation
    assert (await laptop.say("yes pls"))["reply"] == "Done: Delete task 'call mom'."
    assert (await phone.say("yes"))["decision"]["decision_type"] != "EXECUTE_PENDING"
    assert await environment.descriptions("local") == ["buy bread"]


async def test_a_new_request_sets_the_question_aside_which_its_card_says_in_the_conversation(
    environment: Environment, clients: tuple[Client, Client]
) -> None:
    phone, _ = clients
    pending = await phone.ask_to_delete("buy bread")
    other = await phone.say("hello there")
    assert other["decision"]["notices"] == ["Not done: delete task 'buy bread'."]
    messages = await phone.messages()
    assert [one["card"]["state"] for one in messages if one["card"]] == ["set_aside"]
    assert messages[-1]["notices"] == []
    assert (await phone.answer(pending))["decision"]["effects"] == []
    assert len(await environment.descriptions("local")) == 2


async def test_a_user_of_a_server_with_other_rules_reads_one_sentence_and_no_file(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], clients: tuple[Client, Client]
) -> None:
    phone, laptop = clients
    pending = await phone.ask_to_delete("call mom")
    permits = ConditionsFile("permit (principal, action, resource);", name="/etc/secret/policy.cedar")
    other = Client(served(environment.runtime(EmbeddedAdapter(), conditions=permits)))
    refused = await other.answer(pending)
    assert refused["reply"] == "The rules are no longer those under which I asked, so nothing was done. Please ask me again."
    assert refused["decision"]["void_answer"] == "other_rules"
    assert "policy.cedar" not in json.dumps(refused)
    assert (await laptop.answer(pending))["reply"] == "Done: Delete task 'call mom'."


@pytest.mark.parametrize("typed", ["yes", "No.", "go ahead"])
async def test_an_answer_typed_to_a_question_that_is_gone_says_what_became_of_it(
    environment: Environment, clients: tuple[Client, Client], clock: ManualClock, typed: str
) -> None:
    session, page = clients
    answered = await session.ask_to_delete("call mom")
    await page.answer(answered, yes=False)
    void = await session.say(typed, shown=shown(answered))
    assert void["reply"] == USED
    findings = (await session.http.get(f"/api/decisions/{void['decision_id']}")).json()["findings"]
    assert findings == [f"The answer named the question {answered['id']}, which has been answered before. Nothing was called."]
    never = await session.answer({"id": "nobody"})
    [finding] = (await session.http.get(f"/api/decisions/{never['decision_id']}")).json()["findings"]
    assert finding.endswith("which was not asked of this user in this conversation. Nothing was called.")
    withdrawn = await session.ask_to_delete("call mom")
    await session.http.post(f"/api/questions/{withdrawn['id']}/cancel")
    void = await session.say(typed, shown=shown(withdrawn))
    findings = (await session.http.get(f"/api/decisions/{void['decision_id']}")).json()["findings"]
    assert findings == [f"The answer named the question {withdrawn['id']}, which the user has withdrawn. Nothing was called."]
    expired = await session.ask_to_delete("call mom")
    clock.advance(minutes=6)
    late = await session.say(typed, shown=shown(expired))
    assert (late["reply"], late["decision"]["outcome_category"]) == (EXPIRED, "ERROR:USER_INPUT")
    # Also after a message that has dropped the question.
    asked = await session.ask_to_delete("call mom")
    for _ in range(3):
        await session.say("what is the weather?", shown=shown(asked))
    assert (await session.say(typed, shown=shown(asked)))["reply"] == SUPERSEDED
    # Other words are a message like any other, and a yes without a question on the screen is the model's.
    assert (await session.say("hello", shown=shown(asked)))["decision"]["outcome_category"] != "ERROR:USER_INPUT"
    assert (await session.say(typed, shown=shown(None)))["decision"]["outcome_category"] != "ERROR:USER_INPUT"
    assert len(await environment.descriptions("local")) == 2


async def inbox(client: Client, **query: Any) -> list[tuple[str, str]]:
    """Return the conversation and the description of every question that waits for this client's user."""
    found = (await client.http.get("/api/questions", params=query)).json()["questions"]
    return [(one["conversation_id"], one["card"]["description"]) for one in found]


async def test_the_inbox_has_the_open_question_of_every_conversation_until_it_is_answered_replaced_or_expired(
    clients: tuple[Client, Client], clock: ManualClock
) -> None:
    phone, laptop = clients
    assert await inbox(phone) == []
    await phone.ask_to_delete("call mom")
    clock.advance(minutes=1)
    pending = await laptop.ask_to_delete("buy bread")
    first, second = (phone.conversation, "Delete task 'call mom'"), (laptop.conversation, "Delete task 'buy bread'")
    assert await inbox(phone) == await inbox(laptop) == [first, second]
    assert await inbox(phone, limit=1) == [first]
    page = (await phone.http.get("/api/questions", params={"limit": 1})).json()
    assert (page["waiting"], page["questions"][0]["conversation_title"]) == (2, "delete call mom")
    assert await inbox(phone, limit=1, before=page["next"]) == [second]
    assert (await phone.http.get("/api/questions", params={"before": "x"})).status_code == 422
    # A question that is asked again stays; a later one of its conversation replaces it.
    assert (await phone.say("perhaps"))["decision"]["pending_action"] is not None
    await phone.ask_to_delete("buy bread")
    assert sorted(description for _, description in await inbox(phone)) == [
        "Delete task 'buy bread'",
        "Delete task 'buy bread'",
    ]
    await laptop.answer(pending, yes=False)
    assert await inbox(phone) == [(phone.conversation, "Delete task 'buy bread'")]
    clock.advance(minutes=5)
    assert await inbox(phone) == []


async def test_the_inbox_has_the_calls_of_mcp_clients_and_nothing_of_other_users(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    runtime = environment.runtime()
    for user, task in (("local", "call mom"), ("bob", "buy bread")):
        assert (await environment.tools.execute(permitted("add_task", {"description": task}, user))).success
        task_id = await environment.task_id(task)
        await runtime.chat.call(user, [FunctionCall("delete_task", {"task_id": task_id})])
    client = Client(served(runtime))
    ((_, description),) = await inbox(client)
    assert description == "Delete task 'call mom'"
    [waiting] = (await client.http.get("/api/questions")).json()["questions"]
    path, given = f"/api/questions/{waiting['id']}/answer", {"yes": True, "digest": waiting["digest"]}
    for _ in range(2):
        answered = (await client.http.post(path, json=given)).json()
        assert answered["reply"]["decision"]["effects"] == ["Delete task 'call mom'"]
        assert answered["question"]["state"] == "approved"
    other = await client.http.post(path, json={**given, "yes": False})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "QUESTION_CONFLICT")
    [ended] = (await client.http.get("/api/questions", params={"which": "ended"})).json()["questions"]
    assert (ended["id"], ended["state"]) == (waiting["id"], "approved")
    assert await inbox(client) == []
    assert len((await runtime.chat.questions.inbox(Person("bob"))).questions) == 1
