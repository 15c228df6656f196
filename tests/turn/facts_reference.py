"""An independent reference for facts: random declarations over an order, and what they are and decide by the documentation.

Nothing here uses the package: a path is a list of steps, a condition a function, and the reference walks the JSON itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import prod
from typing import Any, Final

UNKNOWN: Final = "unknown"
"""A fact or a result that cannot be known: a call whose conditions name it is refused."""
ABSENT: Final = "absent"
"""The object does not exist."""

Values = Mapping[str, Any]
"""The value, UNKNOWN or ABSENT of each declared fact."""


class _MissingError(Exception):
    """The JSON does not have what a path names."""


@dataclass(frozen=True)
class Argument:
    """An argument of the call, with which a filter compares, or which is a factor."""

    name: str

    def __str__(self) -> str:
        return f"arguments.{self.name}"


@dataclass(frozen=True)
class Comparison:
    """A comparison of a field with a value in a filter; several of them are joined by `&&` or `||`."""

    field: str
    operator: str
    value: Any

    def __str__(self) -> str:
        return f"@.{self.field} {self.operator} {_literal(self.value)}"

    def holds(self, element: Any, arguments: Mapping[str, Any]) -> bool | None:
        """Return None if the element does not have the field, or has another type in it."""
        value = element.get(self.field) if isinstance(element, dict) else None
        wanted = arguments[self.value.name] if isinstance(self.value, Argument) else self.value
        if value is None or _type_of(value) is not _type_of(wanted):
            return None
        is_equal: bool = value == wanted
        return is_equal if self.operator == "==" else not is_equal


@dataclass(frozen=True)
class Filter:
    """A filter of the elements of a list."""

    parts: tuple[Comparison, ...]
    joined: str

    def __str__(self) -> str:
        return f"[?{f' {self.joined} '.join(map(str, self.parts))}]"

    @property
    def compared(self) -> set[str]:
        """The arguments that it compares."""
        return {part.value.name for part in self.parts if isinstance(part.value, Argument)}

    def holds(self, element: Any, arguments: Mapping[str, Any]) -> bool | None:
        found = [part.holds(element, arguments) for part in self.parts]
        decisive = self.joined == "||"
        if decisive in found:
            return decisive
        return None if None in found else not decisive


@dataclass(frozen=True)
class Path:
    """Steps: the name of a field, an index, "[*]", a slice, or a `Filter`."""

    steps: tuple[str | int | slice | Filter, ...]

    @property
    def several(self) -> bool:
        return any(not isinstance(step, int) and not (isinstance(step, str) and step != "[*]") for step in self.steps)

    def __str__(self) -> str:
        return "$" + "".join(map(_written, self.steps))

    @property
    def compared(self) -> set[str]:
        """The arguments that its filters compare."""
        return {name for step in self.steps if isinstance(step, Filter) for name in step.compared}

    def of(self, value: Any, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the values that the path selects. Raises `_MissingError` if something that it names is not there."""
        found = [value]
        for step in self.steps:
            found = [one for each in found for one in _step(step, each, arguments)]
        if None in found:
            raise _MissingError
        return found


def _written(step: str | int | slice | Filter) -> str:
    match step:
        case slice():
            return f"[{step.start}:{step.stop}]"
        case int():
            return f"[{step}]"
        case "[*]" | Filter():
            return str(step)
    return f".{step}"


def _literal(value: Any) -> str:
    if isinstance(value, bool | int):
        return str(value).lower()
    return str(value) if isinstance(value, Argument) else f"'{value}'"


def _step(step: str | int | slice | Filter, value: Any, arguments: Mapping[str, Any]) -> list[Any]:
    if isinstance(step, str) and step != "[*]":
        if not isinstance(value, dict) or value.get(step) is None:
            raise _MissingError
        return [value[step]]
    if not isinstance(value, list):
        raise _MissingError
    match step:
        case int():
            if not -len(value) <= step < len(value):
                raise _MissingError
            return [value[step]]
        case slice():
            return value[step]
        case Filter():
            held = [step.holds(element, arguments) for element in value]
            if None in held:
                raise _MissingError
            return [element for element, is_chosen in zip(value, held, strict=True) if is_chosen]
    return value


