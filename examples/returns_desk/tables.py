"""The tables of the shop, and its goods, customers and orders on the first day.

Amounts are whole cents, so that no sum is rounded.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Date, ForeignKey, Integer, MetaData, String, Table, func, insert, select

FIRST_DAY = Path(__file__).with_name("shop.json")

metadata = MetaData()

customers = Table(
    "customers",
    metadata,
    Column("customer_id", String(20), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("email", String(200), nullable=False, unique=True),
    Column("postcode", String(20), nullable=False),
)
payment_methods = Table(
    "payment_methods",
    metadata,
    Column("payment_method_id", String(20), primary_key=True),
    Column("customer_id", ForeignKey("customers.customer_id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("label", String(100), nullable=False),
    Column("balance", Integer),
)
"""`kind` is card, transfer or store_credit; only store credit has a `balance`."""
variants = Table(
    "variants",
    metadata,
    Column("sku", String(30), primary_key=True),
    Column("product", String(100), nullable=False),
    Column("option", String(100), nullable=False),
    Column("price", Integer, nullable=False),
    Column("in_stock", Integer, nullable=False),
)
orders = Table(
    "orders",
    metadata,
    Column("order_id", String(20), primary_key=True),
    Column("customer_id", ForeignKey("customers.customer_id"), nullable=False),
    Column("status", String(20), nullable=False),
    Column("placed_on", Date, nullable=False),
    Column("shipped_on", Date),
    Column("delivered_on", Date),
    Column("street", String(100), nullable=False),
    Column("postcode", String(20), nullable=False),
    Column("city", String(100), nullable=False),
    Column("payment_method_id", ForeignKey("payment_methods.payment_method_id"), nullable=False),
    Column("items_changed", Boolean, nullable=False, default=False),
)
"""`status` is pending, shipped, delivered or cancelled."""
items = Table(
    "items",
    metadata,
    Column("item_id", String(20), primary_key=True),
    Column("order_id", ForeignKey("orders.order_id"), nullable=False),
    Column("sku", ForeignKey("variants.sku"), nullable=False),
    Column("price", Integer, nullable=False),
    Column("state", String(20), nullable=False, default="bought"),
)
"""`state` is bought, returning or exchanging."""
payments = Table(
    "payments",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("order_id", ForeignKey("orders.order_id"), nullable=False),
    Column("payment_method_id", ForeignKey("payment_methods.payment_method_id"), nullable=False),
    Column("amount", Integer, nullable=False),
    Column("reason", String(200), nullable=False),
)
"""The amount paid to the customer (positive), or still to be paid by the customer (negative)."""

credits_given = Table(
    "credits_given",
    metadata,
    Column("idempotency_key", String(200), primary_key=True),
    Column("order_id", ForeignKey("orders.order_id"), nullable=False),
    Column("amount", Integer, nullable=False),
    Column("reason", String(200), nullable=False),
)
mails = Table(
    "mails",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("order_id", ForeignKey("orders.order_id"), nullable=False),
    Column("reference", String(40), nullable=False),
    Column("text", String(2000), nullable=False),
)


def own_tables() -> MetaData:
    """Return a copy of the tables, because each server adds its ledger to them."""
    copied = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(copied)
    return copied


def open_shop(connection: Connection, today: date) -> None:
    """Fill the tables on the first day; afterwards do nothing. Dates of orders are counted back from `today`."""
    if connection.execute(select(func.count()).select_from(customers)).scalar():
        return
    shop = json.loads(FIRST_DAY.read_text(encoding="utf-8"))
    for table in (customers, payment_methods, variants, orders, items):
        connection.execute(insert(table), [_row(values, today) for values in shop[table.name]])


def _row(values: dict[str, Any], today: date) -> dict[str, Any]:
    """Return a row of the file: `"placed_on": 9` is the day nine days ago."""
    dates = {name: today - timedelta(days=ago) for name, ago in values.items() if name.endswith("_on") and ago is not None}
    return values | dates
