"""The declarations of facts: what the runtime knows about the objects of a call, from the results of tools.

A fact is a line of the section `## Facts` of the constitution. Its name comes first, then where it comes from:

    - order: get_order(order_id = arguments.order_id)             a read that the runtime makes before it judges a call
    - products: get_product(id = arguments.items[*].id) $.name    one read for each element of a list; the fact is a set
    - customer: last find_by_mail, find_by_name                   the newest result of one of these tools in this conversation
    - paid_with: order $.payments[0].method                       one value in another fact, by a JSONPath (RFC 9535)
    - methods: customer $.methods[*].id                           several values in it: a set
    - cards: arguments $.payments[*].card_id                      the same in the arguments of the call
    - refunds: count order $.refunds[*]                           how many values a path selects
    - paid: sum arguments $.payments[*].amount                    their sum
    - left: one customer $.cards[?@.id == arguments.card].balance the only value that it selects, picked by an argument
    - due: order.price * arguments.quantity                       a product of facts and arguments
    - all: sum get_price(sku = arguments.items[*].sku) $.price * arguments.items[*].number
                                                                  the sum of such products, one for each element of the list

A parameter of a read is filled from an argument of the call, from another fact, or with the id of the user, `principal`.
Without a path the fact is the whole object, whose fields are named by those who use it. Conditions see the facts as
`context.result.NAME`, always optional; the markers `(undone by ...)` and `(done if ...)` name them too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from graph_agent.policy.fact_errors import FactError

if TYPE_CHECKING:
    # Its library is only loaded where a declaration has a path.
    from graph_agent.policy.selection import Selection

ARGUMENTS, PRINCIPAL = "arguments", "principal"
EACH = "[*]"
"""The step of a `Source` that leads to each element of a list."""
RESERVED = frozenset({"id", ARGUMENTS, PRINCIPAL, "result", "last", "count", "sum", "one"})
"""The words that are no names of facts."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOOL = r"""[A-Za-z0-9_.-]+|'[^']+'|"[^"]+\""""
_COUNT = r"(?:(?P<fold>count|sum|one)\s+)?"
_PATH = r"(?P<path>\$.*)"
_LAST = re.compile(rf"{_COUNT}last\s+(?P<tools>(?:{_TOOL})(?:\s*,\s*(?:{_TOOL}))*)\s*{_PATH}?", re.DOTALL)
_PART = re.compile(rf"{_COUNT}(?P<of>{_NAME})\s+{_PATH}", re.DOTALL)
_FIELD = r"[A-Za-z_][A-Za-z0-9_-]*"
_STEPS = rf"(?:\.{_FIELD}|\[\*\])*"
_SOURCE = re.compile(rf"(?P<root>{_NAME})(?P<steps>{_STEPS})")
_READ = re.compile(
    rf"{_COUNT}(?P<tool>{_TOOL})\s*\((?P<parameters>[^()]*)\)\s*(?P<path>\$.*?)?(?:\s+\*\s+(?P<times>{ARGUMENTS}{_STEPS}))?",
    re.DOTALL,
)
_STEP = re.compile(rf"\.({_FIELD})|(\[\*\])")
_FACTOR = rf"{_NAME}(?:\.{_FIELD})*"
_PRODUCT = re.compile(rf"{_FACTOR}(?:\s*\*\s*{_FACTOR})+")
_FORMS = "TOOL(PARAMETER = SOURCE, …), last TOOL, FACT $PATH, or FACT * FACT"


class Fold(StrEnum):
    """One value of several."""

    COUNT = "count"
    SUM = "sum"
    ONE = "one"
    """The only one. The fact is absent if there is none, and not known if there are more."""