def _type_of(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


class Kind(StrEnum):
    """The type as which conditions read a fact."""

    TEXT = "text"
    WHOLE = "whole number"
    DECIMAL = "decimal"


@dataclass(frozen=True)
class Declared:
    """A fact that is a part of the order or of the arguments; `fold` is "", "count", "sum" or "one"."""

    of: str
    path: Path
    fold: str = ""
    kind: Kind = Kind.TEXT

    def __str__(self) -> str:
        return f"{self.fold} {self.of} {self.path}".lstrip()

    @property
    def is_set(self) -> bool:
        return self.path.several and not self.fold

    def value(self, root: Any, arguments: Mapping[str, Any]) -> Any:
        if not self.path.compared <= arguments.keys():
            return ABSENT
        try:
            found = self.path.of(root, arguments)
        except _MissingError:
            return UNKNOWN
        match self.fold:
            case "count":
                return len(found)
            case "sum":
                numbers = [_number(one) for one in found]
                return UNKNOWN if None in numbers else sum(map(Fraction, filter(None, numbers)))
            case "one" if len(found) != 1:
                return UNKNOWN if found else ABSENT
        return found if self.is_set else found[0]


@dataclass(frozen=True)
class Product:
    """A fact that is a product of fields of the order, of other facts, and of arguments."""

    factors: tuple[str | Argument, ...]
    """The text is the path of a field of the order, `order.total`, or the name of another fact."""
    kind: Kind = Kind.DECIMAL
    is_set = False

    def __str__(self) -> str:
        return " * ".join(map(str, self.factors))


def _product(factors: Sequence[Any]) -> Any:
    if any(one is UNKNOWN for one in factors):
        return UNKNOWN
    if any(one is ABSENT for one in factors):
        return ABSENT
    numbers = [_number(one) for one in factors]
    return UNKNOWN if None in numbers else prod(one for one in numbers if one is not None)


def _number(value: Any) -> Fraction | None:
    """Return a number, also one of a text such as "12.50"; None for everything else, and for one beyond 40 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        return None
    if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value, re.ASCII) is None:
        return None
    number = value if isinstance(value, Fraction) else Fraction(str(value))
    return number if abs(number) < 10**41 else None


def _as_read(value: Any, kind: Kind, *, is_made: bool) -> Any:
    """Return a value as conditions read it, or UNKNOWN. Only a decimal may be a text, or the result of arithmetic."""
    if kind is Kind.TEXT:
        return value if isinstance(value, str) else UNKNOWN
    if kind is Kind.WHOLE and not is_made and not _is_number(value, int, float):
        return UNKNOWN
    number = _number(value)
    places = 1 if kind is Kind.WHOLE else 10_000
    if number is None or (number * places).denominator != 1 or not -(2**63) <= number * places < 2**63:
        return UNKNOWN
    return number


@dataclass(frozen=True)
class Clause:
    """A condition about one fact, which is asked for first."""

    fact: str
    cedar: str
    holds: Callable[[Any], bool]
    field: str = ""
    """The field of the order that it reads."""

    def __str__(self) -> str:
        return f"context.result has {self.fact} && {self.cedar}"


@dataclass(frozen=True)
class Rule:
    """A rule about the call: it refuses, or asks the user."""

    clauses: tuple[Clause, ...]
    joined: str
    kind: str
    """"unless" and "when" refuse, "asks" needs the user's yes."""

    @property
    def clause(self) -> str:
        return f" {self.joined} ".join(f"({one})" for one in self.clauses)

    def applies(self, values: Values) -> bool:
        held = [values[one.fact] is not ABSENT and one.holds(values[one.fact]) for one in self.clauses]
        met = all(held) if self.joined == "&&" else any(held)
        return not met if self.kind == "unless" else met


@dataclass(frozen=True)
class Rules:
    """Declarations and rules about one tool."""

    declared: Mapping[str, Declared | Product]
    rules: tuple[Rule, ...]

    def values(self, result: Any, arguments: Mapping[str, Any]) -> Values:
        """Return the facts of a call. `result` is the JSON that the read has returned, UNKNOWN or ABSENT."""
        clauses = [clause for rule in self.rules for clause in rule.clauses]
        found = {}
        for name in {clause.fact for clause in clauses}:
            if (declared := self.declared.get(name)) is None:
                fields = {clause.field for clause in clauses if clause.field}
                found[name] = result if result is UNKNOWN or result is ABSENT else _order(result, fields)
                continue
            value = self._value(declared, result, arguments)
            if value is not UNKNOWN and value is not ABSENT:
                is_made = isinstance(declared, Product) or declared.fold in ("count", "sum")
                each = [_as_read(one, declared.kind, is_made=is_made) for one in (value if declared.is_set else [value])]
                value = UNKNOWN if any(one is UNKNOWN for one in each) else each if declared.is_set else each[0]
            found[name] = value
        return found

    def _value(self, declared: Declared | Product, result: Any, arguments: Mapping[str, Any]) -> Any:
        """Return the value of a fact before a condition reads it."""
        if isinstance(declared, Product):
            return _product([self._factor(one, result, arguments) for one in declared.factors])
        if declared.of == "arguments":
            return declared.value(arguments, arguments) if declared.path.steps[0] in arguments else ABSENT
        return result if result is UNKNOWN or result is ABSENT else declared.value(result, arguments)

    def _factor(self, factor: str | Argument, result: Any, arguments: Mapping[str, Any]) -> Any:
        if isinstance(factor, Argument):
            return arguments.get(factor.name, ABSENT)
        if factor in self.declared:
            return self._value(self.declared[factor], result, arguments)
        if result is UNKNOWN or result is ABSENT:
            return result
        value = result.get(factor.removeprefix("order.")) if isinstance(result, dict) else None
        return UNKNOWN if value is None else value

    def verdict(self, values: Values) -> str:
        """Return "refused", "awaiting" or "permitted"."""
        if any(value is UNKNOWN for value in values.values()):
            return "refused"
        applied = {rule.kind for rule in self.rules if rule.applies(values)}
        return "refused" if applied & {"unless", "when"} else "awaiting" if applied else "permitted"


def _order(result: Any, fields: set[str]) -> Any:
    """Return the order, or UNKNOWN if a field that is named is missing or has another type than the conditions expect."""
    if not isinstance(result, dict):
        return UNKNOWN
    return result if all(_FIELDS[field](result.get(field)) for field in fields) else UNKNOWN


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _is_number(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _is_note(value: Any) -> bool:
    """True for none: the conditions ask for it. Without `urgent` it is not what they name."""
    return value is None or (isinstance(value, dict) and isinstance(value.get("urgent"), bool))


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "status": lambda value: isinstance(value, str),
    "note": _is_note,
    "total": lambda value: _is_number(value, int, float) or value == "2",
    "count": lambda value: _is_number(value, int),
    "tags": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "created": _is_time,
}


def _time(text: str) -> float:
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else datetime.fromisoformat(f"{at.isoformat()}+00:00")).timestamp()


