"""The desk of a shop: one small domain for tests of rules, models and front ends, whose data a test sets and reads.

desk = OrderDesk()
model = [calls("cancel_order", order_id="W1")]
async with open_installation(desk, OrderDesk.CONSTITUTION, model) as client:
    await client.send("cancel W1")
    await client.send("yes")
assert desk.orders["W1"]["status"] == "cancelled"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.ports import SentCall
from graph_agent.tools.functions import FunctionTools

_NO_LEDGER = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")
_NO_OBJECT = "There is no such object."
_NOT_FOUND = ToolResult.failed(ToolErrorCode.NOT_FOUND, _NO_OBJECT)
_NOT_DONE = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "It was not done, and will not be.")

_UNDO = "(undone by set_address(order_id = arguments.order_id, address = order.address.street) for 2 hours)"
_CONSTITUTION = f"""You are the desk of a shop.

## Available Tools
- get_order: Get order (reads)
- get_customer: Get customer (reads)
- get_product: Get product (reads)
- find_customer: Find customer (reads)
- cancel_order: Cancel order (requires confirmation)
- return_items: Return items (requires confirmation)
- exchange: Exchange items (requires confirmation)
- refund: Refund (requires confirmation)
- set_address: Change the address {_UNDO}
- add_note: Add a note (undone by delete_note(note_id = result.note.id) for 2 hours)
- delete_note: Delete a note (requires confirmation)
- send_mail: Send a mail (requires confirmation)

