"""The grounds that an approver is shown: where each argument comes from, and what the rules read about the call."""

from __future__ import annotations

from typing import Any

from graph_agent.chat.question_view import ApprovalView
from graph_agent.chat.service import ChatService
from graph_agent.cli.questions import text_of
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.facts import ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.sources import Source
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import OrderDesk, says
from tests.chat.environment import Environment
from tests.chat.test_approvals import own, request_of, requests_of, respond, waiting
from tests.desk import CONSTITUTION, ORDER, forbid, policy
from tests.scripted_turns import calls

CANCEL = ("cancel_order", {"order_id": "W2", "reason": "card_1"})
UNSENT = 'context.result has order && context.result.order.status != "sent" && context.approvals.manager >= 1'
FACTS = [ShownFact(name="order", about=("W2",), values={"status": "delivered"})]


def chat_of(environment: Environment, desk: OrderDesk, *script: Any, needs: str = UNSENT, declared: str = ORDER) -> ChatService:
    rules = policy(declared, forbid("a manager cancels", "cancel_order", needs))
    file = ConditionsFile(rules, roles=("finance", "manager"))
    return environment.chat(ScriptedAdapter(list(script)), conditions=file, tools=desk, constitution=CONSTITUTION)


async def view_of(chat: ChatService, request: ApprovalRequest, user: str = "bob") -> ApprovalView:
    return await requests_of(chat).view(request.id, user, ["manager"])


async def test_an_approver_sees_where_arguments_come_from_and_what_the_rules_read(environment: Environment) -> None:
    desk = OrderDesk()
    desk.orders["W-2002"] = desk.orders["W2"]
    cancel = ("cancel_order", {**CANCEL[1], "order_id": "W-2002"})
    chat = chat_of(environment, desk, calls(("get_order", {"order_id": "W1"})), calls(cancel))
    request = request_of(await chat.send("ann", "cancel W-2002, as I said"))
    shown = await view_of(chat, request)
    assert shown.origins == {
        "order_id": "from the requester's words",
        "reason": "not from the requester's words: it stands in a result of 'Get order'",
    }
    assert shown.sources == {"order_id": [Source.USER], "reason": [Source.UNTRUSTED]}
    facts = [one.replace(about=("W-2002",)) for one in FACTS]
    assert (shown.facts, shown.facts_now) == (facts, facts)
    (listed,) = await waiting(chat, "bob", ["manager"])
    assert (listed.origins, listed.facts) == (shown.origins, facts)
    printed = text_of(shown)
    assert "    not from the requester's words: it stands in a result of 'Get order'\n" in printed
    assert 'A server said then: order "W-2002": status = "delivered"\n' in printed
    assert "A server says now" not in printed
    # No more of what was read than the rules name: neither the rest of the order, nor the results of the turn.
    for hidden in ("u1", "gift_1", "25.5", "pending"):
        assert hidden not in shown.model_dump_json()


async def test_facts_of_now_are_shown_beside_those_of_then(environment: Environment, clock: ManualClock) -> None:
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    desk.orders["W2"]["status"] = "sent\u202e"
    shown = await view_of(chat, request)
    assert shown.facts == FACTS
    assert shown.facts_now == [ShownFact(name="order", about=("W2",), values={"status": "sent\u202e"})]
    assert 'A server says now: order "W2": status = "sent‹U+202E›"' in text_of(shown)
    del desk.orders["W2"]
    clock.advance(minutes=1)
    gone = await view_of(chat, request)
    assert gone.facts_now == [ShownFact(name="order", about=("W2",), missing="not found")]
    assert gone.yours is not None
    assert gone.yours.effect == "refused"
    # The requester is shown what was read; nothing is judged for them.
    assert (await view_of(chat, request, "ann")).facts_now is None


async def test_an_answer_is_bound_to_the_facts_and_sources_that_were_shown(environment: Environment) -> None:
    chat = chat_of(environment, OrderDesk(), calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    assert request.replace(facts=()).digest != request.digest
    assert request.replace(sources=None).digest != request.digest
    assert request.replace(by_program=True).digest != request.digest


async def test_sources_and_facts_are_those_of_the_question_and_replay_alike(environment: Environment) -> None:
    """What is said later in the conversation does not become the requester's word for an earlier call."""
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL), says("I see."))
    asked = await chat.send("ann", "cancel W2")
    request = request_of(asked)
    await chat.send("ann", "my reason is card_1", conversation_id=asked.conversation_id)
    assert (await view_of(chat, request)).origins["reason"] == "not from the requester's words: the model wrote it"
    await respond(chat, request)
    (closed,) = await own(chat, "ann")
    assert closed.state == "approved"
    assert closed.facts == FACTS
    for decision_id in (asked.decision_id, str(closed.closing_decision)):
        loaded = await load_from_log(environment.database, decision_id)
        assert (await loaded.replay(Replayer())).identical


async def test_an_argument_of_several_sources_names_each(environment: Environment) -> None:
    exchange = (
        "exchange",
        {"order_id": "W1", "items": [{"product_id": "p1-cup"}, {"product_id": "hat"}, {"product_id": "nil"}]},
    )
    rules = ConditionsFile(policy("", forbid("a manager", "exchange", "context.approvals.manager >= 1")), roles=("manager",))
    script = [calls(("get_product", {"product_id": "p2"})), calls(exchange)]
    chat = environment.chat(ScriptedAdapter(list(script)), conditions=rules, tools=OrderDesk(), constitution=CONSTITUTION)
    request = request_of(await chat.send("ann", "exchange W1 for p1-cup"))
    shown = await view_of(chat, request)
    assert shown.origins["items"] == (
        "only in part from the requester's words: it stands in a result of 'Get product' and the model wrote it"
    )


async def test_what_a_program_calls_is_not_said_to_be_the_requesters_words(environment: Environment) -> None:
    chat = chat_of(environment, OrderDesk())
    answer = await chat.call("ann", [FunctionCall(*CANCEL)])
    request = request_of(answer)
    shown = await view_of(chat, request)
    assert shown.by_program
    assert set(shown.origins.values()) == {"from the requester's program"}
    assert set(shown.named_in_message.values()) == {False}
    assert text_of(shown).splitlines()[1].startswith("ann, with a program, asks for: ")


async def test_a_request_that_is_opened_anew_has_the_facts_of_then(environment: Environment) -> None:
    """The call is approved, its order has changed in a way that the rules still allow, and its object is shown by its facts."""
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    desk.orders["W2"]["status"] = "packed"
    await respond(chat, request)
    (renewed,) = await waiting(chat, "eve", ["manager"])
    assert renewed.facts == [ShownFact(name="order", about=("W2",), values={"status": "packed"})]
    shown = await requests_of(chat).view(renewed.id, "eve", ["manager"])
    assert shown.origins["order_id"] == "from the requester's words"


async def test_an_earlier_message_of_the_conversation_is_a_source_but_is_not_shown(environment: Environment) -> None:
    chat = chat_of(environment, OrderDesk(), says("Noted."), calls(CANCEL))
    first = await chat.send("ann", "my card is card_1, and my secret is hunter2")
    request = request_of(await chat.send("ann", "cancel W2", conversation_id=first.conversation_id))
    shown = await view_of(chat, request)
    assert shown.origins["reason"] == "from the requester's words"
    assert not shown.named_in_message["reason"]
    assert "hunter2" not in shown.model_dump_json()
    assert shown.earlier_messages == []
