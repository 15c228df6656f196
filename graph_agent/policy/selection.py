"""The values that a JSONPath (RFC 9535) selects in a result, or the reason why they cannot be known.

A plain JSONPath leaves out what it does not find, and a condition would take the rest for the whole. So everything that a path
names has to be there: a field of an element, an index of a list, the values that a filter compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterContext,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    Nothing,
    PrefixExpression,
    RootFilterQuery,
)
from jsonpath_rfc9535.node import JSONPathNode
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from graph_agent.policy.fact_errors import FactError, UnreadableError

_MISSING: Final = object()
_ARGUMENTS: Final = "arguments"
# Outside of quotes, and no field of that name.
_GIVEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.$@\]])arguments\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)""")


class Selection:
    """A compiled path."""

    def __init__(self, path: str, where: str) -> None:
        """`where` is the declaration, for errors. Raises `FactError`."""
        self.given: frozenset[str] = frozenset(name for name in _GIVEN.findall(path) if name)
        """The arguments of the call that its filters compare."""
        try:
            self._query = JSONPathEnvironment().compile(_GIVEN.sub(_as_query, path) if self.given else path)
        except JSONPathError as exc:
            raise FactError(f"{where}: the path {path} cannot be read: {str(exc).splitlines()[0]}") from None
        if any(isinstance(one, JSONPathRecursiveDescentSegment) for one in _segments(self._query)):
            raise FactError(f"{where}: `..` finds a field wherever it is, so that a missing one is not noticed: write its path")
        roots = [one for one in _filters(self._query) if isinstance(one, RootFilterQuery)]
        if self.given and any(_first_name(one.query) != _ARGUMENTS for one in roots):
            raise FactError(f"{where}: a filter that names arguments compares them with `@`, and not with `$`")
        self.several: bool = not self._query.singular_query()
        """True if it can select several values."""

    @property
    def first(self) -> str | None:
        """The name with which the path begins."""
        steps = self.steps
        return steps[0] if steps else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of fields with which the path begins, up to its first other selector."""
        found: list[str] = []
        for segment in self._query.segments:
            (selector, *others) = segment.selectors
            if others or not isinstance(selector, NameSelector):
                break
            found.append(selector.name)
        return tuple(found)

    @property
    def is_plain(self) -> bool:
        """True if it consists of names of fields only."""
        return len(self.steps) == len(self._query.segments)

    def of(self, value: Any, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the values that the path selects, for a call with these arguments.

        Raises `UnreadableError` if something that it names is missing.
        """
        return [found for _, found in self.places(value, arguments)]

    def places(self, value: Any, arguments: Mapping[str, Any] | None = None) -> list[tuple[tuple[str | int, ...], Any]]:
        """Return the values that the path selects, each with the names and positions that lead to it, as `of` does."""
        root = {_ARGUMENTS: dict(arguments or {})} if self.given else value
        try:
            nodes = _select(self._query, JSONPathNode(value=value, location=(), parent=None, root=root))
        except JSONPathError as exc:
            raise UnreadableError("it cannot be searched") from exc
        return [(node.location, node.value) for node in nodes]


def _as_query(found: re.Match[str]) -> str:
    """Return `arguments.card` as a path of the root of filters; a text in quotes stays as it is."""
    return f"$.{_ARGUMENTS}.{found['name']}" if found["name"] else found[0]


def _filters(query: JSONPathQuery) -> Iterator[FilterQuery]:
    for segment in query.segments:
        for selector in segment.selectors:
            for inner in _queries(selector.expression) if isinstance(selector, FilterSelector) else ():
                yield inner
                yield from _filters(inner.query)


def _first_name(query: JSONPathQuery) -> str | None:
    first = query.segments[0].selectors[0] if query.segments else None
    return first.name if isinstance(first, NameSelector) else None


def _segments(query: JSONPathQuery) -> Iterator[JSONPathSegment]:
    """Yield the segments of a path, and those of the paths in its filters."""
    for segment in query.segments:
        yield segment
        for selector in segment.selectors:
            for inner in _queries(selector.expression) if isinstance(selector, FilterSelector) else ():
                yield from _segments(inner.query)


def _queries(expression: Expression) -> Iterator[FilterQuery]:
    match expression:
        case FilterQuery():
            yield expression
        case FunctionExtension():
            for one in expression.args:
                yield from _queries(one)
        case PrefixExpression():
            yield from _queries(expression.right)
        case LogicalExpression() | ComparisonExpression():
            yield from _queries(expression.left)
            yield from _queries(expression.right)
        case _ if (inner := getattr(expression, "expression", None)) is not None:
            yield from _queries(inner)


