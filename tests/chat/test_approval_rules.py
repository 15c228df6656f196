"""A request is decided only by a process with the rules, the tools and the keys under which it was asked."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import insert

from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.db.notifications import open_notifications
from graph_agent.due.wakeups import announced
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ApprovalRequest
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.approval_signature import read_approver_keys
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.question.stored import Answer, Macs
from graph_agent.question.tables import Asks, Evidence, answers
from graph_agent.testing import says
from tests.chat.environment import Environment, open_environment
from tests.chat.test_approvals import ADD, chat_of, messages, own, request_of, requests_of, respond, rules, waiting
from tests.chat.test_endings import until_messages_arrive
from tests.chat.test_recovery import Stopped
from tests.scripted_turns import calls

TWO = "context.approvals.manager >= 1 && context.approvals.finance >= 1"
WEAKER_TEXT = Constitution.load(None).text.replace("(requires confirmation)", "(without confirmation)")


def other(environment: Environment, **engine: Any) -> ChatService:
    """Return another process, by default with the same rules."""
    return environment.chat(ScriptedAdapter([]), **{"conditions": rules(approved=TWO), **engine})


def keys_of(folder: Path, *names: str) -> AnswerEvidence:
    keys = [Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for _ in names]
    lines = [f"{name} {key.decode()}\n" for name, key in zip(names, keys, strict=True)]
    (folder / "approvers").write_text("".join(lines))
    return AnswerEvidence(keys=read_approver_keys(folder / "approvers"))


@pytest.mark.parametrize(
    ("differs", "named"),
    [
        ({"conditions": None}, "the conditions, their roles or their time zone"),
        ({"conditions": rules()}, "the conditions, their roles or their time zone"),
        ({"conditions": rules(approved="context.approvals.manager >= 9")}, "the conditions, their roles or their time zone"),
        (
            {"conditions": ConditionsFile(rules(approved=TWO).text, roles=("finance", "manager", "support"))},
            "the conditions, their roles or their time zone",
        ),
        (
            {"conditions": ConditionsFile(rules(approved=TWO).text, roles=("finance", "manager"), time_zone="Asia/Tokyo")},
            "the conditions, their roles or their time zone",
        ),
        ({"constitution": WEAKER_TEXT}, "the constitution"),
        ({"evidence": AnswerEvidence(sign_in=True)}, "the sign-in"),
    ],
)
@pytest.mark.parametrize("enough", [False, True])
async def test_a_process_with_other_rules_leaves_a_request_alone_and_says_so(
    environment: Environment, differs: dict[str, Any], named: str, enough: bool
) -> None:
    chat = chat_of(environment, ADD, conditions=rules(approved=TWO))
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    await respond(chat, request)
    if enough:
        # As if the process that took the answer had died before it closed the request.
        await store_answer(environment, request, "eve", "finance")
    weaker = other(environment, **differs)
    for _ in range(2):
        await weaker.serve_due()
    assert await requests_of(weaker).close(request.id) is False
    assert await environment.descriptions() == []
    assert (await messages(chat, asked))[2:] == []
    seen = await requests_of(weaker).view(request.id, "ann", [])
    assert seen.state == "open"
    assert "Here other ones are in force: " in seen.decided_elsewhere
    assert named in seen.decided_elsewhere
    assert "its requester withdraws it and asks again" in seen.decided_elsewhere
    (mine,) = await own(chat, "ann")
    assert (mine.state, mine.decided_elsewhere) == ("open", "")

    if not enough:
        await respond(chat, request, "eve", roles=["finance"])
    await other(environment).serve_due()
    assert await environment.descriptions() == ["bread"]


async def store_answer(environment: Environment, request: ApprovalRequest, user: str, role: str) -> None:
    """Store an answer at a process that is gone before it decides."""
    process = other(environment, conditions=rules(approved="false"))
    await respond(process, request, user, roles=[role])


async def test_an_answer_elsewhere_is_stored_and_decided_by_a_process_with_the_rules(environment: Environment) -> None:
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    weaker = other(environment, conditions=rules(approved="context.approvals.finance >= 1"))
    # The roles are those that the rules of the request named: here finance would count.
    assert await waiting(weaker, "eve", ["finance"]) == []
    shown = await requests_of(weaker).view(request.id, "bob", ["manager"])
    assert shown.yours is not None
    assert (shown.yours.roles, shown.yours.effect) == (["manager"], None)
    answered = await respond(weaker, request)
    assert answered.decided_elsewhere.startswith("It is decided by a server with the rules under which it was asked.")
    assert await environment.descriptions() == []
    await chat.serve_due()
    assert await environment.descriptions() == ["bread"]
    (closed,) = await own(weaker, "ann")
    assert (closed.state, closed.decided_elsewhere) == ("approved", "")


async def test_a_process_with_other_rules_closes_what_has_ended(environment: Environment) -> None:
    assert isinstance(environment.clock, ManualClock)
    chat = chat_of(environment, ADD, calls(("add_task", {"description": "milk"})))
    asked = await chat.send("ann", "add bread")
    later = await chat.send("ann", "add milk", conversation_id=asked.conversation_id)
    weaker = other(environment, conditions=None)
    await requests_of(weaker).cancel(request_of(later).id, "ann")
    await requests_of(weaker).closings()
    assert (await messages(chat, asked))[-1].startswith("You withdrew the request")
    environment.clock.advance(hours=25)
    await weaker.serve_due()
    assert (await messages(chat, asked))[-1].startswith("No one answered until ")
    assert await environment.descriptions() == []


async def test_a_request_whose_rules_are_gone_expires_and_is_asked_again_after_it_was_withdrawn(
    environment: Environment,
) -> None:
    chat = chat_of(environment, ADD)
    request = request_of(await chat.send("ann", "add bread"))
    new = chat_of(environment, ADD, says("It waits already."), ADD, conditions=rules(name="additions need one"))
    again = await new.send("ann", "add bread")
    assert f"request {request.id}" in " ".join([again.reply, *again.decision.notices])
    await requests_of(new).cancel(request.id, "ann")
    await requests_of(new).closings()
    await respond(new, request_of(await new.send("ann", "add bread")))
    assert await environment.descriptions() == ["bread"]


async def test_with_sign_in_no_answer_counts_that_was_only_asserted_whoever_closes_the_request(
    environment: Environment,
) -> None:
    with_sign_in: dict[str, Any] = {"conditions": rules(), "evidence": AnswerEvidence(sign_in=True)}
    chat = environment.chat(ScriptedAdapter([ADD]), **with_sign_in)
    request = request_of(await chat.send("ann", "add bread"))
    for identity in (ApproverIdentity.ASSERTED, ApproverIdentity.KEY):
        with pytest.raises(ServiceError, match="The answer does not count: its approver has not signed in"):
            await respond(chat, request, identity=identity)
    # A shell on the same database that does not have the variables of the sign-in.
    shell = other(environment, conditions=rules())
    for identity in (ApproverIdentity.ASSERTED, ApproverIdentity.TOKEN):
        for approve in (True, False):
            with pytest.raises(ServiceError, match="is answered there"):
                await respond(shell, request, identity=identity, approve=approve)
    await shell.serve_due()
    assert await environment.descriptions() == []
    await respond(chat, request)
    assert await environment.descriptions() == ["bread"]


async def test_an_asserted_answer_that_is_stored_all_the_same_does_not_count_and_keeps_nobody_from_answering(
    environment: Environment,
) -> None:
    """The row has a valid MAC, as a process with the key of the record can write it."""
    with_sign_in: dict[str, Any] = {"conditions": rules(), "evidence": AnswerEvidence(sign_in=True)}
    chat = environment.chat(ScriptedAdapter([ADD]), **with_sign_in)
    request = request_of(await chat.send("ann", "add bread"))
    await plant(environment, request, ApproverIdentity.ASSERTED)
    await chat.serve_due()
    assert await environment.descriptions() == []
    await respond(chat, request)
    assert await environment.descriptions() == ["bread"]


async def plant(environment: Environment, request: ApprovalRequest, identity: ApproverIdentity) -> None:
    """Write an answer of bob past the service, which would refuse it, with a valid MAC."""
    answer = Answer(person="bob", yes=True, digest=request.digest, role="manager", identity=identity)
    at, named = request.action.created_at, ("person", "yes", "digest", "role", "reason", "identity", "signature")
    row = {name: getattr(answer, name) for name in named}
    whose = {"question_id": request.id, "asks": Asks.OTHERS, "requester": request.user_id, "evidence": Evidence.SIGNED}
    mac = Macs(environment.record_key).of_answer(request.id, answer, at)[0]
    statement = insert(answers).values(**row, **whose, answered_at=at, mac=mac)
    await environment.database.write(lambda connection: connection.execute(statement).close())


async def test_other_keys_of_the_approvers_decide_nothing(environment: Environment, tmp_path: Path) -> None:
    evidence = keys_of(tmp_path, "bob")
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules(), evidence=evidence)
    request = request_of(await chat.send("ann", "add bread"))
    for others in (None, keys_of(tmp_path, "bob"), AnswerEvidence(sign_in=True)):
        process = other(environment, conditions=rules(), evidence=others)
        with pytest.raises(ServiceError, match="the keys of the approvers are others"):
            await respond(process, request)
        await process.serve_due()
        (seen,) = await own(process, "ann")
        assert "the keys of the approvers" in seen.decided_elsewhere
    await plant(environment, request, ApproverIdentity.TOKEN)
    await chat.serve_due()
    assert await environment.descriptions() == []


@pytest.mark.parametrize("spelling", ["Ann", " ann", "\N{CYRILLIC SMALL LETTER A}nn", "\N{FULLWIDTH LATIN SMALL LETTER A}nn"])
async def test_another_spelling_of_the_requester_does_not_answer(environment: Environment, spelling: str) -> None:
    chat = chat_of(environment, ADD)
    request = request_of(await chat.send("ann", "add bread"))
    assert await waiting(chat, spelling, ["manager"]) == []
    with pytest.raises(ServiceError, match="Nobody answers a request of their own"):
        await respond(chat, request, spelling)
    assert (await requests_of(chat).view(request.id, spelling, ["manager"])).yours is None
    # Nor does it withdraw the request of ann.
    with pytest.raises(ServiceError, match="There is no such question"):
        await requests_of(chat).cancel(request.id, spelling)
    assert await environment.descriptions() == []


async def test_two_spellings_are_not_two_people(environment: Environment) -> None:
    chat = chat_of(environment, ADD, conditions=rules(approved="context.approvals.manager + context.approvals.finance >= 2"))
    request = request_of(await chat.send("ann", "add bread"))
    await respond(chat, request, "bob")
    for spelling, role in (("Bob", "finance"), ("b\N{GREEK SMALL LETTER OMICRON}b", "manager"), ("b0b", "manager")):
        with pytest.raises(ServiceError, match="You have answered this question already"):
            await respond(chat, request, spelling, roles=[role], approve=False)
        assert await waiting(chat, spelling, [role]) == []
    await chat.serve_due()
    assert await environment.descriptions() == []
    await respond(chat, request, "eve")
    assert await environment.descriptions() == ["bread"]


@pytest.mark.parametrize("late", [False, True], ids=["soon", "late"])
async def test_a_process_with_other_rules_does_not_end_the_turn_in_which_an_approved_call_is_made(
    environment: Environment, clock: ManualClock, late: bool
) -> None:
    """The process that carried it out was killed at any commit. After ten minutes others end its turn, and send nothing."""
    made = []
    for n in range(1, 12):
        user = f"user{n}"
        asked = await chat_of(environment, ADD).send(user, "add bread")
        left = Stopped(environment, n, after=True, model=ScriptedAdapter([]), conditions=rules())
        if not await left.stops_in(respond(left.chat, request_of(asked))):
            await left.wake_up()
            break
        clock.advance(seconds=36)
        made.append(await environment.descriptions(user))
        weaker = other(environment, conditions=rules(approved="context.approvals.finance >= 1"))
        if late:
            clock.advance(minutes=10)
        await weaker.serve_due()
        with suppress(ServiceError):
            await weaker.send(user, "hello", conversation_id=asked.conversation_id)
        assert await environment.descriptions(user) == made[-1]
        await other(environment, conditions=rules()).serve_due()
        assert late or await environment.descriptions(user) == ["bread"]
        await left.wake_up()
    assert [] in made
    assert ["bread"] in made


@pytest.mark.postgresql
async def test_an_approval_in_another_process_is_carried_out_at_once_by_the_one_with_the_rules(
    tmp_path: Path, migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker looks only when it is woken.
    monkeypatch.setattr("graph_agent.due.worker.LONGEST_SLEEP_SECONDS", 3600.0)
    async with open_environment(tmp_path, None, url=migrated_postgresql_url) as environment, AsyncExitStack() as stack:
        script = ScriptedAdapter([ADD])
        messages_of = open_notifications(environment.database, migrated_postgresql_url, "test")
        engine = environment.engine(script, conditions=rules())
        server = ChatService(engine, clock=environment.clock, endings=TurnEndings(messages_of, safety_seconds=3600.0))
        request = request_of(await server.send("ann", "add bread"))
        serving = asyncio.create_task(server.serve_due_forever())
        await stack.enter_async_context(server.listen())
        await until_messages_arrive(server.endings)

        elsewhere = environment.open_database(Database)
        stack.push_async_callback(elsewhere.close)
        shell = other(environment, conditions=rules(approved="context.approvals.finance >= 1"), database=elsewhere)
        async with announced(elsewhere, open_notifications(elsewhere, migrated_postgresql_url, "test")):
            await respond(shell, request)
        async with asyncio.timeout(60):
            while await environment.descriptions() != ["bread"]:  # noqa: ASYNC110 (the row has no event)
                await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.wait({serving})
