"""The desk of a small shop as an MCP server with an operation ledger.

    python examples/returns_desk/server.py shop.db

serves the shop in a SQLite file over stdio. A change of an order and its operation key are committed together, so that a
repeated call changes nothing. Store credit and mail are kept by services that know no ledger: one takes a key of its caller,
the other lists what it has sent. The server checks what a shop must never get wrong, whatever its caller says: the status of
an order, the stock, the time for returns, and to where money goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field
from sqlalchemy import Connection, Row, func, insert, select, update
from tables import (  # beside this file
    credits_given,
    customers,
    items,
    mails,
    open_shop,
    orders,
    own_tables,
    payment_methods,
    payments,
    variants,
)

from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.protocol import ResultEnvelope
from graph_agent.ledger.requests import call_result
from graph_agent.ledger.server import LedgerServer, ToolRefusal

RETURN_DAYS = 30
PREVIEW = "order://{order_id}"

OrderId = Annotated[str, Field(pattern=r"^FH-[0-9]{4}$", description="The number of the order, such as FH-2087")]
ItemIds = Annotated[list[str], Field(min_length=1, max_length=10, description="The item_ids of the order")]
Skus = Annotated[
    list[str], Field(min_length=1, max_length=10, description="The sku of the new variant of each item, in the same order")
]
Text = Annotated[str, Field(min_length=1, max_length=100)]
Reference = Annotated[
    str, Field(pattern=r"^[a-z0-9-]{3,40}$", description="What a mail is about, such as late-parcel; no other mail has it")
]
Result = Annotated[CallToolResult, ResultEnvelope]


def build_desk(database: Database, default_user: str | None = None, today: date | None = None) -> LedgerServer:
    """Return the server for the shop in `database`, which is filled if it is empty.

    `today` is the day that all returns are judged by, and the orders of the first day are counted back from; by default the
    real one.
    """
    server = LedgerServer("returns_desk", database, own_tables(), default_user=default_user)

    def day() -> date:
        return today or SystemClock().now().date()

    database.write_now(lambda connection: open_shop(connection, day()))

    @server.read("Find customer")
    def find_customer(connection: Connection, _user: str, email: Text, postcode: Text) -> dict[str, Any]:
        """Find the customer by e-mail address and postal code: name, payment methods and order numbers."""
        found = connection.execute(
            select(customers).where(
                func.lower(customers.c.email) == email.strip().lower(), customers.c.postcode == postcode.strip()
            )
        ).first()
        if found is None:
            raise ToolRefusal("There is no customer with this e-mail address and postal code.")
        own = select(payment_methods).where(payment_methods.c.customer_id == found.customer_id)
        numbers = select(orders.c.order_id).where(orders.c.customer_id == found.customer_id).order_by(orders.c.order_id)
        return {
            "customer_id": found.customer_id,
            "name": found.name,
            "email": found.email,
            "payment_methods": [_payment_method(row) for row in connection.execute(own)],
            "orders": list(connection.execute(numbers).scalars()),
        }

    @server.read("Get order")
    def get_order(connection: Connection, _user: str, order_id: OrderId) -> dict[str, Any]:
        """Get an order: its customer, status, dates, address, items and payment method."""
        order = _order(connection, order_id)
        bought = _items(connection, order_id)
        delivered = order.delivered_on
        return {
            "order_id": order_id,
            "customer_id": order.customer_id,
            "status": order.status,
            "placed_on": str(order.placed_on),
            "shipped_on": order.shipped_on and str(order.shipped_on),
            "delivered_on": delivered and str(delivered),
            "return_until": delivered and str(delivered + timedelta(days=RETURN_DAYS)),
            "items_changed": order.items_changed,
            "address": {"street": order.street, "postcode": order.postcode, "city": order.city},
            "payment_method_id": order.payment_method_id,
            "items": [
                {
                    "item_id": one.item_id,
                    "product": one.product,
                    "option": one.option,
                    "sku": one.sku,
                    "price": _euros(one.price),
                    "state": one.state,
                }
                for one in bought
            ],
            "total": _euros(sum(one.price for one in bought)),
        }

    @server.read("List products")
    def list_products(connection: Connection, _user: str, words: str = "") -> dict[str, Any]:
        """List the products whose name has these words, with price and availability of each variant; all without words."""
        found = select(variants).where(variants.c.product.icontains(words.strip(), autoescape=True))
        products: dict[str, list[dict[str, Any]]] = {}
        for row in connection.execute(found.order_by(variants.c.product, variants.c.sku)):
            one = {"sku": row.sku, "option": row.option, "price": _euros(row.price), "available": row.in_stock > 0}
            products.setdefault(row.product, []).append(one)
        return {"products": [{"product": name, "variants": made} for name, made in products.items()]}

    @server.change("Cancel order", destructive=True, preview=PREVIEW)
    def cancel_order(connection: Connection, _user: str, order_id: OrderId) -> dict[str, Any]:
        """Cancel a pending order: all is paid back to its payment method."""
        order, before = _pending(connection, order_id), _described(connection, order_id)
        bought = _items(connection, order_id)
        _restock(connection, [one.sku for one in bought])
        total = sum(one.price for one in bought)
        _pay(connection, order, order.payment_method_id, total, "cancelled")
        connection.execute(update(orders).where(orders.c.order_id == order_id).values(status="cancelled"))
        return {"order_id": order_id, "status": "cancelled", "refund": _euros(total), "preview": before}

    @server.change("Change address", preview=PREVIEW)
    def change_address(
        connection: Connection, _user: str, order_id: OrderId, street: Text, postcode: Text, city: Text
    ) -> dict[str, Any]:
        """Change the delivery address of a pending order."""
        _pending(connection, order_id)
        address = {"street": street, "postcode": postcode, "city": city}
        connection.execute(update(orders).where(orders.c.order_id == order_id).values(address))
        return {"order_id": order_id, "address": address}

    @server.change("Change items", destructive=True, preview=PREVIEW)
    def change_items(
        connection: Connection, _user: str, order_id: OrderId, item_ids: ItemIds, new_skus: Skus
    ) -> dict[str, Any]:
        """Change items of a pending order to other variants of the same products; possible once for an order."""
        order = _pending(connection, order_id)
        if order.items_changed:
            raise _refused(f"The items of order {order_id} were changed before, and that is possible once.")
        chosen = _chosen(connection, order_id, item_ids)
        difference = 0
        for item, variant in zip(chosen, _new_variants(connection, chosen, new_skus), strict=True):
            difference += item.price - variant.price
            changed = {"sku": variant.sku, "price": variant.price}
            connection.execute(update(items).where(items.c.item_id == item.item_id).values(changed))
        _restock(connection, [one.sku for one in chosen])
        _pay(connection, order, order.payment_method_id, difference, "items changed")
        connection.execute(update(orders).where(orders.c.order_id == order_id).values(items_changed=True))
        return {"order_id": order_id, "refund": _euros(difference), **_receipt(difference, f"{_counted(chosen)}: ")}

    @server.change("Return items", destructive=True, preview=PREVIEW)
    def return_items(
        connection: Connection, _user: str, order_id: OrderId, item_ids: ItemIds, refund_to: Text
    ) -> dict[str, Any]:
        """Take items of a delivered order back. refund_to is the order's payment_method_id, or that of the store credit."""
        order = _returnable(connection, order_id, day())
        chosen = _chosen(connection, order_id, item_ids)
        if refund_to not in {order.payment_method_id, _store_credit(connection, order.customer_id)}:
            raise _refused("The money goes back to the payment method of the order, or to the customer's store credit.")
        total = sum(one.price for one in chosen)
        _pay(connection, order, refund_to, total, "returned")
        connection.execute(update(items).where(items.c.item_id.in_(item_ids)).values(state="returning"))
        return {"order_id": order_id, "refund": _euros(total), **_receipt(total, f"{_counted(chosen)}: ")}

    @server.change("Exchange items", destructive=True, preview=PREVIEW)
    def exchange_items(
        connection: Connection, _user: str, order_id: OrderId, item_ids: ItemIds, new_skus: Skus
    ) -> dict[str, Any]:
        """Exchange items of a delivered order for available variants of the same products."""
        order = _returnable(connection, order_id, day())
        chosen = _chosen(connection, order_id, item_ids)
        new = _new_variants(connection, chosen, new_skus)
        difference = sum(one.price for one in chosen) - sum(one.price for one in new)
        _pay(connection, order, order.payment_method_id, difference, "exchanged")
        connection.execute(update(items).where(items.c.item_id.in_(item_ids)).values(state="exchanging"))
        return {"order_id": order_id, "refund": _euros(difference), **_receipt(difference, f"{_counted(chosen)}: ")}

    @server.preview(PREVIEW)
    def order(connection: Connection, _user: str, order_id: OrderId) -> dict[str, Any]:
        return {"description": _described(connection, order_id)}

    _serve_store_credit(server, database)
    _serve_mail(server, database)
    return server


