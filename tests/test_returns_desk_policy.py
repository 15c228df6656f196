"""The clauses of the returns desk's policy that code can hold: done on one side of the border, and refused on the other.

The calls go through the engine to the real server of the example.
"""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graph_agent.analysis.questions import Answer, prove
from graph_agent.clock import ManualClock
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.decision import AgentDecision
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.testing import calls, open_installation, says
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.served_policy import ServedPolicy
from tests.returns_desk import CONDITIONS, CONSTITUTION, FOLDER, TODAY, data_of, open_desk

NOW = datetime(TODAY.year, TODAY.month, TODAY.day, 9, tzinfo=UTC)
LAST_DAY = datetime(2026, 12, 8, 23, 59, 59, tzinfo=UTC)
"""The end of the thirtieth day after the delivery of FH-2031."""
CUSTOMERS = {
    "ines": {"email": "ines.karlsen@example.com", "postcode": "24103"},
    "tomas": {"email": "tomas.brandl@example.org", "postcode": "80331"},
    "maud": {"email": "maud.okafor@example.net", "postcode": "50667"},
}
Prepare = Callable[[McpToolExecutor], Awaitable[object]]


class Model(RequestAdapter):
    """Requests one call in each round, and keeps what it was answered."""

    model = "requests"

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[LLMResponse] = []
        self.answers: list[Any] = []

    async def respond(self, request: LLMRequest) -> LLMResponse:
        self.answers = [one.function_response for one in request.messages if one.function_response is not None]
        return self.requests.pop(0) if self.requests else says("That is all.")


@dataclass(frozen=True)
class Asked:
    """A call, and what has happened before it."""

    tool: str
    arguments: dict[str, Any]
    customer: str | None = "ines"
    seen: str | None = "FH-2087"
    at: datetime = NOW
    prepare: Prepare | None = None

    async def outcome(self) -> str:
        """Return "done", or the reason why the call was refused."""
        model = Model()
        async with (
            open_desk() as desk,
            open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS, clock=ManualClock(self.at)) as client,
        ):
            if self.prepare is not None:
                await self.prepare(desk)
            model.requests += [] if self.customer is None else [calls("find_customer", **CUSTOMERS[self.customer])]
            model.requests += [] if self.seen is None else [calls("get_order", order_id=self.seen)]
            await client.send("good morning")
            assert all(one.response["success"] for one in model.answers)
            model.requests.append(calls(self.tool, **self.arguments))
            decision = (await client.send("please")).decision
            if decision.pending_action is not None:
                decision = (await client.send("yes")).decision
            return _outcome(decision, model)


def _outcome(decision: AgentDecision, model: Model) -> str:
    if decision.effects:
        return "done"
    answer = model.answers[-1].response
    return "done" if answer["success"] else str(answer["error"])


def cancel(order: str, **known: Any) -> Asked:
    return Asked("cancel_order", {"order_id": order}, **known)


def send(order: str, **known: Any) -> Asked:
    address = {"street": "Holm 1", "postcode": "24937", "city": "Flensburg"}
    return Asked("change_address", {"order_id": order, **address}, **known)


def change(order: str, items: Sequence[str], skus: Sequence[str], **known: Any) -> Asked:
    return Asked("change_items", {"order_id": order, "item_ids": items, "new_skus": skus}, **known)


def exchange(order: str, items: Sequence[str], skus: Sequence[str], **known: Any) -> Asked:
    return Asked("exchange_items", {"order_id": order, "item_ids": items, "new_skus": skus}, **known)


def give_back(order: str, item: str, to: str = "card-104", **known: Any) -> Asked:
    return Asked("return_items", {"order_id": order, "item_ids": [item], "refund_to": to}, **known)


def credit(amount: float, order: str = "FH-2079", **known: Any) -> Asked:
    return Asked("give_store_credit", {"order_id": order, "amount": amount, "reason": "late"}, **known)


def mail(reference: str, order: str = "FH-2079", **known: Any) -> Asked:
    return Asked("send_mail", {"order_id": order, "reference": reference, "text": "We are sorry."}, **known)


