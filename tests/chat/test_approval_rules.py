"""A waiting call is made only if the rules of the process that decides and those under which it was asked permit it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import Connection, insert, select, update

from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.db.notifications import open_notifications
from graph_agent.due.table import ANY_AFTER
from graph_agent.due.wakeups import announced
from graph_agent.errors import ServiceError
from graph_agent.graph.build import build_graph
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.approval_signature import read_approver_keys
from graph_agent.policy.call_in_hand import Gate
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import with_gate
from graph_agent.question.stored import Answer, Macs
from graph_agent.question.tables import Asks, Evidence, answers
from graph_agent.record.rule_sets import activate_rules
from graph_agent.record.tables import decision_logs
from graph_agent.record.tree.leaves import Sealer
from graph_agent.testing import OrderDesk, says
from tests.chat.environment import Environment, open_environment
from tests.chat.stopped import Stopped
from tests.chat.test_approvals import ADD, chat_of, messages, own, rename, request_of, requests_of, respond, rules, waiting
from tests.chat.test_endings import until_messages_arrive
from tests.desk import CONSTITUTION as DESK
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


CONDITIONS = "(the conditions, their roles or their time zone)"
FOREIGN_ROLES = ConditionsFile(rules(approved=TWO).text, roles=("finance", "manager", "support"))
IN_TOKYO = ConditionsFile(rules(approved=TWO).text, roles=("finance", "manager"), time_zone="Asia/Tokyo")
NEVER = Gate("never", lambda _: None, "it is any call")
MORE_THAN_ALL = rules(approved="context.approvals.manager >= 2000000")


async def wait_for_its_rules(environment: Environment) -> None:
    """Wait until no process with the rules of a request has decided it in time."""
    assert isinstance(environment.clock, ManualClock)
    environment.clock.advance(seconds=ANY_AFTER.total_seconds() + 1)


@pytest.mark.parametrize(
    "differs",
    [
        {"conditions": None},
        {"conditions": rules()},
        {"conditions": FOREIGN_ROLES},
        {"conditions": IN_TOKYO},
        {"constitution": WEAKER_TEXT},
        {"conditions": None, "constitution": WEAKER_TEXT},
    ],
)
async def test_weaker_rules_lower_nothing_and_make_a_call_that_the_asking_ones_permit(
    each_environment: Environment, differs: dict[str, Any]
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, conditions=rules(approved=TWO))
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    weaker = other(environment, **differs)
    assert (await respond(weaker, request)).decided_elsewhere == ""
    for _ in range(2):
        await weaker.serve_due()
        await wait_for_its_rules(environment)
    assert await requests_of(weaker).close(request.id) is False
    assert await environment.descriptions() == []
    seen = await requests_of(weaker).view(request.id, "eve", ["finance"])
    assert seen.yours is not None
    assert (seen.state, seen.decided_elsewhere, seen.yours.effect) == ("open", "", "runs")
    await respond(weaker, request, "eve", roles=["finance"])
    assert await environment.descriptions() == ["bread"]
    assert (await messages(chat, asked))[-1] == "Approved by 'bob' as manager and 'eve' as finance. Done: Add task 'bread'."


async def test_an_approver_sees_what_both_rules_need(environment: Environment) -> None:
    chat = chat_of(environment, ADD, conditions=rules(approved=TWO))
    request = request_of(await chat.send("ann", "add bread"))
    shown = await requests_of(other(environment, conditions=rules())).view(request.id, "bob", ["manager"])
    assert shown.yours is not None
    assert (shown.yours.effect, shown.yours.why) == ("waits", "additions need a manager")


@pytest.mark.parametrize(
    ("differs", "named", "why"),
    [
        ({"conditions": rules(approved="false")}, CONDITIONS, "they do not permit it: additions need a manager"),
        ({"conditions": MORE_THAN_ALL}, CONDITIONS, "they do not permit it: additions need a manager"),
        (
            {"conditions": rules(approved="context.confirmed && context.approvals.manager >= 1")},
            CONDITIONS,
            "they do not permit it: additions need a manager",
        ),
        (
            {"evidence": AnswerEvidence(sign_in=True)},
            "(the sign-in)",
            "it cannot be decided here: only a server with that sign-in and those keys knows which answers count",
        ),
    ],
)
@pytest.mark.parametrize("enough", [False, True])
async def test_rules_that_refuse_a_call_leave_its_request_and_say_so(
    each_environment: Environment, differs: dict[str, Any], named: str, why: str, enough: bool
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, conditions=rules(approved=TWO))
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    await respond(chat, request)
    if enough:
        # As if the process that took the answer had died before it closed the request.
        await respond(other(environment, conditions=rules(approved="false")), request, "eve", roles=["finance"])
    refusing = other(environment, **differs)
    for _ in range(2):
        await refusing.serve_due()
        await wait_for_its_rules(environment)
    assert await requests_of(refusing).close(request.id) is False
    assert await environment.descriptions() == []
    assert (await messages(chat, asked))[2:] == []
    seen = await requests_of(refusing).view(request.id, "ann", [])
    assert (seen.state, seen.decided_elsewhere) == (
        "open",
        "It is decided by a server with the rules under which it was asked. Here other ones are in force "
        f"{named}, and {why}. If no server has the earlier ones any more, its requester withdraws it and asks again.",
    )
    (mine,) = await own(chat, "ann")
    assert (mine.state, mine.decided_elsewhere) == ("open", "")

    if not enough:
        await respond(chat, request, "eve", roles=["finance"])
    # The process with its rules decides it as soon as the other one has given it back.
    await wait_for_its_rules(environment)
    await other(environment).serve_due()
    assert await environment.descriptions() == ["bread"]


async def test_the_process_with_the_asking_rules_decides_first(environment: Environment) -> None:
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    # Stored by a process that decides nothing.
    await respond(other(environment, conditions=rules(approved="false")), request_of(asked))
    weaker = other(environment, conditions=None)
    await weaker.serve_due()
    assert await environment.descriptions() == []
    await wait_for_its_rules(environment)
    await weaker.serve_due()
    assert await environment.descriptions() == ["bread"]
    (closed,) = await own(weaker, "ann")
    assert (closed.state, closed.decided_elsewhere) == ("approved", "")


async def test_the_roles_are_those_that_the_rules_of_the_request_named(environment: Environment) -> None:
    chat = chat_of(environment, ADD)
    request = request_of(await chat.send("ann", "add bread"))
    changed = other(environment, conditions=rules(approved="context.approvals.finance >= 1"))
    assert await waiting(changed, "eve", ["finance"]) == []
    answered = await respond(changed, request)
    assert "they do not permit it: additions need a manager" in answered.decided_elsewhere
    assert await environment.descriptions() == []


async def test_without_the_record_that_asked_a_request_is_left_and_says_why(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    kept = select(decision_logs.c.record).where(decision_logs.c.decision_id == request.decision_id)
    record = await environment.database.read(lambda connection: connection.execute(kept).scalar_one())
    forget = update(decision_logs).where(decision_logs.c.decision_id == request.decision_id)
    for change, why in (
        (forget.values(record=None), "the decision in which it was asked is not kept any more"),
        (
            forget.values(record=record.replace(digest_of(record, "conditions"), digest_of(record, "constitution"))),
            "the earlier rules cannot be read from the record of the decision in which it was asked",
        ),
    ):
        await environment.database.write(partial(_run, change))
        weaker = other(environment, conditions=None)
        answered = await respond(weaker, request)
        assert f"it cannot be decided here: {why}. " in answered.decided_elsewhere
        await wait_for_its_rules(environment)
        await weaker.serve_due()
        assert await environment.descriptions() == []
    # The process with the asking rules needs no record of them.
    await wait_for_its_rules(environment)
    await chat.serve_due()
    assert await environment.descriptions() == ["bread"]


@pytest.mark.parametrize(
    ("differs", "why"),
    [
        (
            {"tools": OrderDesk(changed_traits={"cancel_order": {"title": "Strike order"}})},
            "the definition of the tool 'cancel_order' was another one",
        ),
        ({"graph": build_graph(gates=with_gate(NEVER, before="dry run"))}, "its gates were others"),
        ({}, "the earlier rules count what calls use"),
    ],
)
async def test_what_cannot_be_compared_leaves_a_request(environment: Environment, differs: dict[str, Any], why: str) -> None:
    desk, cancel = OrderDesk(), ("cancel_order", {"order_id": "W2", "reason": "card_1"})
    needs = "context.approvals.manager >= 1" + ("" if differs else " && context.used.day.calls <= 2")
    conditions = rules("cancel_order", needs)
    chat = environment.chat(ScriptedAdapter([calls(cancel)]), conditions=conditions, tools=desk, constitution=DESK)
    request = request_of(await chat.send("ann", "cancel W2"))
    choices = {"conditions": None, "tools": desk, "constitution": DESK, **differs}
    answered = await respond(other(environment, **choices), request)
    assert f"it cannot be decided here: {why}. " in answered.decided_elsewhere
    assert desk.changes == []
    await wait_for_its_rules(environment)
    await chat.serve_due()
    assert desk.changes == ["cancel_order W2 card_1"]


@pytest.mark.parametrize("activated", [False, True])
async def test_rules_that_an_operator_has_activated_end_what_they_refuse(
    each_environment: Environment, activated: bool
) -> None:
    environment = each_environment
    then, now = (RuleSet({"constitution": Constitution.load(None).text, "settings": name}) for name in ("then", "now"))
    closed = rules(approved="false")
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules(), rule_set=then)
    asked = await chat.send("ann", "add bread")
    if activated:
        sealer = Sealer(environment.record_key)
        await activate_rules(environment.database, now, sealer, expected=1, by="bob", reason="additions are closed")
    changed = other(environment, conditions=closed, rule_set=now)
    await respond(changed, request_of(asked))
    assert await environment.descriptions() == []
    (mine,) = await own(changed, "ann")
    assert mine.state == ("void" if activated else "open")
    if activated:
        why = "the rules were changed, and they do not permit it: additions need a manager"
        assert mine.why == why
        assert (await messages(changed, asked))[-1].startswith(f"The request is void ({why}), so nothing was done: ")


def _run(change: Any, connection: Connection) -> None:
    connection.execute(change).close()


def digest_of(record: str, name: str) -> str:
    found: str = json.loads(record)["header"][name]
    return found


async def test_a_request_that_is_opened_anew_keeps_the_rules_of_the_first_one(each_environment: Environment) -> None:
    environment = each_environment
    await environment.chat(ScriptedAdapter([ADD])).send("ann", "add bread")
    task = await environment.task_id("bread")
    delete = calls(("delete_task", {"task_id": task}))
    chat = chat_of(environment, delete, conditions=rules("delete_task", TWO))
    asked = await chat.send("ann", "delete bread")
    said = await chat.send("ann", "yes", conversation_id=asked.conversation_id)
    weaker = other(environment, conditions=rules("delete_task"))
    await rename(environment, task, "rye bread")
    await respond(weaker, request_of(said))
    await respond(weaker, request_of(said), "eve", roles=["finance"])
    (anew,) = await waiting(weaker, "bob", ["manager"])
    renewed = (await requests_of(weaker).state(anew.id, "ann")).request
    assert renewed.renewals == 1
    # Decided by the rules under which it was opened anew, and by other weaker ones.
    for process in (weaker, other(environment, conditions=None)):
        if process is weaker:
            await respond(process, renewed)
        await process.serve_due()
        await wait_for_its_rules(environment)
        await process.serve_due()
        assert await environment.descriptions() == ["rye bread"]
    await respond(weaker, renewed, "eve", roles=["finance"])
    assert await environment.descriptions() == []


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
        # What it has left is due again.
        clock.advance(seconds=2)
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