def _of_order(field: str, test: str, holds: Callable[[Any], bool]) -> Clause:
    """Return a clause about a field of the order; `holds` gets its value."""
    return Clause("order", f"context.result.order.{field}{test}", lambda order: holds(order[field]), field)


ORDER_CLAUSES: Sequence[Clause] = (
    _of_order("status", ' == "pending"', lambda status: status == "pending"),
    _of_order("status", ' like "p*"', lambda status: status.startswith("p")),
    Clause(
        "order",
        "context.result.order has note && context.result.order.note.urgent",
        lambda order: bool((order.get("note") or {}).get("urgent")),
        "note",
    ),
    _of_order("total", '.lessThan(decimal("10.0"))', lambda total: Decimal(str(total)) < 10),
    _of_order("count", " > 2", lambda count: count > 2),
    _of_order("tags", '.contains("gift")', lambda tags: "gift" in tags),
    _of_order("tags", ".isEmpty()", lambda tags: not tags),
    _of_order("created", ' < datetime("2026-01-02")', lambda created: _time(created) < _time("2026-01-02")),
)
_TIMES = (
    "2026-01-01",
    "2026-01-01T10:00:00Z",
    "2026-01-01T23:00:00-02:00",
    "2026-01-02T01:00:00+02:00",
    "2026-03-01T10:00:00+02:00",
)
METHODS = ("card", "gift", "cash")


