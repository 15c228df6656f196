"""An independent reference for facts: random declarations over an order, and what they are and decide by the documentation.

Nothing here uses the package: a path is a list of steps, a condition a function, and the reference walks the JSON itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
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
class Comparison:
    """A comparison of a field with a value in a filter; several of them are joined by `&&` or `||`."""

    field: str
    operator: str
    value: Any

    def __str__(self) -> str:
        written = {True: "true", False: "false"}.get(self.value, f"'{self.value}'") if self.value != 2 else "2"
        return f"@.{self.field} {self.operator} {written}"

    def holds(self, element: Any) -> bool | None:
        """Return None if the element does not have the field, or has another type in it."""
        value = element.get(self.field) if isinstance(element, dict) else None
        if value is None or _type_of(value) is not _type_of(self.value):
            return None
        is_equal: bool = value == self.value
        return is_equal if self.operator == "==" else not is_equal


@dataclass(frozen=True)
class Filter:
    """A filter of the elements of a list."""

    parts: tuple[Comparison, ...]
    joined: str

    def __str__(self) -> str:
        return f"[?{f' {self.joined} '.join(map(str, self.parts))}]"

    def holds(self, element: Any) -> bool | None:
        found = [part.holds(element) for part in self.parts]
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

    def of(self, value: Any) -> list[Any]:
        """Return the values that the path selects. Raises `_MissingError` if something that it names is not there."""
        found = [value]
        for step in self.steps:
            found = [one for each in found for one in _step(step, each)]
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


def _step(step: str | int | slice | Filter, value: Any) -> list[Any]:
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
            held = [step.holds(element) for element in value]
            if None in held:
                raise _MissingError
            return [element for element, is_chosen in zip(value, held, strict=True) if is_chosen]
    return value


def _type_of(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


@dataclass(frozen=True)
class Declared:
    """A fact that is a part of the order, of the arguments, or a count."""

    of: str
    path: Path
    count: bool = False

    def __str__(self) -> str:
        return f"{'count ' if self.count else ''}{self.of} {self.path}"

    def value(self, root: Any) -> Any:
        try:
            found = self.path.of(root)
        except _MissingError:
            return UNKNOWN
        if self.count:
            return len(found)
        if any(not isinstance(one, str) for one in found):
            # The conditions read texts.
            return UNKNOWN
        return found if self.path.several else found[0]


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

    declared: Mapping[str, Declared]
    rules: tuple[Rule, ...]

    def values(self, result: Any, arguments: Mapping[str, Any]) -> Values:
        """Return the facts of a call. `result` is the JSON that the read has returned, UNKNOWN or ABSENT."""
        clauses = [clause for rule in self.rules for clause in rule.clauses]
        found = {}
        for name in {clause.fact for clause in clauses}:
            declared = self.declared.get(name)
            if declared is not None and declared.of == "arguments":
                given = declared.path.steps[0] in arguments
                found[name] = declared.value(arguments) if given else ABSENT
            elif result is UNKNOWN or result is ABSENT:
                found[name] = result
            elif declared is not None:
                found[name] = declared.value(result)
            else:
                found[name] = _order(result, {clause.field for clause in clauses if clause.field})
        return found

    def verdict(self, values: Values) -> str:
        """Return "refused", "awaiting" or "permitted"."""
        if UNKNOWN in [value for value in values.values() if isinstance(value, str)]:
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
    declared = {f"fact{number}": _random_declaration(dice) for number in range(dice.randint(1, 4))}
    rules = []
    for _ in range(dice.randint(1, 3)):
        parts = tuple(_random_clause(dice, declared) for _ in range(dice.randint(1, 2)))
        kind = dice.choice(("unless", "unless", "when", "when", "asks"))
        rules.append(Rule(parts, dice.choice(("&&", "||")), kind))
    used = {clause.fact for rule in rules for clause in rule.clauses}
    return Rules({name: one for name, one in declared.items() if name in used}, tuple(rules))


def _random_declaration(dice: random.Random) -> Declared:
    if dice.random() < 0.15:
        return Declared("arguments", Path(("reason",)))
    path = _random_path(dice)
    return Declared("order", path, count=path.several and dice.random() < 0.3)


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
    made = (("paid", True), ("paid", False), ("method", "card"), ("method", "gift"), ("rank", 2))
    parts = tuple(Comparison(field, dice.choice(("==", "!=")), value) for field, value in dice.sample(made, dice.randint(1, 2)))
    return Filter(parts, dice.choice(("&&", "||")))


def _random_clause(dice: random.Random, declared: Mapping[str, Declared]) -> Clause:
    if dice.random() < 0.4:
        return dice.choice(ORDER_CLAUSES)
    name = dice.choice(sorted(declared))
    fact, read, wanted = declared[name], f"context.result.{name}", dice.choice((*METHODS, "late", "pending"))
    if fact.count:
        least = dice.randint(0, 3)
        return Clause(name, f"{read} > {least}", lambda value: value > least)
    if not fact.path.several:
        return Clause(name, f'{read} == "{wanted}"', lambda value: value == wanted)
    match dice.randrange(3):
        case 0:
            return Clause(name, f'{read}.contains("{wanted}")', lambda value: wanted in value)
        case 1:
            return Clause(name, f"{read}.isEmpty()", lambda value: not value)
    return Clause(name, f'["card", "gift"].containsAll({read})', lambda value: {"card", "gift"} >= set(value))


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
        {"method": dice.choice(METHODS), "paid": dice.random() < 0.5, "rank": dice.choice((1, 2, 2.0))}
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