def _serve_store_credit(server: LedgerServer, database: Database) -> None:
    """Add the tool of a service without a ledger that gives a credit once for each key."""

    @server.tool(title="Give store credit", annotations=_hints(read_only=False))
    async def give_store_credit(
        order_id: OrderId,
        amount: Annotated[float, Field(gt=0, le=500, description="Euros, such as 12.50")],
        reason: Literal["late", "damaged", "wrong item"],
        idempotency_key: Annotated[str, Field(min_length=1, max_length=200)],
    ) -> Result:
        """Give the customer of an order store credit for a mistake of the shop; the same key gives the same credit."""

        def give(connection: Connection) -> dict[str, Any]:
            order = _order(connection, order_id)
            cents = Decimal(str(amount)) * 100
            if cents != int(cents):
                raise _refused("An amount has at most two decimals.")
            asked = {"order_id": order_id, "amount": int(cents), "reason": reason}
            given = {"order_id": order_id, "amount": amount, "reason": reason}
            key = credits_given.c.idempotency_key == idempotency_key
            if (earlier := connection.execute(select(credits_given).where(key)).first()) is not None:
                if earlier._mapping != {"idempotency_key": idempotency_key, **asked}:
                    raise _refused("This key belongs to another credit.")
                return given
            credit = _store_credit(connection, order.customer_id)
            if credit is None:
                raise _refused("This customer has no store credit account.")
            _pay(connection, order, credit, int(cents), reason)
            connection.execute(insert(credits_given), {"idempotency_key": idempotency_key, **asked})
            return given

        return await _answer(database, give)