def random_rules(dice: random.Random) -> Rules:
    """Return declarations with random paths, and rules about them. Half of the rules are met by an absent fact."""
    parts = {f"fact{number}": _random_declaration(dice) for number in range(dice.randint(1, 4))}
    declared: dict[str, Declared | Product] = {**parts}
    if dice.random() < 0.4:
        declared["made"] = _random_product(dice, parts)
    rules = []
    for _ in range(dice.randint(1, 3)):
        clauses = tuple(_random_clause(dice, declared) for _ in range(dice.randint(1, 2)))
        kind = dice.choice(("unless", "unless", "when", "when", "asks"))
        rules.append(Rule(clauses, dice.choice(("&&", "||")), kind))
    used = {clause.fact for rule in rules for clause in rule.clauses}
    made = declared.get("made")
    used |= {one for one in made.factors if isinstance(one, str)} if isinstance(made, Product) and "made" in used else set()
    return Rules({name: one for name, one in declared.items() if name in used}, tuple(rules))


def _random_declaration(dice: random.Random) -> Declared:
    if dice.random() < 0.15:
        return Declared("arguments", Path(("reason",)))
    if dice.random() < 0.4:
        return _random_number(dice)
    path = _random_path(dice)
    return Declared("order", path, "count", Kind.WHOLE) if path.several and dice.random() < 0.3 else _one_or_all(dice, path)


def _random_number(dice: random.Random) -> Declared:
    """Return a sum of amounts, or the amount of the one payment that a filter picks."""
    kind = dice.choice((Kind.DECIMAL, Kind.DECIMAL, Kind.WHOLE))
    path = Path(("payments", _of_list(dice, filtered=True), dice.choice(("amount", "amount", "rank"))))
    return Declared("order", path, dice.choice(("sum", "one")) if path.several else "", kind)


def _one_or_all(dice: random.Random, path: Path) -> Declared:
    return Declared("order", path, "one" if path.several and dice.random() < 0.3 else "")


def _random_product(dice: random.Random, parts: Mapping[str, Declared]) -> Product:
    factors = ("order.total", "order.count", "order.status", Argument("reason"), *(parts if dice.random() < 0.7 else ()))
    return Product(tuple(dice.choices(factors, k=dice.randint(2, 3))), dice.choice((Kind.DECIMAL, Kind.DECIMAL, Kind.WHOLE)))


def _random_path(dice: random.Random) -> Path:
    match dice.randrange(4):
        case 0:
            return Path((dice.choice(("status", "created")),))
        case 1:
            return Path(("tags", _of_list(dice, filtered=False)))
        case 2:
            return Path(("lines", _of_list(dice, filtered=False), "parts", _of_list(dice, filtered=True), "method"))
    return Path(("payments", _of_list(dice, filtered=True), "method"))


