"""Approval by another person, in a chat: requests, answers, ends, and the decision that closes a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import Connection, update

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.question_view import ApprovalView, QuestionSummary
from graph_agent.chat.questions import Person
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApprovalAnswer, ApproverIdentity
from graph_agent.models.decision import ApprovalRequest, DecisionType
from graph_agent.models.record import CallDisposition, DecisionRecord
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.approval_signature import read_approver_keys
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.question.approvals import ApprovalStore, erase_questions, prune_questions
from graph_agent.question.inbox import Which
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.task_server.store import tasks
from graph_agent.testing import OrderDesk, open_installation, says
from graph_agent.tools.functions import FunctionTools
from graph_agent.words.values import time_in_words
from tests.chat.environment import Environment
from tests.chat.test_recovered_yes import yes_to
from tests.desk import CONSTITUTION, ORDER, PENDING, forbid, policy
from tests.scripted_turns import calls

RULES = """permit (principal, action, resource);
@id("{name}") forbid (principal, action == Action::"{tool}", resource) unless {{ {approved} }};"""


def rules(
    tool: str = "add_task", approved: str = "context.approvals.manager >= 1", name: str = "additions need a manager"
) -> ConditionsFile:
    return ConditionsFile(RULES.format(tool=tool, approved=approved, name=name), roles=("finance", "manager"))


def chat_of(environment: Environment, *script: Any, conditions: ConditionsFile | None = None) -> ChatService:
    return environment.chat(ScriptedAdapter(list(script)), conditions=conditions or rules())


def requests_of(chat: ChatService) -> ApprovalService:
    assert chat.approvals is not None
    return chat.approvals


async def waiting(chat: ChatService, user: str, roles: Sequence[str]) -> list[QuestionSummary]:
    """Return what waits for the approval of a user."""
    return (await chat.questions.inbox(Person(user, tuple(roles)))).questions


async def own(chat: ChatService, user: str) -> list[QuestionSummary]:
    """Return what asks others about calls of a user, the newest first."""
    return (await chat.questions.inbox(Person(user), Which.OWN)).questions


def request_of(answer: ChatAnswer) -> ApprovalRequest:
    assert answer.decision.approval is not None, answer.reply
    return answer.decision.approval


async def respond(
    chat: ChatService,
    request: ApprovalRequest,
    user: str = "bob",
    *,
    roles: Sequence[str] = ("manager",),
    approve: bool = True,
    **more: Any,
) -> QuestionSummary:
    given = {"digest": request.digest, "identity": ApproverIdentity.TOKEN, "reason": "" if approve else "too much", **more}
    answered = await requests_of(chat).answer(request.id, user, roles, approve=approve, **given)
    await requests_of(chat).closings()
    return answered


async def messages(chat: ChatService, answer: ChatAnswer, user: str = "ann") -> list[str]:
    return [one.content for one in (await chat.conversation(user, answer.conversation_id)).messages]


async def record_of(environment: Environment, decision_id: str) -> DecisionRecord:
    return next(one for one in await environment.records() if one.header.decision_id == decision_id)


async def rename(environment: Environment, task_id: str, description: str) -> None:
    """Change a task past the agent."""
    changed = update(tasks).where(tasks.c.id == task_id).values(description=description)
    await environment.database.write(lambda connection: connection.execute(changed).close())


ADD = calls(("add_task", {"description": "bread"}))


async def test_a_call_that_a_rule_lets_wait_runs_once_it_is_approved(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert asked.decision.pending_action is None
    assert asked.reply == (
        "Add task 'bread'. This waits for the approval of another person with the role manager. "
        "A rule asks for it: additions need a manager. Nothing has been done yet. "
        f"The request {request.id} is open until {time_in_words(request.action.expires_at, '')}."
    )
    assert request.action.expires_at - request.action.created_at == timedelta(hours=24)
    assert await environment.descriptions() == []
    assert [one.id for one in await waiting(chat, "bob", ["manager"])] == [request.id]
    assert await waiting(chat, "bob", ["finance"]) == []
    assert await waiting(chat, "ann", ["manager"]) == []

    assert (await respond(chat, request)).state == "open"
    assert await environment.descriptions() == ["bread"]
    assert await waiting(chat, "bob", ["manager"]) == []
    (closed,) = await own(chat, "ann")
    assert closed.state == "approved"
    assert (await messages(chat, asked))[2:] == [
        "The request was approved.",
        "Approved by 'bob' as manager. Done: Add task 'bread'.",
    ]


@pytest.mark.parametrize(
    ("end", "reply"),
    [
        ("denied", "Denied by 'bob' as manager, so nothing was done: add task 'bread'."),
        ("cancelled", "You withdrew the request, so nothing was done: add task 'bread'."),
        ("expired", "No one answered until {until}, so nothing was done: add task 'bread'."),
    ],
)
async def test_every_end_has_its_own_sentence_and_one_closing_message(
    each_environment: Environment, end: str, reply: str
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    match end:
        case "denied":
            assert (await respond(chat, request, approve=False)).state == "denied"
        case "cancelled":
            await requests_of(chat).cancel(request.id, "ann")
            await requests_of(chat).closings()
        case _:
            assert isinstance(environment.clock, ManualClock)
            environment.clock.advance(hours=24)
    for _ in range(2):
        await chat.serve_due()
    assert await environment.descriptions() == []
    shown = (await chat.conversation("ann", asked.conversation_id)).messages[2:]
    until = time_in_words(request.action.expires_at, "")
    assert [one.content for one in shown[1:]] == [reply.format(until=until)]
    assert [one.state for one in await own(chat, "ann")] == [end]
    assert shown[1].notices == (["'bob' says: 'too much'"] if end == "denied" else [])
    assert shown[1].decision_type is DecisionType.CANCEL_PENDING
    assert shown[0].authors is not None
    assert shown[0].authors.message == "code"
    with pytest.raises(ServiceError, match=f"This question has ended: {end}"):
        await respond(chat, request, "eve")


async def test_two_people_approve_and_one_person_counts_once(each_environment: Environment) -> None:
    environment = each_environment
    two = rules(approved="context.approvals.manager + context.approvals.finance >= 2")
    chat = chat_of(environment, ADD, conditions=two)
    request = request_of(await chat.send("ann", "add bread"))
    assert request.roles == ("finance", "manager")
    await respond(chat, request, "bob", roles=["finance", "manager"], role="manager")
    # The same answer again changes nothing, and another one is refused.
    await respond(chat, request, "bob", roles=["finance", "manager"], role="manager")
    with pytest.raises(ServiceError, match="An answer is final"):
        await respond(chat, request, "bob", roles=["finance", "manager"], role="finance")
    with pytest.raises(ServiceError, match="Nobody answers a request of their own"):
        await respond(chat, request, "ann", roles=["manager"])
    with pytest.raises(ServiceError, match="no such question"):
        await respond(chat, request, "dan", roles=["support"])
    assert await environment.descriptions() == []
    await respond(chat, request, "eve", roles=["manager"])
    assert await environment.descriptions() == ["bread"]


async def test_a_yes_comes_first_and_is_kept_while_the_call_waits(each_environment: Environment) -> None:
    environment = each_environment
    await environment.chat().send("ann", "add bread")
    delete = rules("delete_task", name="deletions need a manager")
    chat = chat_of(environment, calls(("delete_task", {"task_id": await environment.task_id("bread")})), conditions=delete)
    asked = await chat.send("ann", "delete bread")
    assert asked.decision.pending_action is not None
    waits = await chat.send("ann", "Yes.", answers=yes_to(asked))
    request = request_of(waits)
    assert request.confirmed
    assert "Nothing has been done yet" in waits.reply
    # The approver reads what asked for the call, and not the yes.
    view = await chat.questions.view(request.id, Person("bob", ("manager",)))
    assert isinstance(view, ApprovalView)
    assert (view.message, view.earlier_messages) == ("delete bread", [])
    late = await chat.send("ann", "Yes.", answers=yes_to(asked))
    assert late.reply == "That question has already been answered, so nothing was done now."
    await respond(chat, request)
    assert await environment.descriptions() == []
    assert (await messages(chat, waits))[-1] == "Approved by 'bob' as manager. Done: Delete task 'bread'."


async def test_aisvs_9_2_10_calls_after_one_that_waits_are_skipped_and_those_before_it_are_made(
    each_environment: Environment,
) -> None:
    environment = each_environment
    await environment.chat().send("ann", "add milk")
    milk = await environment.task_id("milk")
    batch = [
        ("complete_task", {"task_id": milk}),
        ("add_task", {"description": "bread"}),
        ("update_task", {"task_id": milk, "description": "cream"}),
    ]
    chat = chat_of(environment, calls(*batch))
    asked = await chat.send("ann", "do it all")
    record = await record_of(environment, asked.decision_id)
    executed, waits, skipped = CallDisposition.EXECUTED, CallDisposition.WAITS, CallDisposition.SKIPPED
    assert [one.disposition for one in record.invocations] == [executed, waits, skipped]
    await respond(chat, request_of(asked))
    assert sorted(await environment.descriptions()) == ["bread", "milk"]


async def test_the_same_call_waits_once_and_a_denied_one_is_refused(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, ADD, says("It waits."), ADD, says("It was denied."))
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    again = await chat.send("ann", "add bread", conversation_id=asked.conversation_id)
    assert again.decision.approval is None
    assert f"It waits for the approval of another person already (request {request.id})." in again.decision.notices[0]
    await respond(chat, request, approve=False)
    refused = await chat.send("ann", "add bread", conversation_id=asked.conversation_id)
    assert refused.decision.approval is None
    assert "Denied by 'bob' as manager." in refused.decision.notices[0]
    record = await record_of(environment, refused.decision_id)
    # The reason of the denial is for the user: no model reads it.
    assert "too much" not in str([one.result for one in record.entries])


async def test_a_call_is_the_same_however_its_numbers_are_written() -> None:
    sent: list[float] = []

    def pay(amount: float) -> None:
        """Pay."""
        sent.append(amount)

    rules = "permit (principal, action, resource); forbid (principal, action, resource) unless { context.approvals.boss > 0 };"
    boss = ConditionsFile(rules, roles=("boss",))
    model = [calls(("pay", {"amount": 5})), *[calls(("pay", {"amount": 5.0})), says("No.")] * 2]
    async with open_installation(FunctionTools(pay), "## Available Tools\n- pay: Pay\n", model, conditions=boss) as client:
        request = request_of(await client.send("pay 5"))
        again = await client.send("pay 5")
        assert f"(request {request.id})" in again.decision.notices[0]
        await respond(client.chat, request, approve=False, roles=("boss",))
        assert "Denied by 'bob' as boss." in (await client.send("pay 5")).decision.notices[0]
    assert sent == []


async def test_a_sixth_open_request_of_a_user_is_refused(each_environment: Environment) -> None:
    environment = each_environment
    requested = [calls(("add_task", {"description": f"task {number}"})) for number in range(6)]
    chat = chat_of(environment, *requested, says("Too many."))
    for number in range(5):
        request_of(await chat.send("ann", f"add {number}"))
    refused = await chat.send("ann", "add another one")
    assert refused.decision.approval is None
    assert "Too many of your requests wait for approvals already." in refused.decision.notices[0]


async def test_what_the_call_acts_on_is_looked_up_again_and_a_change_opens_the_request_anew(
    each_environment: Environment,
) -> None:
    environment = each_environment
    await environment.chat().send("ann", "add bread")
    bread = await environment.task_id("bread")
    delete = rules("delete_task", name="deletions need a manager")
    chat = chat_of(environment, calls(("delete_task", {"task_id": bread})), conditions=delete)
    asked = await chat.send("ann", "delete bread")
    request = request_of(await chat.send("ann", "Yes.", answers=yes_to(asked)))
    for name in ("rye", "spelt", "oat"):
        await rename(environment, bread, name)
        await respond(chat, request)
        shown = (await chat.conversation("ann", asked.conversation_id)).messages
        assert "It has changed since the request, so nothing was done." in shown[-1].content
        assert f"Delete task '{name}'" in shown[-1].content
        (open_one,) = [one for one in await own(chat, "ann") if one.state == "open"]
        stored = await requests_of(chat).state(open_one.id, "ann")
        request = stored.request
    await rename(environment, bread, "wheat")
    await respond(chat, request)
    assert "what it is about has changed again and again" in (await messages(chat, asked))[-1].lower()
    assert await environment.descriptions() == ["wheat"]
    assert [one.state for one in await own(chat, "ann")] == ["approved"] * 4


async def test_an_answer_names_what_its_approver_was_shown(each_environment: Environment) -> None:
    chat = chat_of(each_environment, ADD)
    request = request_of(await chat.send("ann", "add bread"))
    with pytest.raises(ServiceError, match="about another text"):
        await respond(chat, request, digest="0" * 64)
    with pytest.raises(ServiceError, match="A denial needs a reason"):
        await respond(chat, request, approve=False, reason=" ")
    with pytest.raises(ServiceError, match="You can answer as manager"):
        await respond(chat, request, role="finance")
    assert await each_environment.descriptions() == []


async def test_an_approved_call_counts_for_the_budget_of_its_requester(each_environment: Environment) -> None:
    environment = each_environment
    budget = '@id("one a day") forbid (principal, action == Action::"add_task", resource) when { context.used.day.calls > 1 };'
    file = ConditionsFile(rules().text + budget, roles=("finance", "manager"))
    chat = chat_of(environment, ADD, calls(("add_task", {"description": "milk"})), conditions=file)
    first = request_of(await chat.send("ann", "add bread"))
    asked = await chat.send("ann", "add milk")
    await respond(chat, first)
    await respond(chat, request_of(asked))
    await chat.serve_due()
    assert await environment.descriptions() == ["bread"]
    (call,) = [one for record in await environment.records() for one in record.invocations if one.success]
    assert call.parameters == {"description": "bread"}
    # What waits is not refused for good: it may be made the next day.
    assert {one.state for one in await own(chat, "ann")} == {"approved", "open"}


async def test_two_calls_that_are_approved_at_once_do_not_exceed_the_budget(each_environment: Environment) -> None:
    environment = each_environment
    budget = '@id("one a day") forbid (principal, action == Action::"add_task", resource) when { context.used.day.calls > 1 };'
    file = ConditionsFile(rules().text + budget, roles=("finance", "manager"))
    chats = [chat_of(environment, calls(("add_task", {"description": what})), conditions=file) for what in ("bread", "milk")]
    requests = [request_of(await chat.send("ann", "add it")) for chat in chats]
    await asyncio.gather(*(respond(chat, request) for chat, request in zip(chats, requests, strict=True)))
    assert len(await environment.descriptions()) == 1


async def test_the_closing_decision_replays_identically_and_by_its_recorded_counts(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    await respond(chat, request_of(asked))
    (closed,) = await own(chat, "ann")
    for decision_id in (asked.decision_id, str(closed.closing_decision)):
        loaded = await load_from_log(environment.database, decision_id)
        assert isinstance(loaded.record, DecisionRecord)
        report = await loaded.replay(Replayer())
        assert report.identical, report
    assert loaded.record is not None
    assert loaded.record.header.context.approval is not None
    assert [one.approver for one in loaded.record.header.context.approval.answers] == ["bob"]
    (made,) = loaded.record.invocations
    assert made.disposition is CallDisposition.EXECUTED


async def test_later_messages_do_not_end_a_request_and_a_busy_conversation_only_delays_it(
    each_environment: Environment,
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, says("Hello."))
    asked = await chat.send("ann", "add bread")
    await chat.send("ann", "hello", conversation_id=asked.conversation_id)
    await respond(chat, request_of(asked))
    assert await environment.descriptions() == ["bread"]


async def test_a_rule_about_a_fact_is_judged_by_the_fact_of_then(environment: Environment) -> None:
    """What the conditions read about the object is read again before a request is closed, and in the closing decision."""
    approved = f"({PENDING}) || context.approvals.manager + context.approvals.finance >= 2"
    file = ConditionsFile(policy(ORDER, forbid("only a pending order", "cancel_order", approved)), roles=("finance", "manager"))
    desk, script = OrderDesk(), [calls(("cancel_order", {"order_id": "W2"}))]
    chat = environment.chat(ScriptedAdapter(list(script)), conditions=file, tools=desk, constitution=CONSTITUTION)
    request = request_of(await chat.send("ann", "cancel W2"))
    await respond(chat, request, "bob")
    assert "cancel_order" not in [name for name, _ in desk.sent]
    assert (await requests_of(chat).view(request.id, "eve", ["manager"])).yours is not None
    await respond(chat, request, "eve")
    assert [name for name, _ in desk.sent].count("cancel_order") == 1
    assert [one.state for one in await own(chat, "ann")] == ["approved"]


async def test_a_request_of_a_host_whose_clock_is_ahead_waits_as_long_as_any_other(
    environment: Environment, clock: ManualClock
) -> None:
    environment.clock = ManualClock()
    environment.clock.advance(hours=20)
    action = request_of(await chat_of(environment, ADD).send("ann", "add bread")).action
    assert (action.created_at, action.expires_at) == (clock.now(), clock.now() + timedelta(hours=24))


async def test_aisvs_9_6_2_after_the_expiry_nothing_runs_although_enough_people_approved_it(
    each_environment: Environment, clock: ManualClock
) -> None:
    """The conversation is busy until then: what was not claimed in time is not done."""
    environment = each_environment
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    given: dict[str, Any] = {"digest": request.digest, "identity": ApproverIdentity.TOKEN}
    view = await requests_of(chat).view(request.id, "bob", ["manager"])
    assert view.yours is not None
    answer = ApprovalAnswer(approver="bob", approve=True, role="manager", answered_at=environment.clock.now(), **given)
    await ApprovalStore(environment.database, record_key=environment.record_key).answer(request.id, answer)
    clock.advance(hours=24)
    await chat.serve_due()
    assert await environment.descriptions() == []
    assert "There were not enough approvals until" in (await messages(chat, asked))[-1]


async def test_aisvs_9_2_9_with_keys_an_answer_that_the_server_has_made_itself_runs_nothing(
    each_environment: Environment, tmp_path: Path
) -> None:
    """A row with a valid MAC, as only the server can write it, is no approval without the signature of the approver's key."""
    environment = each_environment
    key = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (tmp_path / "approvers").write_text(f"bob {key}\n")
    evidence = AnswerEvidence(keys=read_approver_keys(tmp_path / "approvers"))
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules(), evidence=evidence)
    request = request_of(await chat.send("ann", "add bread"))
    given: dict[str, Any] = {"digest": request.digest, "identity": ApproverIdentity.KEY, "signature": "signed"}
    answer = ApprovalAnswer(approver="bob", approve=True, role="manager", answered_at=environment.clock.now(), **given)
    await ApprovalStore(environment.database, record_key=environment.record_key).answer(request.id, answer)
    for _ in range(2):
        await chat.serve_due()
    assert await environment.descriptions() == []
    (still,) = await own(chat, "ann")
    assert still.state == "open"


