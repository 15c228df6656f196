"""A support desk whose tools refuse what is wrong themselves, with calls that only they refuse, and calls that are right.

The calls were written before any rule about them, those of `APART` to be looked at only when the rules were finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from graph_agent.errors import ToolErrorCode
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from tests.recording_desk import RecordingDesk
from tests.scripted_turns import done, failed

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number", "minimum": 0}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


PAYMENTS = {"type": "array", "items": schema(method=TEXT, amount=NUMBER)}
FLIGHTS = {"type": "array", "items": schema(flight=TEXT, date=TEXT)}
LINES = {"type": "array", "items": schema(sku=TEXT, quantity=COUNT)}
READS: Mapping[str, str] = {"get_order": "order", "get_customer": "customer", "get_product": "product", "get_flight": "flight"}
TOOLS: Mapping[str, dict[str, Any]] = {
    **{tool: schema(**{name: TEXT}) for tool, name in READS.items() if tool != "get_flight"},
    "get_flight": schema(flight=TEXT, date=TEXT),
    "pay_order": schema(order=TEXT, method=TEXT, amount=NUMBER),
    "split_payment": schema(order=TEXT, payments=PAYMENTS),
    "refund": schema(order=TEXT, method=TEXT, amount=NUMBER),
    "add_item": schema(order=TEXT, product=TEXT, quantity=COUNT, amount=NUMBER),
    "change_items": schema(order=TEXT, product=TEXT, items=TEXTS, new_items=TEXTS, method=TEXT),
    "buy": schema(customer=TEXT, lines=LINES, method=TEXT, amount=NUMBER),
    "book": schema(
        customer=TEXT, flights=FLIGHTS, passengers=TEXTS, bags=COUNT, insurance={"type": "boolean"}, payments=PAYMENTS
    ),
    "cancel": schema(order=TEXT, reason=TEXT),
    "use_voucher": schema(customer=TEXT, order=TEXT, voucher=TEXT),
}
DECLARATIONS: Final = tuple(ToolDeclaration(name=name, description=name, parameters=one) for name, one in TOOLS.items())
BAG, INSURANCE = 50, 30


def _tables() -> dict[str, dict[str, Any]]:
    def order(status: str, total: float, method: str, **items: str) -> dict[str, Any]:
        listed = [{"item": name, "product": product} for name, product in items.items()]
        return {"status": status, "customer": "ann", "total": total, "paid_with": method, "items": listed}

    def variant(item: str, price: float, *, stock: int = 9) -> dict[str, Any]:
        return {"item": item, "price": price, "stock": stock}

    return {
        "get_order": {
            "W1": order("pending", 120.5, "card_1", i1="lamp"),
            "W2": order("delivered", 80, "gift_2", i3="mug", i4="mug"),
            "W3": order("sent", 40, "card_1", i5="mug"),
        },
        "get_customer": {
            "ann": {
                "methods": [
                    {"id": "card_1", "kind": "card"},
                    {"id": "gift_2", "kind": "gift", "balance": 95.25},
                    {"id": "gift_3", "kind": "gift", "balance": 8},
                ],
                "vouchers": [{"id": "v1", "state": "open", "from": 100}, {"id": "v2", "state": "used", "from": 10}],
            }
        },
        "get_product": {
            "lamp": {
                "price": 60.25,
                "stock": 5,
                "variants": [variant("i1", 60.25), variant("i2", 75), variant("i6", 60, stock=0)],
            },
            "mug": {"price": 20, "stock": 100, "variants": [variant("i3", 20), variant("i4", 20), variant("i5", 18.5)]},
        },
        "get_flight": {"F1": {"price": 110, "seats": 4}, "F2": {"price": 95, "seats": 2}},
    }


@dataclass
class SupportDesk(RecordingDesk):
    """A `ToolServer`. Its changes check everything themselves, and change nothing here."""

    tables: dict[str, dict[str, Any]] = field(default_factory=_tables)

    def get_available_tools(self) -> list[str]:
        return [*TOOLS]

    def declarations(self) -> list[ToolDeclaration]:
        return [*DECLARATIONS]

    def traits(self, tool_name: str) -> ToolTraits:
        return ToolTraits(title=tool_name, read_only=tool_name in READS)

    def perform(self, tool_name: str, given: dict[str, Any]) -> ToolResult:
        if tool_name in READS:
            found = self.tables[tool_name].get(given[READS[tool_name]])
            return failed(ToolErrorCode.NOT_FOUND, "there is no such object") if found is None else done(found)
        why = self._problem(tool_name, given)
        return done({"ok": True}) if why is None else failed(ToolErrorCode.TOOL_REFUSED, why)

    @property
    def changes(self) -> list[str]:
        """The changes that were sent."""
        return [tool for tool, _ in self.sent if tool not in READS]

    def _problem(self, tool_name: str, given: dict[str, Any]) -> str | None:
        """Return why a change is refused."""
        order, product = (
            self.tables["get_order"].get(given.get("order", "")),
            self.tables["get_product"].get(given.get("product", "")),
        )
        match tool_name:
            case "pay_order":
                if order is None or order["status"] != "pending":
                    return "the order is not pending"
                return (
                    "not the total" if given["amount"] != order["total"] else self._unpayable(given["method"], given["amount"])
                )
            case "split_payment":
                if order is None or _total(given["payments"]) != _exact(order["total"]):
                    return "the payments do not add up"
                return self._unpayable_by(given["payments"])
            case "refund":
                if order is None or order["status"] != "delivered" or order["paid_with"] != given["method"]:
                    return "not delivered, or not paid with this"
                return "more than was paid" if given["amount"] > order["total"] else None
            case "add_item":
                if order is None or product is None or order["status"] != "pending" or product["stock"] < given["quantity"]:
                    return "not pending, or not in stock"
                due = _exact(product["price"]) * given["quantity"]
                return "not price times quantity" if due != _exact(given["amount"]) else None
            case "change_items":
                return self._unchangeable(order, product, given)
            case "buy":
                products = [(self.tables["get_product"].get(one["sku"]), one["quantity"]) for one in given["lines"]]
                if any(one is None or one["stock"] < number for one, number in products):
                    return "not in stock"
                due = sum((_exact(one["price"]) * number for one, number in products if one), Decimal(0))
                return "not the price" if due != _exact(given["amount"]) else self._unpayable(given["method"], given["amount"])
            case "book":
                return self._unbookable(given)
            case "cancel":
                return "the order is not pending" if order is None or order["status"] != "pending" else None
        vouchers = [one for one in self.tables["get_customer"]["ann"]["vouchers"] if one["id"] == given["voucher"]]
        if order is None or not vouchers or vouchers[0]["state"] != "open" or vouchers[0]["from"] > order["total"]:
            return "the voucher is not valid for this order"
        return None

    def _unpayable(self, method: str, amount: float) -> str | None:
        found = [one for one in self.tables["get_customer"]["ann"]["methods"] if one["id"] == method]
        if not found:
            return "no such payment method"
        return "the balance is too low" if found[0].get("balance", amount) < amount else None

    def _unpayable_by(self, payments: list[dict[str, Any]]) -> str | None:
        return next(filter(None, (self._unpayable(one["method"], one["amount"]) for one in payments)), None)

    def _unchangeable(self, order: Any, product: Any, given: dict[str, Any]) -> str | None:
        if order is None or product is None or order["status"] != "pending":
            return "the order is not pending"
        variants = {one["item"]: one for one in product["variants"]}
        if any(one not in variants or not variants[one]["stock"] for one in given["new_items"]):
            return "another product, or not in stock"
        return None if {*given["items"]} <= {one["item"] for one in order["items"]} else "not an item of the order"

    def _unbookable(self, given: dict[str, Any]) -> str | None:
        flights = [self.tables["get_flight"].get(one["flight"]) for one in given["flights"]]
        people = len(given["passengers"])
        if any(one is None or one["seats"] < people for one in flights):
            return "not enough seats"
        due = (
            sum(one["price"] for one in flights if one) * people + BAG * given["bags"] + INSURANCE * people * given["insurance"]
        )
        return self._unpayable_by(given["payments"]) if _total(given["payments"]) == due else "the payments do not add up"


def _exact(value: float) -> Decimal:
    return Decimal(str(value))


def _total(payments: list[dict[str, Any]]) -> Decimal:
    return sum((_exact(one["amount"]) for one in payments), Decimal(0))


def _split(**amounts: float) -> list[dict[str, Any]]:
    return [{"method": name, "amount": amount} for name, amount in amounts.items()]


def _lines(**quantities: int) -> list[dict[str, Any]]:
    return [{"sku": name, "quantity": quantity} for name, quantity in quantities.items()]


def _call(tool: str, **given: Any) -> FunctionCall:
    return FunctionCall(name=tool, arguments=given)


def _book(
    payments: list[dict[str, Any]], *flights: str, people: int = 1, bags: int = 0, insurance: bool = False
) -> FunctionCall:
    return _call(
        "book",
        customer="ann",
        flights=[{"flight": one, "date": "2026-05-20"} for one in flights],
        passengers=[f"person {number}" for number in range(people)],
        bags=bags,
        insurance=insurance,
        payments=payments,
    )


WRONG: Final = (
    _call("pay_order", order="W1", method="gift_2", amount=120.5),
    _call("pay_order", order="W1", method="card_9", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=60, gift_2=60)),
    _call("refund", order="W3", method="card_1", amount=40),
    _call("add_item", order="W1", product="mug", quantity=3, amount=50),
    _call("change_items", order="W1", product="lamp", items=["i1"], new_items=["i6"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(lamp=1, mug=2), method="card_1", amount=100),
    _book(_split(card_1=205), "F1", "F2", people=2),
    _call("use_voucher", customer="ann", order="W1", voucher="v2"),
)
"""Calls that only the tools refuse, for the rules to be written by."""
APART: Final = (
    _call("pay_order", order="W1", method="gift_3", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=110.5, gift_3=10)),
    _call("split_payment", order="W2", payments=_split(gift_2=80.01)),
    _call("refund", order="W2", method="gift_2", amount=80.5),
    _call("add_item", order="W1", product="lamp", quantity=6, amount=361.5),
    _call("change_items", order="W1", product="lamp", items=["i3"], new_items=["i2"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(mug=5), method="gift_2", amount=100),
    _book(_split(card_1=140), "F1", bags=1),
    _book(_split(card_1=285), "F2", people=3),
    _call("use_voucher", customer="ann", order="W2", voucher="v1"),
)
"""Further calls that only the tools refuse."""
RIGHT: Final = (
    _call("pay_order", order="W1", method="card_1", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=30.25, gift_2=90.25)),
    _call("refund", order="W2", method="gift_2", amount=80),
    _call("add_item", order="W1", product="lamp", quantity=2, amount=120.5),
    _call("change_items", order="W1", product="lamp", items=["i1"], new_items=["i2"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(lamp=1, mug=2), method="card_1", amount=100.25),
    _book(_split(card_1=410), "F1", "F2", people=2),
    _book(_split(card_1=160, gift_2=30), "F1", bags=1, insurance=True),
    _call("use_voucher", customer="ann", order="W1", voucher="v1"),
)
"""Calls that the tools accept."""