class FactKind(StrEnum):
    """The origin of a fact."""

    READ = "read"
    """The runtime calls a tool that only reads."""
    LAST = "last"
    """The newest result of a tool in this conversation."""
    PART = "part"
    """A part of another fact, or of the arguments."""
    PRODUCT = "product"
    """The product of the values in `parameters`."""


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a parameter of a read: `arguments.items[*].id` is ("arguments", ("items", "[*]", "id"))."""

    root: str
    """`arguments`, `principal`, or the name of a fact."""
    steps: tuple[str, ...] = ()
    """The names of fields, and at most one `EACH`."""

    @property
    def each(self) -> tuple[str, ...] | None:
        """The steps to the list of which each element is taken; None if it is one value."""
        return self.steps[: self.steps.index(EACH)] if EACH in self.steps else None

    def __str__(self) -> str:
        return self.root + "".join(step if step == EACH else f".{step}" for step in self.steps)


@dataclass(frozen=True)
class Fact:
    """The declaration of one fact."""

    name: str
    kind: FactKind
    tools: tuple[str, ...] = ()
    """READ: the tool. LAST: one or more. PART: none."""
    parameters: tuple[tuple[str, Source], ...] = ()
    """READ: each parameter of the tool, with its source."""
    of: str = ""
    """PART: the name of the other fact, or `arguments`."""
    path: str = ""
    """The JSONPath; empty for the whole object."""
    fold: Fold | None = None
    """The aggregate of the values that the path selects; None for the set of them, or for the one value."""
    times: Source | None = None
    """The number of each element by which what was read for it is multiplied, before the sum."""
    text: str = field(default="", compare=False)
    """The declaration as it is written."""
    line: int = field(default=0, compare=False)
    """The number of its line in the constitution."""

    @cached_property
    def selection(self) -> Selection | None:
        """The compiled path. Raises `FactError`."""
        if not self.path:
            return None
        try:
            # Imported here, because few installations have a path, and the library takes 50 ms.
            from graph_agent.policy.selection import Selection
        except ImportError:
            needed = "has a path, which needs the extra 'policy': pip install 'graph-agent[policy]'"
            raise FactError(f"the fact '{self.name}' {needed}") from None

        return Selection(self.path, f"the fact '{self.name}'")

    @property
    def of_each(self) -> bool:
        """True if a read is made for each element of a list."""
        return any(source.each is not None for _, source in self.parameters)

    @property
    def is_set(self) -> bool:
        """True if the fact is a set of values."""
        selects_several = self.selection is not None and self.selection.several
        return (self.of_each or selects_several) and self.fold is None

    @property
    def needs(self) -> frozenset[str]:
        """The names of the facts that it is made from."""
        return frozenset({self.of, *(source.root for _, source in self.parameters)} - {"", ARGUMENTS, PRINCIPAL})

    @property
    def arguments(self) -> frozenset[str]:
        """The arguments of the call that it is made from."""
        sources = [source for _, source in self.parameters] + ([] if self.times is None else [self.times])
        named = {source.steps[0] for source in sources if source.root == ARGUMENTS and source.steps}
        if self.of == ARGUMENTS and self.selection is not None and self.selection.first:
            named.add(self.selection.first)
        return frozenset(named | self.compared)

    @property
    def compared(self) -> frozenset[str]:
        """The arguments of the call that its path compares."""
        return frozenset() if self.selection is None else self.selection.given


def parse_fact(name: str, text: str, line: int = 0) -> Fact:
    """Return the fact that a line declares. Raises `FactError`."""
    text = text.strip()
    if name in RESERVED:
        raise FactError(f"no fact can have the name '{name}'")
    if found := _LAST.fullmatch(text):
        tools = tuple(_tool_name(one) for one in re.findall(_TOOL, found["tools"]))
        fact = Fact(name, FactKind.LAST, tools, path=_path(found), fold=_fold(found))
    elif found := _READ.fullmatch(text):
        parameters = tuple(_parameters(name, found["parameters"]))
        tools = (_tool_name(found["tool"]),)
        times = None if found["times"] is None else _SOURCE.fullmatch(found["times"])
        fact = Fact(name, FactKind.READ, tools, parameters, path=_path(found), fold=_fold(found))
        if times is not None:
            fact = replace(fact, times=Source(times["root"], _steps(times)))
    elif found := _PART.fullmatch(text):
        fact = Fact(name, FactKind.PART, of=found["of"], path=_path(found), fold=_fold(found))
    elif _PRODUCT.fullmatch(text):
        sources = [_SOURCE.fullmatch(one.strip()) for one in text.split("*")]
        factors = tuple((str(n), Source(one["root"], _steps(one))) for n, one in enumerate(sources) if one is not None)
        fact = Fact(name, FactKind.PRODUCT, parameters=factors)
    else:
        raise FactError(f"the fact '{name}' is not {_FORMS}")
    _require_usable(fact)
    return replace(fact, text=text, line=line)


def ordered(facts: Mapping[str, Fact], wanted: Iterable[str]) -> list[Fact]:
    """Return the facts that are `wanted` and those that they need, each after those that it needs.

    Raises `FactError` for one that is not declared, and for one that needs itself.
    """
    found: dict[str, Fact] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise FactError(f"the fact '{name}' is made from itself", fact=name)
        if name not in facts:
            by = f", which '{path[-1]}' names" if path else ""
            raise FactError(f"no line of the constitution declares the fact '{name}'{by}", fact=path[-1] if path else None)
        if name not in found:
            for needed in sorted(facts[name].needs):
                add(needed, (*path, name))
            found[name] = facts[name]

    for name in sorted(wanted):
        add(name, ())
    return list(found.values())


def usable(facts: Iterable[Fact], arguments: Collection[str]) -> set[str]:
    """Return the names of those of `facts`, in their order, that a call with these arguments can have."""
    found: set[str] = set()
    for fact in facts:
        if fact.arguments <= set(arguments) and fact.needs <= found:
            found.add(fact.name)
    return found


def _path(found: re.Match[str]) -> str:
    return (found["path"] or "").strip()


def _tool_name(text: str) -> str:
    return text.strip("'\"")


def _parameters(name: str, text: str) -> Iterable[tuple[str, Source]]:
    given: set[str] = set()
    for part in filter(None, (one.strip() for one in text.split(","))):
        parameter, equals, source = (one.strip() for one in part.partition("="))
        match = _SOURCE.fullmatch(source)
        if not equals or not parameter or match is None:
            raise FactError(f"the fact '{name}': '{part}' is not PARAMETER = arguments.NAME, a fact, or principal")
        if parameter in given:
            raise FactError(f"the fact '{name}' fills the parameter '{parameter}' twice")
        given.add(parameter)
        yield parameter, Source(match["root"], _steps(match))


def _steps(source: re.Match[str]) -> tuple[str, ...]:
    return tuple(field or each for field, each in _STEP.findall(source["steps"]))


def _fold(found: re.Match[str]) -> Fold | None:
    return None if found["fold"] is None else Fold(found["fold"])


def _require_usable(fact: Fact) -> None:
    """Raise `FactError` for a declaration that can never give a value."""
    where = f"the fact '{fact.name}'"
    lists = {(source.root, source.each) for _, source in fact.parameters if source.each is not None}
    if len(lists) > 1 or any(source.steps.count(EACH) > 1 for _, source in fact.parameters):
        raise FactError(f"{where} makes a read for each element of one list, not of several")
    for _, source in fact.parameters:
        if (source.root == PRINCIPAL) is bool(source.steps) and source.root in (ARGUMENTS, PRINCIPAL):
            raise FactError(f"{where}: '{source}' is no value: write arguments.NAME, or principal alone")
        if source.root == ARGUMENTS and source.steps[0] == EACH:
            raise FactError(f"{where}: '{source}' names no argument")
    selection = fact.selection
    if fact.of_each and selection is None:
        raise FactError(f"{where} makes a read for each element: a path must say which of their values is the fact")
    if fact.fold is not None and (selection is None or not (selection.several or fact.of_each)):
        what = {Fold.COUNT: "counts", Fold.SUM: "adds up", Fold.ONE: "picks"}[fact.fold]
        raise FactError(f"{where} {what} one value: its path must select several")
    if fact.fold is Fold.ONE and fact.of_each:
        raise FactError(f"{where} picks from one read, and not from one for each element")
    if fact.times is not None:
        each = {source.each for _, source in fact.parameters if source.each is not None and source.root == ARGUMENTS}
        if fact.fold is not Fold.SUM or each != {fact.times.each} or fact.times.steps.count(EACH) > 1:
            raise FactError(f"{where}: only a sum of one read for each element is multiplied, by a number of the same element")
    if fact.of == ARGUMENTS and selection is not None and selection.first is None:
        raise FactError(f"{where}: the path must begin with the name of an argument, such as $.items")