def _serve_mail(server: LedgerServer, database: Database) -> None:
    """Add the tools of a service without a ledger that sends what it is told to, and lists what it has sent."""

    @server.tool(title="Send mail", annotations=_hints(read_only=False))
    async def send_mail(
        order_id: OrderId, reference: Reference, text: Annotated[str, Field(min_length=1, max_length=2000)]
    ) -> Result:
        """Send a mail about an order to the mail address of its customer."""

        def send(connection: Connection) -> dict[str, Any]:
            order = _order(connection, order_id)
            connection.execute(insert(mails), {"order_id": order_id, "reference": reference, "text": text})
            of_customer = select(customers.c.email).where(customers.c.customer_id == order.customer_id)
            return {"sent_to": connection.execute(of_customer).scalar()}

        return await _answer(database, send)

    @server.tool(title="List mails", annotations=_hints(read_only=True))
    async def list_mails(order_id: OrderId, reference: Reference) -> Result:
        """List the mails that were sent about an order under a reference; all of them are listed."""

        def find(connection: Connection) -> dict[str, Any]:
            sent = select(mails.c.text).where(mails.c.order_id == order_id, mails.c.reference == reference)
            return {"mails": [{"text": text} for text in connection.execute(sent.order_by(mails.c.number)).scalars()]}

        return await _answer(database, find)


async def _answer(database: Database, work: Callable[[Connection], dict[str, Any]]) -> CallToolResult:
    try:
        return call_result(ResultEnvelope.done(**await database.write(work)))
    except ToolRefusal as refusal:
        return call_result(ResultEnvelope.failed(refusal.code, refusal.sentence))


def _hints(*, read_only: bool) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=read_only, destructive_hint=False, idempotent_hint=False, open_world_hint=False)


def _refused(sentence: str) -> ToolRefusal:
    return ToolRefusal(sentence, ToolErrorCode.VALIDATION_ERROR)


def _order(connection: Connection, order_id: str) -> Row[Any]:
    found = connection.execute(select(orders).where(orders.c.order_id == order_id)).first()
    if found is None:
        raise ToolRefusal(f"There is no order {order_id}.", ToolErrorCode.NOT_FOUND)
    return found


def _pending(connection: Connection, order_id: str) -> Row[Any]:
    """Return a pending order. Raises `ToolRefusal` with what its status is instead."""
    order = _order(connection, order_id)
    if order.status != "pending":
        left = f" and left the shop on {order.shipped_on}" if order.status == "shipped" else ""
        raise _refused(f"Order {order_id} is {order.status}{left}; only a pending order can be changed or cancelled.")
    return order


