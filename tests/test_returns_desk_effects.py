"""Effects at the desk of `examples/returns_desk`: store credit by key, mail by reference, and the undo of an address."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import LLMResponse
from graph_agent.testing import TestClient, calls, open_installation, says
from graph_agent.tools.executor import McpToolExecutor
from tests.chat.lossy_server import LossyServer
from tests.lost_answer import Fault
from tests.returns_desk import CONDITIONS, CONSTITUTION, TODAY, build_desk, data_of, open_desk, result_of

NOW = datetime(TODAY.year, TODAY.month, TODAY.day, 9, tzinfo=UTC)
MAIL = {"order_id": "FH-2079", "reference": "late-parcel", "text": "We are sorry that it is late."}
CREDIT: dict[str, Any] = {"order_id": "FH-2079", "amount": 10.0, "reason": "late"}


@dataclass(frozen=True)
class LossyDesk:
    """The desk behind a connection that loses the answers of one tool."""

    desk: McpToolExecutor
    connection: LossyServer

    async def asked(self, *requested: LLMResponse) -> AgentDecision:
        """Return the decision of a turn with these calls, in the conversation of the customer of FH-2079."""
        model = [
            calls("find_customer", email="ines.karlsen@example.com", postcode="24103"),
            calls("get_order", order_id="FH-2079"),
            says("What can I do?"),
            *requested,
            says("See above."),
        ]
        async with open_installation(self.desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
            await client.send("FH-2079 is late")
            return (await client.send("so what do I get?")).decision

    async def store_credit(self) -> float:
        found = await data_of(self.desk, "find_customer", email="ines.karlsen@example.com", postcode="24103")
        return float(found["payment_methods"][1]["balance"])

    async def mails(self) -> list[dict[str, Any]]:
        found = await data_of(self.desk, "list_mails", order_id="FH-2079", reference="late-parcel")
        return list(found["mails"])


@asynccontextmanager
async def open_lossy_desk(tool_name: str, *faults: Fault) -> AsyncGenerator[LossyDesk]:
    database, connection = Database.open("sqlite://"), LossyServer(tool_name)
    connection.faults.extend(faults)
    try:
        async with (
            connection.serving(build_desk(database)),
            McpToolExecutor(connection.address, trusted=True, timeout=60, start_timeout=60) as desk,
        ):
            yield LossyDesk(desk, connection)
    finally:
        await database.close()


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.CUT_BEFORE])
async def test_a_credit_whose_answer_is_lost_is_sent_again_under_its_key_and_given_once(fault: Fault) -> None:
    async with open_lossy_desk("give_store_credit", fault) as lossy:
        decision = await lossy.asked(calls("give_store_credit", **CREDIT))
        assert decision.effects == ["Give €10.00 of store credit for order FH-2079: late"]
        assert decision.notices == []
        assert lossy.connection.requests == 2
        assert await lossy.store_credit() == 25.0


async def test_a_mail_whose_answer_is_lost_is_found_done_and_sent_once() -> None:
    async with open_lossy_desk("send_mail", Fault.CUT_AFTER) as lossy:
        decision = await lossy.asked(calls("send_mail", **MAIL))
        [effect] = decision.effects
        assert effect.startswith("found done: Send the customer of order FH-2079 a mail (reference late-parcel")
        assert lossy.connection.requests == 1
        assert await lossy.mails() == [{"text": MAIL["text"]}]


async def test_a_mail_that_did_not_arrive_is_not_known_to_be_sent_and_never_sent_again() -> None:
    async with open_lossy_desk("send_mail", Fault.CUT_BEFORE) as lossy:
        decision = await lossy.asked(calls("send_mail", **MAIL))
        assert "known whether this was done: Send the customer of order FH-2079 a mail" in str(decision)
        assert lossy.connection.requests == 1
        assert await lossy.mails() == []


async def test_a_second_mail_under_one_reference_is_refused_so_that_the_first_is_not_taken_for_it() -> None:
    async with open_lossy_desk("send_mail", Fault.NONE, Fault.CUT_BEFORE) as lossy:
        decision = await lossy.asked(calls("send_mail", **MAIL), calls("send_mail", **{**MAIL, "text": "Another one."}))
        assert len(decision.effects) == 1
        assert "Each mail has a reference of its own" in str(decision.notices)
        assert lossy.connection.requests == 1


async def test_a_key_gives_one_credit_and_no_other_one() -> None:
    async with open_lossy_desk("give_store_credit") as lossy:
        given: dict[str, Any] = {**CREDIT, "idempotency_key": "one key"}
        first = await data_of(lossy.desk, "give_store_credit", **given)
        assert await data_of(lossy.desk, "give_store_credit", **given) == first == CREDIT
        other = await result_of(lossy.desk, "give_store_credit", **{**given, "amount": 11.0})
        assert other.error == "This key belongs to another credit."
        assert await lossy.store_credit() == 25.0


HOLM = {"street": "Holm 1", "postcode": "24937", "city": "Flensburg"}


@asynccontextmanager
async def moved(desk: McpToolExecutor, clock: ManualClock) -> AsyncGenerator[tuple[TestClient, str]]:
    """Yield a client whose order FH-2087 was sent to another address, and the decision that did it."""
    model = [
        calls("find_customer", email="ines.karlsen@example.com", postcode="24103"),
        calls("get_order", order_id="FH-2087"),
        says("What can I do?"),
        calls("change_address", order_id="FH-2087", **HOLM),
    ]
    async with open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS, clock=clock) as client:
        await client.send("hello")
        await client.send("send FH-2087 to Holm 1")
        answer = await client.send("yes")
        assert answer.decision.effects == ["Send order FH-2087 to 'Holm 1', '24937' 'Flensburg'"], answer.reply
        yield client, answer.decision_id


async def address_of(desk: McpToolExecutor) -> dict[str, str]:
    return dict((await data_of(desk, "get_order", order_id="FH-2087"))["address"])


async def test_a_change_of_the_address_is_undone_with_what_was_read_before_it() -> None:
    async with open_desk() as desk:
        before = await address_of(desk)
        async with moved(desk, ManualClock(NOW)) as (client, decision_id):
            asked = await client.chat.undo("ann", decision_id)
            assert "Kaistr. 12" in asked.reply
            assert await address_of(desk) == HOLM
            await client.send("yes")
            assert await address_of(desk) == before
            with pytest.raises(ServiceError, match="has undone it already"):
                await client.chat.undo("ann", decision_id)


async def test_an_address_that_somebody_has_changed_since_is_not_overwritten_by_an_undo() -> None:
    async with open_desk() as desk, moved(desk, ManualClock(NOW)) as (client, decision_id):
        await data_of(desk, "change_address", order_id="FH-2087", **{**HOLM, "street": "Holm 2"})
        refused = (await client.chat.undo("ann", decision_id)).decision
        assert "address.street is now 'Holm 2', this change had left it at 'Holm 1'" in refused.notices[0]
        assert (await address_of(desk))["street"] == "Holm 2"


async def test_an_address_is_not_undone_after_half_an_hour_or_when_the_order_is_not_pending_any_more() -> None:
    async with open_desk() as desk:
        clock = ManualClock(NOW)
        async with moved(desk, clock) as (client, decision_id):
            asked = await client.chat.undo("ann", decision_id)
            assert asked.decision.pending_action is not None
            await data_of(desk, "cancel_order", order_id="FH-2087")
            refused = (await client.send("yes")).decision
            assert "only a pending order can be sent to another address" in refused.reply.lower()
            clock.advance(seconds=1801)
            with pytest.raises(ServiceError, match="the time in which it could be undone ended"):
                await client.chat.undo("ann", decision_id)
        assert await address_of(desk) == HOLM