def find(named: str, **known: Any) -> Asked:
    return Asked("find_customer", CUSTOMERS[named], **known)


def look(order: str, **known: Any) -> Asked:
    return Asked("get_order", {"order_id": order}, **known)


def made(tool: str, **arguments: Any) -> Prepare:
    """Return what makes a change in the shop before the conversation."""
    return lambda desk: data_of(desk, tool, **arguments)


WRITTEN = made("send_mail", order_id="FH-2079", reference="late-parcel", text="It is late.")
LANTERN, BOTH = ["2087-1"], ["2087-1", "2087-2"]
CHANGED = made("change_items", order_id="FH-2087", item_ids=["2087-2"], new_skus=["ROP-25"])
RETURNED = made("return_items", order_id="FH-2031", item_ids=["2031-1"], refund_to="card-104")
EXCHANGED = made("exchange_items", order_id="FH-2031", item_ids=["2031-1"], new_skus=["KET-2L"])

CLAUSES: list[tuple[str, list[Asked], list[Asked]]] = [
    (
        "find the customer first",
        [look("FH-2087", seen=None), cancel("FH-2087")],
        [look("FH-2087", customer=None, seen=None), cancel("FH-2087", customer=None, seen=None)],
    ),
    ("one conversation is about one customer", [find("ines"), find("tomas", customer=None, seen=None)], [find("tomas")]),
    (
        "only the orders of the customer who was found",
        [look("FH-2079"), Asked("list_mails", {"order_id": "FH-2079", "reference": "late-parcel"})],
        [look("FH-2088"), Asked("list_mails", {"order_id": "FH-2088", "reference": "late-parcel"})],
    ),
    (
        "nothing about the order of somebody else",
        [cancel("FH-2088", customer="tomas", seen="FH-2088")],
        [cancel("FH-2088"), credit(5.0, "FH-2088"), send("FH-2088"), mail("late-parcel", "FH-2088"), cancel("FH-0000")],
    ),
    ("look at the order first", [cancel("FH-2087")], [cancel("FH-2087", seen=None)]),
    ("only a pending order can be cancelled", [cancel("FH-2087")], [cancel("FH-2079"), cancel("FH-2031")]),
    ("only a pending order can be sent to another address", [send("FH-2087")], [send("FH-2079"), send("FH-2031")]),
    (
        "only items of a pending order can be changed",
        [change("FH-2087", LANTERN, ["LAN-ZIN"])],
        [change("FH-2079", ["2079-1"], ["BLA-OCH"]), change("FH-2031", ["2031-2"], ["LAN-BRA"])],
    ),
    (
        "items can be changed once for each order",
        [change("FH-2087", LANTERN, ["LAN-ZIN"])],
        [change("FH-2087", LANTERN, ["LAN-ZIN"], prepare=CHANGED)],
    ),
    ("only what has arrived can be returned", [give_back("FH-2031", "2031-1")], [give_back("FH-2079", "2079-1")]),
    (
        "only what has arrived can be exchanged",
        [exchange("FH-2031", ["2031-2"], ["LAN-BRA"])],
        [exchange("FH-2079", ["2079-1"], ["BLA-OCH"]), exchange("FH-2087", LANTERN, ["LAN-ZIN"])],
    ),
    (
        "within thirty days of the delivery",
        [give_back("FH-2031", "2031-1", at=LAST_DAY), exchange("FH-2031", ["2031-2"], ["LAN-BRA"], at=LAST_DAY)],
        [
            give_back("FH-2031", "2031-1", at=LAST_DAY + timedelta(seconds=1)),
            exchange("FH-2031", ["2031-2"], ["LAN-BRA"], at=LAST_DAY + timedelta(seconds=1)),
            give_back("FH-1954", "1954-1", "card-131", customer="maud", seen="FH-1954"),
        ],
    ),
    (
        "the money goes to the payment method of the order or to store credit",
        [give_back("FH-2031", "2031-1"), give_back("FH-2031", "2031-1", "credit-104")],
        [give_back("FH-2031", "2031-1", to) for to in ("card-131", "transfer-117", "credit-117", "card-105")],
    ),
    (
        "an item that is on its way back cannot be returned or exchanged again",
        [give_back("FH-2031", "2031-2", prepare=RETURNED), exchange("FH-2031", ["2031-2"], ["LAN-BRA"], prepare=EXCHANGED)],
        [
            give_back("FH-2031", "2031-1", prepare=RETURNED),
            give_back("FH-2031", "2031-1", prepare=EXCHANGED),
            exchange("FH-2031", ["2031-1"], ["KET-2L"], prepare=RETURNED),
        ],
    ),
    (
        "only items of the order",
        [change("FH-2087", BOTH, ["LAN-ZIN", "ROP-25"]), give_back("FH-2031", "2031-1")],
        [
            change("FH-2087", ["2090-1"], ["LAN-ZIN"]),
            give_back("FH-2031", "2087-1"),
            exchange("FH-2031", ["2031-2", "2079-1"], ["LAN-BRA", "KET-2L"]),
        ],
    ),
    (
        "one new variant for each item",
        [change("FH-2087", BOTH, ["LAN-ZIN", "ROP-25"]), exchange("FH-2031", ["2031-2"], ["LAN-BRA"])],
        [
            change("FH-2087", BOTH, ["LAN-ZIN"]),
            change("FH-2087", LANTERN, ["LAN-ZIN", "ROP-25"]),
            exchange("FH-2031", ["2031-1", "2031-2"], ["LAN-BRA"]),
        ],
    ),
    (
        "never another product",
        [change("FH-2087", LANTERN, ["LAN-ZIN"]), exchange("FH-2031", ["2031-2"], ["LAN-BRA"])],
        [
            change("FH-2087", LANTERN, ["KET-1L"]),
            exchange("FH-2031", ["2031-2"], ["ROP-10"]),
            change("FH-2087", LANTERN, ["?"]),
        ],
    ),
    (
        "what is sold out cannot be chosen",
        [change("FH-2087", LANTERN, ["LAN-ZIN"]), exchange("FH-2031", ["2031-2"], ["LAN-BRA"])],
        [change("FH-2087", LANTERN, ["LAN-BLK"]), exchange("FH-2031", ["2031-2"], ["LAN-BLK"])],
    ),
    ("at most 25 euros of store credit a day", [credit(25.0)], [credit(25.01), credit(500.0)]),
    (
        "only customers with a store credit account get store credit",
        [credit(5.0), credit(5.0, "FH-2088", customer="tomas", seen="FH-2088")],
        [credit(5.0, "FH-1954", customer="maud", seen="FH-1954")],
    ),
    (
        "each mail has a reference of its own",
        [mail("late-parcel"), mail("second-letter", prepare=WRITTEN), mail("late-parcel", "FH-2087", prepare=WRITTEN)],
        [mail("late-parcel", prepare=WRITTEN)],
    ),
]


