"""The syntax trees of conditions: the tools that a condition is about, and the parts of `context` that it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Final, TypeAlias

from cedarpy import pst

from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.reply.text import one_line, visible

Path = tuple[str, ...]

COMMENT_OR_TEXT = r'''//[^\n\r]*|"(?:[^"\\]|\\.)*"'''
"""Comments and texts, whose brackets the parser does not nest. A comment ends at a line feed or a carriage return."""
MAX_ID: Final = 200
"""Limit for an `@id` in characters."""
MAX_NESTING = 300
"""The parser takes 100 levels, which are at most 300 by `nesting`. At 800 its stack overflows, and the process ends."""
_NESTED = re.compile(
    COMMENT_OR_TEXT + r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)"
    r"|(?P<join>&&|\|\||[-+*]|\b(?:if|else)\b)|(?P<operator>[.!])",
    re.DOTALL,
)


def is_id(text: str) -> bool:
    """True if `text` can be an `@id`: short, and without hidden characters."""
    return len(text) <= MAX_ID and visible(text) == text


def unique_ids(names: Iterable[str], limit: int = MAX_ID) -> Iterator[str]:
    """Yield each name as an `@id` of at most `limit` characters: on one line, cut, and each only once."""
    given: set[str] = set()
    for number, name in enumerate(names, 1):
        text = one_line(name, limit)
        if text in given:
            mark = f" ({number})"
            text = f"{one_line(name, limit - len(mark))}{mark}"
        given.add(text)
        yield text


def nesting(text: str) -> int:
    """Return a bound for the depth of a condition's syntax tree, from its text: brackets, and operators in sequence."""
    # Of each open bracket: the operators between its parts, those of the last part, the deepest bracket in it, the deepest part
    # before it.
    levels = [(0, 0, 0, 0)]
    for token in _NESTED.finditer(text):
        joins, operators, inner, deepest = levels.pop()
        if token["comma"] or token["join"]:
            levels.append((joins + bool(token["join"]), 0, 0, max(deepest, operators + inner)))
        elif token["close"] and levels:
            outer, around, beside, other = levels.pop()
            levels.append((outer, around, max(beside, joins + max(deepest, operators + inner)), other))
        elif token["open"]:
            levels += [(joins, operators + 1, inner, deepest), (0, 0, 0, 0)]
        else:
            levels.append((joins, operators + bool(token["operator"]), inner, deepest))
    depth = 0
    for joins, operators, inner, deepest in reversed(levels):
        depth = joins + max(deepest, operators + max(inner, depth))
    return depth


class Reads:
    """The attribute paths below `context` that the clauses of conditions name: only these are converted and recorded."""

    def __init__(self, conditions: Iterable[object]) -> None:
        read = frozenset(one for condition in conditions for one in _paths(condition))
        self._paths = frozenset(path for path, _ in read)
        self._values = frozenset(path for path, is_value in read if is_value)
        # Asked many times for each call, about the paths of a schema.
        self._has: dict[Path, bool] = {}

    def has(self, *path: str) -> bool:
        """True if a condition reads the value at `path`, a part of it, or a record that contains it."""
        if (found := self._has.get(path)) is None:
            found = self._has[path] = any(path[: len(read)] == read[: len(path)] for read in self._paths)
        return found

    def name(self, *path: str) -> bool:
        """True if a condition reads `path` or asks for its presence, and not only for that of a record that contains it."""
        below = any(read[: len(path)] == path for read in self._paths)
        return below or any(path[: len(read)] == read for read in self._values)

    def below(self, part: str) -> list[Path]:
        """Return the paths that conditions name in a part of `context`, from there on."""
        return sorted(read[1:] for read in self._paths if read[:1] == (part,) and read[1:])

    def names(self, part: str) -> bool:
        """True if a condition names the part of `context` itself."""
        return any(read[:1] == (part,) for read in self._paths)


def nodes(node: object) -> Iterator[object]:
    """Yield the direct parts of a node of Cedar's syntax tree."""
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, tuple | list):
        yield from node
    elif is_dataclass(node):
        yield from (getattr(node, field.name) for field in fields(node))


def walk(node: object) -> Iterator[object]:
    """Yield `node` and everything below it."""
    yield node
    for part in nodes(node):
        yield from walk(part)


def _paths(node: object) -> Iterator[tuple[Path, bool]]:
    """Yield the paths that an expression names, each with whether it reads the value, or only asks for its presence."""
    path = path_of(node)
    if path is not None:
        yield path, True
        return
    if isinstance(node, pst.HasAttr) and (base := path_of(node.base)) is not None:
        yield (*base, *node.attrs), False
        return
    for part in nodes(node):
        yield from _paths(part)


def path_of(node: object) -> Path | None:
    """Return the path that `context.a.b` reads; None for another expression."""
    if node == pst.Var("context"):
        return ()
    if isinstance(node, pst.GetAttr) and (base := path_of(node.base)) is not None:
        return (*base, node.attr)
    return None


def covers(condition: pst.Template, action: ToolAction) -> bool:
    """True if the scope of `condition` admits calls of a tool, by some user."""
    if isinstance(condition.principal, pst.ScopeIs | pst.ScopeIsIn) and str(condition.principal.entity_type) != "User":
        return False
    return _covers_action(condition.action, action) and _covers_server(condition.resource, action.server)


