"""The Cedar types of facts, from their use in the conditions and from the output schemas of their tools.

`context.result.order.status == "pending"` makes the status a text, `.lessThan(decimal("5.00"))` makes a fact a decimal, and
`.contains("x")` a set of texts. A parameter that a fact fills gives it a type too. What is only compared with another fact has
the type of that: a number if one of them is a sum, a product or a count, and else a text. Of what is only asked for by `has`
nothing but its presence is known. Each tool has types of its own: those of the conditions about it, so that a condition about
one tool refuses no call of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from cedarpy import pst

from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.syntax import nodes, path_of
from graph_agent.policy.cedar.types import CedarType, Field, Kind
from graph_agent.policy.fact_errors import FactError
from graph_agent.policy.facts import ARGUMENTS, EACH, Fact, FactKind, Fold

RESULT = "result"
"""The part of `context` that has the facts."""
PRESENCE = CedarType(Kind.RECORD)
"""The type of a fact, or of a field, of which only the presence is read."""
_VALUES = (Kind.BOOL, Kind.LONG, Kind.DECIMAL, Kind.STRING, Kind.DATETIME, Kind.SET)
_SIMPLE = (Kind.BOOL, Kind.LONG, Kind.DECIMAL, Kind.STRING, Kind.DATETIME)

# By operator: the kinds of the operands, None for any, and that of the result.
_UNARY: Mapping[str, tuple[Kind | None, Kind | None]] = {
    "not": (Kind.BOOL, Kind.BOOL),
    "neg": (Kind.LONG, Kind.LONG),
    "is_empty": (Kind.SET, Kind.BOOL),
    "decimal": (Kind.STRING, Kind.DECIMAL),
    "datetime": (Kind.STRING, Kind.DATETIME),
    "to_date": (Kind.DATETIME, Kind.DATETIME),
    "to_time": (Kind.DATETIME, None),
    **dict.fromkeys(("to_milliseconds", "to_seconds", "to_minutes", "to_hours", "to_days"), (None, Kind.LONG)),
}
_BINARY: Mapping[str, tuple[Kind, Kind | None, Kind | None]] = {
    **dict.fromkeys(("and", "or"), (Kind.BOOL, Kind.BOOL, Kind.BOOL)),
    **dict.fromkeys(("add", "sub", "mul"), (Kind.LONG, Kind.LONG, Kind.LONG)),
    **dict.fromkeys(
        ("decimal_less_than", "decimal_less_eq", "decimal_greater", "decimal_greater_eq"),
        (Kind.DECIMAL, Kind.DECIMAL, Kind.BOOL),
    ),
    "duration_since": (Kind.DATETIME, Kind.DATETIME, None),
    "offset": (Kind.DATETIME, None, Kind.DATETIME),
}
_ORDERED = ("less", "less_eq", "greater", "greater_eq")


class _Variable:
    """The type of an expression, as far as it is known. Variables that are the same type share a root."""

    def __init__(self, kind: Kind | None = None, item: _Variable | None = None) -> None:
        self.same: _Variable | None = None
        self.kind = kind
        self.item = item
        self.fields: dict[str, _Variable] = {}
        self.optional: set[str] = set()
        self.is_compared = False
        self.is_ordered = False
        self.key: str | None = None
        """The condition that names the fact first; None for what is no fact."""

    @property
    def root(self) -> _Variable:
        found = self
        while found.same is not None:
            found = found.same
        return found


def _unite(left: _Variable | None, right: _Variable | None) -> None:
    """Make two types one. Raises `FactError` if they differ."""
    if left is None or right is None:
        return
    kept, other = left.root, right.root
    if kept is other:
        return
    if kept.kind and other.kind and kept.kind is not other.kind:
        if kept.key is None and other.key is None:
            # No fact is concerned: Cedar's own validation says what is wrong.
            return
        raise FactError(f"one of them is {_described(kept.kind)}, the other {_described(other.kind)}")
    other.same = kept
    kept.kind = kept.kind or other.kind
    kept.optional |= other.optional
    kept.is_compared |= other.is_compared
    kept.is_ordered |= other.is_ordered
    kept.key = kept.key or other.key
    items = kept.item, other.item
    kept.item = kept.item or other.item
    _unite(*items)
    for name, field in other.fields.items():
        _unite(kept.fields.setdefault(name, field), field)


def _described(kind: Kind) -> str:
    return {Kind.RECORD: "an object", Kind.SET: "a set", Kind.STRING: "a text", Kind.LONG: "a whole number"}.get(
        kind, f"a {kind.lower()}"
    )


class FactTypes:
    """The types of the facts that the conditions about one tool name."""

    def __init__(
        self,
        conditions: Mapping[str, pst.Template],
        facts: Callable[[Iterable[str]], Sequence[Fact]],
        action: ToolAction,
        actions: Mapping[str, ToolAction],
    ) -> None:
        """`conditions` are those about the tool `action`, by key. `facts` returns the declarations of facts by name, with those
        that they need. Raises `FactError`.
        """
        self._actions = actions
        self._top = _Variable(Kind.RECORD)
        self._context = action.context(())
        self._key = ""
        for key, condition in conditions.items():
            self._key = key
            for clause in condition.clauses:
                try:
                    _unite(self._read(clause), _Variable(Kind.BOOL))
                except FactError as exc:
                    raise FactError(f"the uses of a fact do not fit together: {exc}", key) from None
        named = self._top.root.fields
        declared = facts(named)
        self._by_name = {fact.name: fact for fact in declared}
        for fact in declared:
            self._read_parameters(fact)
        for fact in declared:
            if fact.name in named:
                _read_number(fact, named[fact.name].root)
        self.types: Mapping[str, CedarType] = {name: self._of_fact(self._by_name[name], named[name]) for name in sorted(named)}
        """The type of each fact that a condition names."""

    def _read(self, node: object) -> _Variable | None:
        """Return the type of an expression; None if it is not one of those that facts can have."""
        path = path_of(node)
        if path:
            return self._at(path)
        match node:
            case pst.StringLit():
                return _Variable(Kind.STRING)
            case pst.LongLit():
                return _Variable(Kind.LONG)
            case pst.BoolLit():
                return _Variable(Kind.BOOL)
            case pst.Set(elements):
                item = _Variable()
                for element in elements:
                    _unite(item, self._read(element))
                return _Variable(Kind.SET, item)
            case pst.HasAttr():
                return self._read_has(node)
            case pst.Like():
                _unite(self._read(node.base), _Variable(Kind.STRING))
                return _Variable(Kind.BOOL)
            case pst.IfThenElse(condition, then, otherwise):
                _unite(self._read(condition), _Variable(Kind.BOOL))
                first, second = self._read(then), self._read(otherwise)
                _unite(first, second)
                return first or second
            case pst.UnaryOp():
                operand, found = _UNARY.get(node.op, (None, None))
                argument = self._read(node.arg)
                if operand is not None:
                    _unite(argument, _Variable(operand, _Variable() if operand is Kind.SET else None))
                return None if found is None else _Variable(found)
            case pst.BinaryOp():
                return self._read_binary(node.op, self._read(node.left), self._read(node.right))
        # Of another expression, such as a clause, the only part; of several, none decides its type.
        parts = [self._read(part) for part in nodes(node)]
        return parts[0] if isinstance(node, pst.When | pst.Unless) else None

    def _read_binary(self, operator: str, left: _Variable | None, right: _Variable | None) -> _Variable | None:
        if operator in ("eq", "not_eq"):
            self._compare(left, right)
        elif operator in _ORDERED:
            # Of whole numbers or of times: the other side says which.
            _unite(left, right)
            for one in (left, right):
                if one is not None:
                    one.root.is_ordered = True
        elif operator == "contains":
            item = _Variable()
            _unite(left, _Variable(Kind.SET, item))
            self._compare(item, right)
        elif operator in ("contains_all", "contains_any"):
            items = _Variable(), _Variable()
            for side, item in zip((left, right), items, strict=True):
                _unite(side, _Variable(Kind.SET, item))
            self._compare(*items)
        elif operator in _BINARY:
            first, second, found = _BINARY[operator]
            _unite(left, _Variable(first))
            if second is not None:
                _unite(right, _Variable(second))
            return None if found is None else _Variable(found)
        return _Variable(Kind.BOOL)

    def _compare(self, left: _Variable | None, right: _Variable | None) -> None:
        _unite(left, right)
        for one in (left, right):
            if one is not None:
                one.root.is_compared = True

    def _at(self, path: tuple[str, ...]) -> _Variable | None:
        """Return the type of a part of `context`."""
        if path[0] == RESULT:
            return self._result(path[1:]) if path[1:] else None
        return _known(self._context, path)

    def _result(self, path: tuple[str, ...]) -> _Variable:
        found = self._top
        for depth, name in enumerate(path):
            record = found.root
            if record.kind not in (None, Kind.RECORD):
                raise FactError(f"'{'.'.join(path[:depth])}' is {_described(record.kind)} here, and elsewhere an object")
            record.kind = Kind.RECORD
            if name not in record.fields:
                record.fields[name] = _Variable()
                record.fields[name].key = self._key
            found = record.fields[name]
        return found

    def _read_has(self, node: pst.HasAttr) -> _Variable:
        base = path_of(node.base)
        if base is None or base[:1] != (RESULT,):
            self._read(node.base)
        else:
            at = base[1:]
            for name in node.attrs:
                self._result((*at, name))
                (self._result(at) if at else self._top).root.optional.add(name)
                at = (*at, name)
        return _Variable(Kind.BOOL)

    def _read_parameters(self, fact: Fact) -> None:
        """Let the parameters that facts fill say what type these have."""
        for parameter, source in fact.parameters:
            found = self._top.root.fields.get(source.root)
            for step in source.steps:
                found = None if found is None or step == EACH else found.root.fields.get(step)
            action = self._actions.get(fact.tools[0]) if fact.tools else None
            declared = None if action is None else action.arguments.field(parameter)
            if found is None or declared is None or declared.type.kind not in _SIMPLE:
                continue
            if found.root.kind is Kind.SET and source.each == source.steps[:-1] and found.root.item is not None:
                found = found.root.item
            kind = found.root.kind
            if kind is None:
                _unite(found, _Variable(declared.type.kind))
            elif kind is not declared.type.kind and not {kind, declared.type.kind} <= {Kind.LONG, Kind.DECIMAL}:
                kinds = _described(kind), _described(declared.type.kind)
                raise FactError(
                    f"the fact '{fact.name}': {source} is {kinds[0]}, and the parameter '{parameter}' {kinds[1]}",
                    fact=fact.name,
                )

    def _of_fact(self, fact: Fact, variable: _Variable) -> CedarType:
        used = variable.root
        declared = self._output(fact)
        if fact.kind is FactKind.PRODUCT or fact.fold is Fold.SUM:
            if used.kind not in (None, Kind.LONG, Kind.DECIMAL):
                raise FactError(
                    f"the fact '{fact.name}' is a number, and a condition uses it as {_described(used.kind)}", used.key
                )
            return PRESENCE if used.kind is None else CedarType(used.kind)
        if fact.fold is Fold.COUNT:
            _require(used, Kind.LONG, f"the fact '{fact.name}' is a number of values")
            return CedarType(Kind.LONG, low=0)
        if fact.is_set:
            if used.kind is not None or (declared is not None and declared.kind in _SIMPLE):
                _require(used, Kind.SET, f"the fact '{fact.name}' is a set, because several values can be selected")
                item = None if declared is None or declared.kind not in _SIMPLE else declared
                return self._of_set((fact.name,), used, item)
            return PRESENCE
        if not fact.path:
            _require(used, Kind.RECORD, f"the fact '{fact.name}' is a whole object: name one of its fields, or give it a path")
            used.kind = Kind.RECORD
        return self._of((fact.name,), variable, declared)

    def _of(self, path: tuple[str, ...], variable: _Variable, declared: CedarType | None) -> CedarType:
        used, name = variable.root, ".".join(path)
        if declared is not None and declared.kind is Kind.HIDDEN:
            declared = None
        if used.kind is Kind.RECORD or (used.kind is None and declared is not None and declared.kind is Kind.RECORD):
            if declared is not None and declared.kind in _VALUES:
                raise FactError(f"'{name}' is {_described(declared.kind)} in the output schema, and has no fields", used.key)
            return CedarType(Kind.RECORD, fields=tuple(self._fields(path, used, declared)))
        if used.kind is Kind.SET:
            if declared is not None and declared.kind in _SIMPLE:
                raise FactError(f"'{name}' is {_described(declared.kind)} in the output schema, and no set", used.key)
            return self._of_set(path, used, None if declared is None else declared.item)
        return self._of_value(name, used, declared)

    def _fields(self, path: tuple[str, ...], used: _Variable, declared: CedarType | None) -> Iterable[Field]:
        known = None if declared is None or declared.kind is not Kind.RECORD or not declared.fields else declared
        for name, variable in sorted(used.fields.items()):
            field = None if known is None else known.field(name)
            if known is not None and field is None:
                names = ", ".join(one.name for one in known.fields[:20])
                text = f"'{'.'.join(path)}' has no field '{name}': the output schema of its tool declares {names}"
                raise FactError(text, variable.root.key)
            type_ = self._of((*path, name), variable, None if field is None else field.type)
            yield Field(name, type_, name not in used.optional)

    def _of_set(self, path: tuple[str, ...], used: _Variable, declared: CedarType | None) -> CedarType:
        item = _Variable() if used.item is None else used.item
        item.root.is_compared = True
        item.root.key = item.root.key or used.key
        return CedarType(Kind.SET, item=self._of_value(f"an element of {'.'.join(path)}", item.root, declared))

    def _of_value(self, name: str, used: _Variable, declared: CedarType | None) -> CedarType:
        if used.kind in (Kind.RECORD, Kind.SET):
            raise FactError(f"'{name}' is {_described(used.kind)} here, and must be a simple value", used.key)
        kind = used.kind
        if declared is not None and declared.kind in _VALUES:
            # A time is a text in JSON, and so is a `Decimal` of Python; a whole number is a number.
            written = {Kind.DATETIME: (Kind.STRING,), Kind.DECIMAL: (Kind.LONG, Kind.STRING)}.get(kind or declared.kind, ())
            if kind is not None and declared.kind is not kind and declared.kind not in written:
                kinds = _described(kind), _described(declared.kind)
                raise FactError(f"'{name}' is {kinds[0]} here, and {kinds[1]} in the output schema of its tool", used.key)
            if kind in (None, declared.kind):
                return declared
        if kind is None and used.is_ordered:
            text = f"nothing says whether '{name}' is a whole number or a time: compare it with a value, or with an argument"
            raise FactError(text, used.key)
        return PRESENCE if kind is None and not used.is_compared else CedarType(kind or Kind.STRING)

    def _output(self, fact: Fact) -> CedarType | None:
        """Return the type that the output schemas declare for what a fact selects; None if they do not say.

        Raises `FactError` for a path that begins with a field that they do not declare.
        """
        if fact.kind is FactKind.PART:
            found = None if fact.of == ARGUMENTS else self._output(self._by_name[fact.of])
        else:
            action = self._actions.get(fact.tools[0]) if fact.tools else None
            found = None if action is None or len(fact.tools) > 1 else action.output
        selection = fact.selection
        for step in () if selection is None else selection.steps:
            if found is None or found.kind is not Kind.RECORD or not found.fields:
                return None
            if (field := found.field(step)) is None:
                names = ", ".join(one.name for one in found.fields[:20])
                text = f"the fact '{fact.name}': there is no field '{step}': the output schema of its tool declares {names}"
                raise FactError(text, fact=fact.name)
            found = field.type
        return found if selection is None or selection.is_plain else None


def _read_number(fact: Fact, used: _Variable) -> None:
    """Let a number say the type of what it is compared with, if nothing else does."""
    is_number = fact.kind is FactKind.PRODUCT or fact.fold in (Fold.SUM, Fold.COUNT)
    if is_number and used.kind is None and (used.is_compared or used.is_ordered):
        used.kind = Kind.LONG if fact.fold is Fold.COUNT or used.is_ordered else Kind.DECIMAL


def _require(used: _Variable, kind: Kind, why: str) -> None:
    if used.kind not in (None, kind):
        raise FactError(f"{why}, and a condition uses it as {_described(used.kind)}", used.key)


def _known(type_: CedarType, path: tuple[str, ...]) -> _Variable | None:
    for name in path:
        field = type_.field(name) if type_.kind in (Kind.RECORD, Kind.VARIANT) else None
        if field is None:
            return None
        type_ = field.type
    if type_.kind not in _VALUES:
        return None
    return _Variable(type_.kind, None if type_.item is None else _Variable(type_.item.kind))