@pytest.mark.parametrize(("clause", "allowed", "refused"), CLAUSES, ids=[clause for clause, _, _ in CLAUSES])
async def test_a_clause_refuses_what_is_beyond_its_border_and_nothing_before_it(
    clause: str, allowed: list[Asked], refused: list[Asked]
) -> None:
    assert [await one.outcome() for one in allowed] == ["done"] * len(allowed)
    for one in refused:
        assert clause in (await one.outcome()).removeprefix("not permitted: ").partition(" (")[0].split("; ")


def test_each_condition_of_the_desk_has_a_clause() -> None:
    names = [line.split('"')[1] for line in CONDITIONS.splitlines() if line.startswith("@id(")]
    assert names[1:] == [clause for clause, _, _ in CLAUSES]
    table = (FOLDER / "README.md").read_text(encoding="utf-8").partition("## Who enforces what")[2]
    assert [name for name in names[1:] if f'"{name}"' not in table] == []


async def test_the_model_reads_which_rule_has_refused_and_not_the_status_of_the_order() -> None:
    assert await cancel("FH-2079").outcome() == "not permitted: only a pending order can be cancelled"


async def test_the_schema_of_store_credit_knows_three_reasons() -> None:
    asked = Asked("give_store_credit", {"order_id": "FH-2079", "amount": 5.0, "reason": "asked nicely"})
    assert "reason" in await asked.outcome()