def _select(query: JSONPathQuery, root: JSONPathNode) -> list[JSONPathNode]:
    nodes = [root]
    for segment in query.segments:
        nodes = [found for node in nodes for selector in segment.selectors for found in _children(selector, node)]
    if any(node.value is None for node in nodes):
        raise UnreadableError("one of the values is null")
    return nodes


def _children(selector: JSONPathSelector, node: JSONPathNode) -> Iterator[JSONPathNode]:
    if not _has(node.value, selector):
        what = f"item {selector}" if isinstance(selector, IndexSelector) else str(selector)
        raise UnreadableError(f"it does not have {what if isinstance(selector, IndexSelector | NameSelector) else 'a list'}")
    if not isinstance(selector, FilterSelector):
        yield from selector.resolve(node)
        return
    elements: Any = node.value
    for name, element in elements.items() if isinstance(elements, dict) else enumerate(elements):
        is_chosen = _truth(selector.expression, FilterContext(env=selector.env, current=element, root=node.root))
        if is_chosen is None:
            raise UnreadableError("an element does not have what the filter of its path compares")
        if is_chosen:
            yield node.new_child(element, name, node)


def _has(value: object, selector: JSONPathSelector) -> bool:
    match selector:
        case NameSelector():
            return isinstance(value, dict) and value.get(selector.name) is not None
        case IndexSelector():
            return isinstance(value, list) and -len(value) <= selector.index < len(value)
        case SliceSelector():
            return isinstance(value, list)
        case WildcardSelector() if _follows_a_dot(selector):
            return isinstance(value, dict | list)
    # An empty object where a list is meant would pass for an empty list.
    return isinstance(value, list) or (isinstance(value, dict) and bool(value))


def _follows_a_dot(selector: JSONPathSelector) -> bool:
    """True for `.*`, by which a path names the values of an object; `[*]` are the elements of a list."""
    return selector.token.query[selector.token.index - 1] == "."


def _truth(expression: Expression, context: FilterContext) -> bool | None:
    """Return the value of a filter; None if it depends on something that is missing, or that has another type."""
    match expression:
        case LogicalExpression():
            both = _truth(expression.left, context), _truth(expression.right, context)
            decisive = expression.operator == "||"
            return decisive if decisive in both else None if None in both else not decisive
        case PrefixExpression():
            value = _truth(expression.right, context)
            return None if value is None else not value
        case ComparisonExpression():
            left, right = _operand(expression.left, context), _operand(expression.right, context)
            return bool(expression.evaluate(context)) if _are_comparable(left, right, expression) else None
        case FunctionExtension():
            arguments = [_operand(one, context) for one in expression.args]
            return bool(expression.evaluate(context)) if all(isinstance(one, str) for one in arguments) else None
        case FilterQuery():
            return _exists(expression, context)
        case _ if (inner := getattr(expression, "expression", None)) is not None:
            return _truth(inner, context)
    return None


def _exists(asked: FilterQuery, context: FilterContext) -> bool | None:
    if asked.query.singular_query():
        return bool(_found(asked, context))
    values = _strictly(asked, context)
    return None if values is _MISSING else bool(values)


def _operand(expression: Expression, context: FilterContext) -> Any:
    """Return a value that a filter compares; `_MISSING` if there is none."""
    match expression:
        case FilterExpressionLiteral():
            return expression.value
        case FilterQuery() if expression.query.singular_query():
            found = _found(expression, context)
            return found[0] if found else _MISSING
        case FilterQuery():
            return _strictly(expression, context)
        case FunctionExtension():
            if any(_operand(one, context) is _MISSING for one in expression.args):
                return _MISSING
            value = expression.evaluate(context)
            return _MISSING if isinstance(value, Nothing) else value
    return _MISSING


def _found(asked: FilterQuery, context: FilterContext) -> list[Any]:
    start: Any = context.root if isinstance(asked, RootFilterQuery) else context.current
    return [node.value for node in asked.query.find(start)]


def _strictly(asked: FilterQuery, context: FilterContext) -> Any:
    """Return what a path in a filter selects; `_MISSING` if something that it names is missing."""
    start: Any = context.root if isinstance(asked, RootFilterQuery) else context.current
    try:
        start = JSONPathNode(value=start, location=(), parent=None, root=context.root)
        return [node.value for node in _select(asked.query, start)]
    except UnreadableError:
        return _MISSING


def _are_comparable(left: Any, right: Any, comparison: ComparisonExpression) -> bool:
    if left is _MISSING or right is _MISSING:
        return False
    if left is None or right is None:
        # Only the null that is written in the filter is compared with other values.
        written = [one for one in (comparison.left, comparison.right) if isinstance(one, FilterExpressionLiteral)]
        return any(one.value is None for one in written)
    return _kind(left) is _kind(right)


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