async def test_aisvs_9_2_10_the_approval_of_a_call_covers_no_other_one(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, calls(("add_task", {"description": "milk"})))
    first = request_of(await chat.send("ann", "add bread"))
    second = request_of(await chat.send("ann", "add milk"))
    with pytest.raises(ServiceError, match="about another text than that of this question"):
        await respond(chat, second, digest=first.digest)
    await respond(chat, first)
    await chat.serve_due()
    assert await environment.descriptions() == ["bread"]


async def test_requests_are_pruned_a_month_after_their_end_and_erased_with_their_user(
    each_environment: Environment, clock: ManualClock
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, ADD)
    await respond(chat, request_of(await chat.send("ann", "add bread")))
    open_one = request_of(await chat.send("dan", "add bread"))
    clock.advance(days=29)
    await prune_questions(environment.database, environment.clock.now())
    assert len(await own(chat, "ann")) == 1
    clock.advance(days=2)
    await prune_questions(environment.database, environment.clock.now())
    assert await own(chat, "ann") == []
    # One that no sweep has closed is kept.
    assert [one.id for one in await own(chat, "dan")] == [open_one.id]
    await environment.database.write(lambda connection: erase_questions(connection, "dan"))
    assert await own(chat, "dan") == []


async def test_the_newest_request_is_shown_and_carried_out_after_a_crash_however_many_wait(
    each_environment: Environment,
) -> None:
    environment = each_environment
    first, chat = chat_of(environment, ADD), chat_of(environment, ADD)
    request = request_of(await first.send("carl", "add bread"))
    store = ApprovalStore(environment.database, record_key=environment.record_key)

    def open_many(connection: Connection) -> None:
        for number in range(250):
            action = request.action.replace(id=f"other-{number}", arguments={"description": str(number)})
            user = f"user-{number // 5}"
            store.open(connection, request.replace(action=action, user_id=user, roles=("finance",)))

    await environment.database.write(open_many)
    newest = request_of(await chat.send("ann", "add bread"))
    assert [one.id for one in await waiting(chat, "bob", ["manager"])] == [request.id, newest.id]
    given: Any = {"role": "manager", "digest": newest.digest, "identity": ApproverIdentity.TOKEN}
    answer = ApprovalAnswer(approver="bob", approve=True, answered_at=environment.clock.now(), **given)
    # The process that takes the answer is killed before it closes the request.
    await store.answer(newest.id, answer)
    await chat_of(environment).serve_due()
    assert await environment.descriptions("ann") == ["bread"]