@pytest.mark.parametrize(
    "asked",
    [
        cancel("FH-2087"),
        send("FH-2087"),
        change("FH-2087", LANTERN, ["LAN-ZIN"]),
        give_back("FH-2031", "2031-1"),
        exchange("FH-2031", ["2031-2"], ["LAN-BRA"]),
    ],
    ids=lambda asked: asked.tool,
)
async def test_each_change_of_an_order_waits_for_a_yes(asked: Asked) -> None:
    model = Model()
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        order = asked.arguments["order_id"]
        model.requests += [calls("find_customer", **CUSTOMERS["ines"]), calls("get_order", order_id=order)]
        await client.send("good morning")
        model.requests.append(calls(asked.tool, **asked.arguments))
        decision = (await client.send("please")).decision
        assert decision.pending_action is not None
        assert decision.effects == []
        decision = (await client.send("no")).decision
        assert decision.effects == []


async def test_an_order_that_leaves_the_shop_after_the_question_is_not_cancelled() -> None:
    model = Model()
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        model.requests += [calls("find_customer", **CUSTOMERS["ines"]), calls("get_order", order_id="FH-2087")]
        await client.send("good morning")
        model.requests.append(calls("cancel_order", order_id="FH-2087"))
        assert (await client.send("please")).decision.pending_action is not None
        await data_of(desk, "cancel_order", order_id="FH-2087")
        decision = (await client.send("yes")).decision
        assert decision.effects == []
        assert "only a pending order can be cancelled" in f"{decision.notices} {decision.reply}".lower()


def test_the_promises_of_the_desk_are_proved_within_ten_seconds_each(tmp_path: Any) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    [command] = [line for line in readme.splitlines() if "policy prove" in line and line.startswith(". ")]
    environment = {"PATH": f"{FOLDER.parents[1] / '.venv' / 'bin'}:/usr/bin:/bin", "GRAPH_AGENT_HOME": str(tmp_path)}
    proved = subprocess.run(
        ["sh", "-c", f"{command} --seconds 10"], cwd=FOLDER.parents[1], env=environment, text=True, capture_output=True
    )
    assert proved.returncode == 0, proved.stderr
    answers = [line.split()[0] for line in proved.stdout.splitlines()]
    assert answers == ["PROVED"] * 10


BREAKS = [
    ("an order that has left the shop is neither cancelled nor changed", "only a pending order can be cancelled"),
    ("nobody changes the order of somebody else", "nothing about the order of somebody else"),
    ("a parcel on its way is neither returned nor exchanged", "only what has arrived can be exchanged"),
    ("no money goes to a card that is not the one of the order", CLAUSES[12][0]),
    ("nothing comes back after forty days", "within thirty days of the delivery"),
    ("items are not changed a second time", "items can be changed once for each order"),
    ("store credit is never more than 25 euros at once", "at most 25 euros of store credit a day"),
]


async def test_a_promise_fails_with_an_example_without_the_condition_that_keeps_it() -> None:
    promises = (FOLDER / "promises.cedar").read_text(encoding="utf-8")
    async with open_desk() as desk:
        served = ServedPolicy(Constitution.parse(CONSTITUTION), desk, seconds=60, conditions=ConditionsFile(CONDITIONS))
        policy = await served.current()
    for promise, condition in BREAKS:
        [one] = [text for text in promises.split("\n\n") if text.startswith(f'@id("{promise}")')]
        [kept] = [text for text in CONDITIONS.split("\n\n") if text.startswith(f'@id("{condition}")')]
        weaker = policy.with_conditions(ConditionsFile(CONDITIONS.replace(kept, "")))
        (found,) = prove(weaker, ConditionsFile(one, "promises.cedar"), seconds=60)
        assert (found.answer, found.is_certain) == (Answer.FAILS, True), found
