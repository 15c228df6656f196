"""Records of three kinds of businesses, with ordinary use and a planted excess: seeded, and written before the suggestions.

Each decision is the JSON of a record, as far as suggestions read it, with a mark if its last call is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.policy.cedar_shop import ShopTool, schema

TEXT: dict[str, Any] = {"type": "string"}
START = datetime(2026, 9, 7, tzinfo=UTC)
"""A Monday."""
DAYS = 56
EXCESS = 0.02
KINDS = ("too large", "wrong host", "wrong hour", "wrong order")

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Business:
    """The tools and the use of one business."""

    name: str
    tools: tuple[ShopTool, ...]
    users: int
    roles: tuple[str, ...]
    open_hours: tuple[int, int]
    ordinary: Callable[[Random], list[Call]]
    """Returns the calls of one message, in their order."""
    planted: Callable[[Random, str], list[Call]]
    """Returns the calls of a message with an excess of a kind in its last call."""


@dataclass(frozen=True)
class Made:
    """A decision of a business. `planted` is the kind of the excess in its last call; None if it is ordinary."""

    record: dict[str, Any]
    planted: str | None


def decisions(business: Business, count: int, seed: int, *, prefix: str = "d") -> Iterator[Made]:
    """Yield `count` decisions, oldest first."""
    random = Random(f"{business.name} {seed}")
    first, last = business.open_hours
    kinds = [random.choice(KINDS) if random.random() < EXCESS else None for _ in range(count)]
    times = []
    for kind in kinds:
        day = START + timedelta(days=random.choice([one for one in range(DAYS) if one % 7 < 5]))
        hour = random.randrange(first, last)
        if kind == "wrong hour":
            hour = random.choice([one for one in range(24) if one < first - 2 or one >= last + 2])
        times.append(day + timedelta(hours=hour, seconds=random.randrange(3600)))
    for number, (at, kind) in enumerate(sorted(zip(times, kinds, strict=True), key=lambda one: one[0])):
        # Some users do much, most a little.
        user = f"u{min(int(random.expovariate(5 / business.users)), business.users - 1)}"
        calls = business.ordinary(random) if kind in (None, "wrong hour") else business.planted(random, kind)
        yield Made(_record(f"{prefix}{number:06}", user, business.roles[hash_of(user) % len(business.roles)], at, calls), kind)


def hash_of(user: str) -> int:
    return int(user[1:]) * 7 + 3


def _record(name: str, user: str, role: str, at: datetime, calls: list[Call]) -> dict[str, Any]:
    moment = at.isoformat().replace("+00:00", "Z")
    return {
        "header": {
            "decision_id": name,
            "context": {"user_id": user, "conversation_id": f"c-{name}", "message": "", "roles": [role]},
            "started_at": moment,
        },
        "invocations": [
            {
                "sequence": sequence,
                "tool_name": tool,
                "parameters": arguments,
                "disposition": "executed",
                "success": True,
                "invoked_at": moment,
            }
            for sequence, (tool, arguments) in enumerate(calls, 1)
        ],
    }


def _id(random: Random) -> str:
    return f"{random.randrange(10**8):08}"


# A shop: refunds after the order was read, mails to customers at a few hosts.

_SHOP_TOOLS = (
    ShopTool("read_order", schema("order", order=TEXT), reads=True),
    ShopTool(
        "refund",
        schema("order", "amount", order=TEXT, amount={"type": "integer", "minimum": 0}, reason={"type": "string"}),
    ),
    ShopTool("mail", schema("to", "text", to={"type": "array", "items": TEXT}, text=TEXT), "mail"),
)
_HOSTS = ("example.com", "shop.example", "partner.example")


def _amount(random: Random) -> int:
    return max(1, round(random.lognormvariate(3.4, 0.5)))


def _mail(random: Random, host: str) -> Call:
    people = random.choice((1, 1, 1, 2, 3))
    return "mail", {"to": [f"p{_id(random)}@{host}" for _ in range(people)], "text": "Your order is on its way."}


def _refund(order: str, amount: int, random: Random) -> Call:
    return "refund", {"order": order, "amount": amount, "reason": random.choice(("late", "damaged", "other"))}


def _shop(random: Random) -> list[Call]:
    order = _id(random)
    if random.random() < 0.5:
        return [("read_order", {"order": order}), _refund(order, _amount(random), random)]
    return [("read_order", {"order": order}), _mail(random, random.choice(_HOSTS))]


def _shop_excess(random: Random, kind: str) -> list[Call]:
    order = _id(random)
    if kind == "too large":
        return [("read_order", {"order": order}), _refund(order, random.randrange(300, 5000), random)]
    if kind == "wrong host":
        return [("read_order", {"order": order}), _mail(random, f"evil{random.randrange(40)}.test")]
    return [_refund(order, _amount(random), random)]


# A bank's back office: transfers after the account was checked, decimals, callbacks to web addresses.

_BANK_TOOLS = (
    ShopTool("check_account", schema("iban", iban=TEXT), "bank", reads=True),
    ShopTool(
        "transfer",
        schema("iban", "amount", "currency", iban=TEXT, amount={"type": "number", "minimum": 0}, currency=TEXT),
        "bank",
    ),
    ShopTool("notify", schema("url", "lines", url=TEXT, lines={"type": "array", "items": TEXT}), "web"),
)


def _transfer(random: Random, amount: float) -> Call:
    return "transfer", {"iban": f"XX{_id(random)}", "amount": amount, "currency": random.choice(("EUR", "EUR", "USD", "CHF"))}


def _notify(random: Random, host: str) -> Call:
    return "notify", {"url": f"https://{host}/hook/{_id(random)}", "lines": ["x"] * random.randrange(1, 6)}


def _bank(random: Random) -> list[Call]:
    check: Call = ("check_account", {"iban": f"XX{_id(random)}"})
    if random.random() < 0.6:
        return [check, _transfer(random, round(random.uniform(5, 900), 2))]
    return [check, _notify(random, random.choice(("hooks.bank.example", "ledger.bank.example")))]


def _bank_excess(random: Random, kind: str) -> list[Call]:
    check: Call = ("check_account", {"iban": f"XX{_id(random)}"})
    if kind == "too large":
        return [check, _transfer(random, round(random.uniform(2000, 90_000), 2))]
    if kind == "wrong host":
        return [check, _notify(random, f"x{random.randrange(40)}.paste.test")]
    return [_transfer(random, round(random.uniform(5, 900), 2))]


# Operations of machines: a restart after the status was read, few hosts, small counts.

_OPS_TOOLS = (
    ShopTool("status", schema("cluster", cluster=TEXT), "ops", reads=True),
    ShopTool(
        "scale",
        schema(
            "cluster",
            "replicas",
            cluster=TEXT,
            replicas={"type": "integer", "minimum": 0},
            options=schema(drain={"type": "boolean"}),
        ),
        "ops",
    ),
    ShopTool("fetch", schema("source", source=TEXT, megabytes={"type": "integer"}), "ops"),
)


def _scale(random: Random, replicas: int) -> Call:
    arguments: dict[str, Any] = {"cluster": random.choice(("north", "south", "west")), "replicas": replicas}
    return "scale", arguments | ({"options": {"drain": True}} if random.random() < 0.3 else {})


def _fetch(random: Random, host: str, megabytes: int) -> Call:
    return "fetch", {"source": f"https://{host}/{_id(random)}", "megabytes": megabytes}


def _ops(random: Random) -> list[Call]:
    status: Call = ("status", {"cluster": random.choice(("north", "south", "west"))})
    if random.random() < 0.5:
        return [status, _scale(random, random.randrange(1, 13))]
    return [status, _fetch(random, random.choice(("mirror.ops.example", "cdn.ops.example")), random.randrange(1, 400))]


def _ops_excess(random: Random, kind: str) -> list[Call]:
    status: Call = ("status", {"cluster": "north"})
    if kind == "too large":
        if random.random() < 0.5:
            return [status, _scale(random, random.randrange(40, 500))]
        return [status, _fetch(random, "cdn.ops.example", random.randrange(900, 20_000))]
    if kind == "wrong host":
        return [status, _fetch(random, f"m{random.randrange(40)}.attic.test", random.randrange(1, 400))]
    return [_scale(random, random.randrange(1, 13))]


BUSINESSES = (
    Business("shop", _SHOP_TOOLS, 60, ("support", "manager"), (8, 18), _shop, _shop_excess),
    Business("bank", _BANK_TOOLS, 25, ("clerk",), (7, 17), _bank, _bank_excess),
    Business("operations", _OPS_TOOLS, 40, ("operator", "lead"), (6, 20), _ops, _ops_excess),
)