def _returnable(connection: Connection, order_id: str, today: date) -> Row[Any]:
    """Return a delivered order within the time for returns. Raises `ToolRefusal`."""
    order = _order(connection, order_id)
    if order.status != "delivered":
        raise _refused(f"Order {order_id} is {order.status}; only a delivered order can be returned or exchanged.")
    until = order.delivered_on + timedelta(days=RETURN_DAYS)
    if today > until:
        raise _refused(f"Order {order_id} could be returned or exchanged until {until}.")
    return order


def _items(connection: Connection, order_id: str) -> Sequence[Row[Any]]:
    columns = (items, variants.c.product, variants.c.option)
    joined = select(*columns).join(variants, items.c.sku == variants.c.sku).where(items.c.order_id == order_id)
    return connection.execute(joined.order_by(items.c.item_id)).all()


def _chosen(connection: Connection, order_id: str, item_ids: list[str]) -> list[Row[Any]]:
    """Return the items in the order of `item_ids`. Raises `ToolRefusal` for others, and for those that are sent back."""
    bought = {one.item_id: one for one in _items(connection, order_id)}
    if len(set(item_ids)) < len(item_ids) or not bought.keys() >= set(item_ids):
        raise _refused(f"Name items of order {order_id}, each once: {', '.join(bought)}.")
    for item_id in item_ids:
        if bought[item_id].state != "bought":
            raise _refused(f"Item {item_id} is on its way back already.")
    return [bought[item_id] for item_id in item_ids]


def _new_variants(connection: Connection, chosen: list[Row[Any]], skus: list[str]) -> list[Row[Any]]:
    """Return the new variant of each item, and take it from the stock. Raises `ToolRefusal`."""
    if len(skus) != len(chosen):
        raise _refused("Name one new variant for each item.")
    new = []
    for item, sku in zip(chosen, skus, strict=True):
        variant = connection.execute(select(variants).where(variants.c.sku == sku)).first()
        if variant is None or variant.product != item.product or sku == item.sku:
            raise _refused(f"{sku} is not another variant of {item.product}.")
        if variant.in_stock < 1:
            raise _refused(f"{item.product} {variant.option} is sold out.")
        connection.execute(update(variants).where(variants.c.sku == sku).values(in_stock=variants.c.in_stock - 1))
        new.append(variant)
    return new


def _restock(connection: Connection, skus: list[str]) -> None:
    for sku in skus:
        connection.execute(update(variants).where(variants.c.sku == sku).values(in_stock=variants.c.in_stock + 1))


def _store_credit(connection: Connection, customer_id: str) -> str | None:
    """Return the id of the customer's store credit, or None."""
    own = (payment_methods.c.customer_id == customer_id, payment_methods.c.kind == "store_credit")
    return connection.execute(select(payment_methods.c.payment_method_id).where(*own)).scalar()


def _pay(connection: Connection, order: Row[Any], payment_method_id: str, cents: int, reason: str) -> None:
    """Note what the customer gets, or is still to pay if it is negative; store credit changes at once."""
    if cents == 0:
        return
    method = payment_methods.c.payment_method_id == payment_method_id
    row = {"order_id": order.order_id, "payment_method_id": payment_method_id, "amount": cents, "reason": reason}
    connection.execute(insert(payments), row)
    balance = connection.execute(select(payment_methods.c.balance).where(method)).scalar()
    if balance is not None:
        if balance + cents < 0:
            raise _refused(f"The store credit has only {balance / 100:.2f} EUR left.")
        connection.execute(update(payment_methods).where(method).values(balance=balance + cents))


def _payment_method(row: Row[Any]) -> dict[str, Any]:
    balance = {} if row.balance is None else {"balance": _euros(row.balance)}
    return {"payment_method_id": row.payment_method_id, "kind": row.kind, "label": row.label, **balance}


def _described(connection: Connection, order_id: str) -> str:
    bought = _items(connection, order_id)
    return f"order {order_id} ({_order(connection, order_id).status}): {_counted(bought)}"


def _receipt(cents: int, of: str) -> dict[str, str]:
    """Return the receipt: what the call does not say, the names of the items and who pays how much."""
    who = "to the customer" if cents > 0 else "to pay"
    return {"receipt": f"{of}{abs(cents) / 100:.2f} EUR {who}" if cents else f"{of}nothing to pay"}


def _counted(chosen: list[Row[Any]]) -> str:
    return ", ".join(f"{one.product} {one.option}" for one in chosen)


def _euros(cents: int) -> float:
    return cents / 100


if __name__ == "__main__":
    build_desk(Database.open(f"sqlite:///{sys.argv[1]}"), default_user="local").run("stdio")