## Facts
- order: get_order(order_id = arguments.order_id)
"""


@dataclass
class Item:
    """A line of an exchange."""

    product_id: str


def _orders() -> dict[str, dict[str, Any]]:
    return {
        "W1": {
            "id": "W1",
            "status": "pending",
            "customer_id": "u1",
            "payments": [{"method": "card_1"}],
            "total": 25.5,
            "address": {"street": "Elm 1"},
        },
        "W2": {
            "id": "W2",
            "status": "delivered",
            "customer_id": "u1",
            "payments": [{"method": "gift_1"}],
            "total": 5,
            "address": {"street": "Oak 2"},
        },
    }


def _customers() -> dict[str, dict[str, Any]]:
    return {
        "u1": {"name": "Ann", "mail": "ann@example.com", "methods": {"a": {"id": "card_1"}, "b": {"id": "gift_1"}}},
        "u2": {"name": "Bob", "mail": "bob@example.com", "methods": {}},
    }


def _products() -> dict[str, dict[str, Any]]:
    return {"p1": {"available": True, "name": "cup"}, "p2": {"available": False, "name": "hat"}}


@dataclass
class OrderDesk:
    """The tools of the desk, as a `ToolServer`. They check nothing but that an object exists: rules are for you to write."""

    CONSTITUTION: ClassVar[str] = _CONSTITUTION
    """A constitution that grants all tools, and declares the order of a call as a fact."""

    orders: dict[str, dict[str, Any]] = field(default_factory=_orders)
    customers: dict[str, dict[str, Any]] = field(default_factory=_customers)
    products: dict[str, dict[str, Any]] = field(default_factory=_products)
    notes: dict[str, str] = field(default_factory=dict)
    mails: list[str] = field(default_factory=list)
    answers: dict[str, Callable[[dict[str, Any]], ToolResult]] = field(default_factory=dict)
    """Functions that answer the calls of a tool from their arguments, such as with a failure. The tool itself does not run."""
    ledger: bool = False
    """Keep a ledger: a change with the same operation key is made once, and its outcome can be asked for."""
    previewed: set[str] = field(default_factory=set)
    """The changes of an order that the desk describes in the question about them."""
    changed_traits: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Other traits of a tool than those that its function has."""
    before: Callable[[str], None] = field(default=lambda _: None)
    """Called before each call with the name of the tool."""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The calls in their order, as tool and arguments."""
    keys: list[str | None] = field(default_factory=list)
    """The operation keys of the calls that were sent; None for a read."""
    _results: dict[str, ToolResult] = field(default_factory=dict, repr=False)

    def get_order(self, order_id: str) -> dict[str, Any]:
        """Get order (reads)"""
        return deepcopy(_found(self.orders, order_id))

    def get_customer(self, customer_id: str) -> dict[str, Any]:
        """Get customer (reads)"""
        return deepcopy(_found(self.customers, customer_id))

    def get_product(self, product_id: str) -> dict[str, Any]:
        """Get product (reads)"""
        return deepcopy(_found(self.products, product_id))

    def find_customer(self, mail: str) -> dict[str, Any]:
        """Find customer by mail address (reads)"""
        ids = {one["mail"]: customer_id for customer_id, one in self.customers.items()}
        return {"customer_id": _found(ids, mail)}

    def cancel_order(self, order_id: str, reason: str = "") -> dict[str, Any]:
        """Cancel order"""
        del reason  # only rules read it
        return self._change(order_id, status="cancelled")

    def return_items(self, order_id: str, method: str) -> dict[str, Any]:
        """Return items, and pay back by this payment method"""
        del method
        return self._change(order_id, status="returned")

    def exchange(self, order_id: str, items: list[Item]) -> dict[str, Any]:
        """Exchange items"""
        del items
        return self._change(order_id, status="exchanged")

    def refund(self, order_id: str, amount: int) -> dict[str, Any]:
        """Refund an amount of an order"""
        return self._change(order_id, refunded=_found(self.orders, order_id).get("refunded", 0) + amount)

    def set_address(self, order_id: str, address: str) -> dict[str, Any]:
        """Change the address of an order"""
        return self._change(order_id, address={"street": address})

    def add_note(self, text: str, order_id: str = "") -> dict[str, Any]:
        """Add a note, about an order or none"""
        del order_id
        number = next(n for n in range(1, len(self.notes) + 2) if f"n{n}" not in self.notes)
        self.notes[f"n{number}"] = text
        return {"note": {"id": f"n{number}"}}

    def delete_note(self, note_id: str) -> dict[str, Any]:
        """Delete a note"""
        _found(self.notes, note_id)
        del self.notes[note_id]
        return {"note_id": note_id}

    def send_mail(self, text: str) -> dict[str, Any]:
        """Send a mail"""
        self.mails.append(text)
        return {"number": len(self.mails)}

    @property
    def made(self) -> list[str]:
        """The calls in their order, each as its tool and values, such as `set_address W1 Birch 9`; lists are left out."""
        return [_as_text(tool, arguments) for tool, arguments in self.sent]

    @property
    def changes(self) -> list[str]:
        """The part of `made` that does not only read."""
        return [_as_text(tool, arguments) for tool, arguments in self.sent if not _functions().traits(tool).read_only]

    async def start(self) -> bool:
        return True

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in self.declarations()]

    def declarations(self) -> list[ToolDeclaration]:
        return _functions().declarations()

    def traits(self, tool_name: str) -> ToolTraits:
        read_only = bool(_functions().traits(tool_name).read_only)
        declared = {
            "title": tool_name.replace("_", " ").capitalize(),
            "read_only": read_only,
            "ledger": self.ledger and not read_only,
            "preview": tool_name in self.previewed,
        }
        return ToolTraits(**{**declared, **self.changed_traits.get(tool_name, {})})

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:  # noqa: ARG002 (of the port)
        """Run a call; with a ledger, return the result that its operation key has already."""
        key = call.operation_key if call.mutating else None
        if self.ledger and key is not None and key in self._results:
            return self._results[key]
        result = self.call(call.tool_name, call.arguments, key)
        if key is not None and result.success:
            self._results[key] = result
        return result

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:  # noqa: ARG002 (of the port)
        """Return the result of an operation key in the ledger; one without a result can no longer be used."""
        return self._results.setdefault(call.operation_key, _NOT_DONE) if self.ledger else _NO_LEDGER

    async def preview(
        self,
        tool_name: str,  # noqa: ARG002 (of the port)
        parameters: dict[str, Any],
        user_id: str,  # noqa: ARG002 (of the port)
        *,
        deadline: float | None = None,  # noqa: ARG002 (of the port)
    ) -> ToolResult:
        """Describe the order of a change by its status."""
        order = self.orders.get(parameters["order_id"])
        if order is None:
            return _NOT_FOUND
        return ToolResult(success=True, data={"description": f"order {parameters['order_id']} ({order['status']})"})

    def call(self, tool_name: str, arguments: dict[str, Any], key: str | None = None) -> ToolResult:
        """Add a call to `sent`, and return its result, or the answer that a test has set."""
        self.before(tool_name)
        self.sent.append((tool_name, dict(arguments)))
        self.keys.append(key)
        if tool_name in self.answers:
            return self.answers[tool_name](arguments)
        return self.perform(tool_name, arguments)

    def perform(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run the function of a tool."""
        try:
            return ToolResult(success=True, data=getattr(self, tool_name)(**arguments))
        except ToolRefusal as refusal:
            return ToolResult.failed(refusal.code, refusal.sentence)

    def _change(self, order_id: str, **values: Any) -> dict[str, Any]:
        _found(self.orders, order_id).update(values)
        return {"order_id": order_id}


def _found(table: Mapping[str, Any], key: str) -> Any:
    """Return an object. Raises `ToolRefusal` if there is none under this id."""
    if key not in table:
        raise ToolRefusal(_NO_OBJECT, ToolErrorCode.NOT_FOUND)
    return table[key]


def _as_text(tool_name: str, arguments: dict[str, Any]) -> str:
    declared = next((one.parameters["properties"] for one in _functions().declarations() if one.name == tool_name), arguments)
    values = [arguments[name] for name in declared if name in arguments]
    return " ".join([tool_name, *(str(value) for value in values if not isinstance(value, list))])


@cache
def _functions() -> FunctionTools:
    """Return the tools as functions, which declare them. They are the same for each desk, and take milliseconds to read."""
    desk = OrderDesk()
    return FunctionTools(
        desk.get_order,
        desk.get_customer,
        desk.get_product,
        desk.find_customer,
        desk.cancel_order,
        desk.return_items,
        desk.exchange,
        desk.refund,
        desk.set_address,
        desk.add_note,
        desk.delete_note,
        desk.send_mail,
    )