def _covers_action(scope: pst.ActionConstraint, action: ToolAction) -> bool:
    if isinstance(scope, pst.ActionEq):
        return is_action(scope.entity, action.name)
    if isinstance(scope, pst.ActionIn):
        return any(is_action(one, name) for one in scope.entities for name in (action.name, *action.groups))
    return True


def _covers_server(scope: pst.PrincipalOrResourceConstraint, server: str) -> bool:
    if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and str(scope.entity_type) != "Server":
        return False
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn | pst.ScopeIsIn):
        return isinstance(scope.entity, pst.EntityUid) and (str(scope.entity.type), scope.entity.id) == ("Server", server)
    return True


_UNLESS_CONFIRMED = pst.Unless(pst.GetAttr(pst.Var("context"), "confirmed"))


def denies_by_like(condition: pst.Template) -> bool:
    """True if a match of `like` is a reason of the condition to refuse a call: `unless { … like … }` of a `forbid` is none."""
    return _denies_by(condition, _match_makes)


def yes_only_permits(condition: pst.Template) -> bool:
    """True if the user's yes can only lift a condition, and leads to no evaluation that is not made without it."""
    lifted = condition.effect == "forbid"
    clauses = [one for one in condition.clauses if not (lifted and one == _UNLESS_CONFIRMED)]
    return not Reads([clauses]).has("confirmed")


def denies_by_approvals(condition: pst.Template) -> bool:
    """True if more approvals may be what makes the condition refuse a call."""
    return _denies_by(condition, _approvals_make)


_Makes: TypeAlias = Callable[[object, bool], bool]
"""True if what it is about may be what gives a truth value without connectives the value that is named."""


def _denies_by(condition: pst.Template, makes: _Makes) -> bool:
    forbids = condition.effect == "forbid"
    return any(_may_make(clause.expr, forbids is isinstance(clause, pst.When), makes) for clause in condition.clauses)


def _may_make(node: object, wanted: bool, makes: _Makes) -> bool:
    """True if what `makes` is about may be what gives an expression the value `wanted`."""
    match node:
        case pst.UnaryOp("not", operand):
            return _may_make(operand, not wanted, makes)
        case pst.BinaryOp("and" | "or", left, right):
            return _may_make(left, wanted, makes) or _may_make(right, wanted, makes)
        case pst.BinaryOp("eq" | "not_eq" as op, pst.BoolLit(constant), other) | pst.BinaryOp(
            "eq" | "not_eq" as op, other, pst.BoolLit(constant)
        ):
            return _may_make(other, wanted is (constant is (op == "eq")), makes)
        case pst.IfThenElse(condition, then, otherwise):
            # `if C then A else B` is `C && A || !C && B`.
            by_true = then != pst.BoolLit(not wanted) and _may_make(condition, True, makes)
            by_false = otherwise != pst.BoolLit(not wanted) and _may_make(condition, False, makes)
            return by_true or by_false or _may_make(then, wanted, makes) or _may_make(otherwise, wanted, makes)
    return makes(node, wanted)


def _match_makes(node: object, wanted: bool) -> bool:
    if isinstance(node, pst.Like):
        return wanted
    # Elsewhere a match may lead to either value.
    return any(isinstance(one, pst.Like) for one in walk(node))


def _approvals_make(node: object, wanted: bool) -> bool:
    match node:
        case pst.HasAttr(base) if path_of(base) is not None:
            # The counts are always there.
            return False
        case pst.BinaryOp("greater" | "greater_eq", left, right):
            return _more_approvals_change(left, grows=wanted) or _more_approvals_change(right, grows=not wanted)
        case pst.BinaryOp("less" | "less_eq", left, right):
            return _more_approvals_change(left, grows=not wanted) or _more_approvals_change(right, grows=wanted)
    return _counts_approvals(node)


def _more_approvals_change(node: object, *, grows: bool) -> bool:
    """True if more approvals may make a number larger; without `grows`, if they may make it smaller."""
    match node:
        case pst.GetAttr():
            return grows and _counts_approvals(node)
        case pst.UnaryOp("neg", operand):
            return _more_approvals_change(operand, grows=not grows)
        case pst.BinaryOp("add", left, right):
            return _more_approvals_change(left, grows=grows) or _more_approvals_change(right, grows=grows)
        case pst.BinaryOp("sub", left, right):
            return _more_approvals_change(left, grows=grows) or _more_approvals_change(right, grows=not grows)
        case pst.BinaryOp("mul", pst.LongLit(weight), other) | pst.BinaryOp("mul", other, pst.LongLit(weight)):
            return _more_approvals_change(other, grows=grows is (weight > 0))
        case pst.IfThenElse(condition, then, otherwise) if not _counts_approvals(condition):
            return _more_approvals_change(then, grows=grows) or _more_approvals_change(otherwise, grows=grows)
    return _counts_approvals(node)


def _counts_approvals(node: object) -> bool:
    return Reads([node]).has("approvals")


def is_action(entity: pst.EntityUid, name: str) -> bool:
    return (str(entity.type), entity.id) == ("Action", name)