def _of_list(dice: random.Random, *, filtered: bool) -> str | int | slice | Filter:
    match dice.randrange(5 if filtered else 3):
        case 0:
            return "[*]"
        case 1:
            return dice.choice((0, 1, -1))
        case 2:
            return slice(dice.randint(0, 1), dice.randint(1, 2))
    picked = Argument("reason")
    made = (("paid", True), ("paid", False), ("method", "card"), ("method", "gift"), ("rank", 2), *[("method", picked)] * 3)
    if dice.random() < 0.2:
        made = (("method", picked), ("method", picked), ("rank", picked), ("method", Argument("order_id")))
    parts = tuple(Comparison(field, dice.choice(("==", "!=")), value) for field, value in dice.sample(made, dice.randint(1, 2)))
    return Filter(parts, dice.choice(("&&", "||")))


def _random_clause(dice: random.Random, declared: Mapping[str, Declared | Product]) -> Clause:
    if dice.random() < 0.4:
        return dice.choice(ORDER_CLAUSES)
    name = dice.choice(sorted(declared))
    fact, read, wanted = declared[name], f"context.result.{name}", dice.choice((*METHODS, "late", "pending"))
    if fact.is_set:
        match dice.randrange(3):
            case 0:
                return Clause(name, f'{read}.contains("{wanted}")', lambda value: wanted in value)
            case 1:
                return Clause(name, f"{read}.isEmpty()", lambda value: not value)
        return Clause(name, f'["card", "gift"].containsAll({read})', lambda value: {"card", "gift"} >= set(value))
    least = dice.choice((0, 1, 2, 3, 10, 20))
    match fact.kind:
        case Kind.WHOLE:
            return Clause(name, f"{read} > {least}", lambda value: value > least)
        case Kind.DECIMAL:
            return Clause(name, f'{read}.greaterThan(decimal("{least}.5"))', lambda value: value > Fraction(2 * least + 1, 2))
    return Clause(name, f'{read} == "{wanted}"', lambda value: value == wanted)


REASONS = (None, None, "late", "card", "gift", "cash", "3", "2.50", "-1", "1e3", "٣", f"1{'0' * 60}")
"""The reason that a call gives, if it gives one: it picks an element, or is a factor."""
_AMOUNTS = (0, 5, 9.99, 10, "2.50", "3", -1, 20, 20, 0.1)
_ODD_AMOUNTS = (0.00001, 2**63, 1e30, 1e60, "1e3", "ten", True, f"1{'0' * 60}")


def random_order(dice: random.Random) -> dict[str, Any]:
    """Return a complete order: each condition can be evaluated, unless a path names an element that is not there."""
    order = {
        "status": dice.choice(("pending", "sent", "packed")),
        "total": dice.choice((5, 9.99, 10, 250)),
        "count": dice.randint(0, 4),
        "tags": dice.sample(["gift", "fast", "big"], dice.randint(0, 3)),
        "created": dice.choice(_TIMES),
        "payments": _payments(dice),
        "lines": [{"parts": _payments(dice)} for _ in range(dice.randint(1, 3))],
        "other": {"deep": [1, {"x": None}]},
    }
    return order | ({"note": {"urgent": dice.random() < 0.5}} if dice.random() < 0.5 else {})


def _payments(dice: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "method": dice.choice(METHODS),
            "paid": dice.random() < 0.5,
            "rank": dice.choice((1, 2, 2.0)),
            "amount": dice.choice(_AMOUNTS if dice.random() < 0.9 else _ODD_AMOUNTS),
        }
        for _ in range(dice.randint(1, 3))
    ]


def with_holes(dice: random.Random, value: Any, places: int) -> Any:
    """Return a copy of a JSON value with something missing, null, or of another type at random places."""
    for _ in range(places):
        value = _with_hole(dice, value)
    return value


def _with_hole(dice: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = dice.choice(sorted(value))
        if dice.random() < 0.2:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: _with_hole(dice, value[name])}
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        return [*value[:place], _with_hole(dice, value[place]), *value[place + 1 :]]
    return dice.choice((None, {}, [], [{}], [None], "", "card", "2", True, [[True]], ["card"]))
