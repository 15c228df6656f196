"""The values of facts: taken from the results of tools, and kept as far as something names them.

Only what a server does not have is absent. Everything else that a condition names and that is not there as it should be (a
failed read, a missing field, a value of another type, a shortened result) is a reason to refuse the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.facts import NOT_GIVEN, FactRead, KnownRead, Selected, ShownFact
from graph_agent.models.tools import ToolResult
from graph_agent.policy.amounts import total
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.result_data import whole_data
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.facts import ARGUMENTS, EACH, Fact, FactKind, Fold, Source
from graph_agent.reply.text import exact, one_line, quoted

if TYPE_CHECKING:
    # Only named in signatures: it imports Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.declared_facts import DeclaredFacts

_MAX_SHOWN = 80
"""The longest value that a reason shows, in characters."""
_MAX_REASON = 400
_NONE: Mapping[str, Any] = MappingProxyType({})


def selected(declared: DeclaredFacts, tool_name: str, result: ToolResult, compared: Mapping[str, Any] = _NONE) -> Selected:
    """Return what the facts from reads of `tool_name` have from this result.

    `compared` are the arguments of the call that their paths compare.
    """
    return _selected(declared, _read_by(declared, tool_name), result, compared)


def compared_by(declared: DeclaredFacts, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that the facts from reads of `tool_name` compare, by name."""
    names = {name for root in _read_by(declared, tool_name) for name in declared.parts_of(root)}
    wanted = {argument for name in names for argument in declared.declared[name].compared}
    return {name: arguments[name] for name in sorted(wanted) if arguments.get(name) is not None}


def selected_last(declared: DeclaredFacts, fact: Fact, result: ToolResult, *, is_text: bool | None = None) -> Selected:
    """Return what a fact that is the newest result of a tool has from this one, with the facts that are parts of it.

    `is_text` says whether the data was a text; None leaves that to the parts of the result.
    """
    return _selected(declared, [fact], result, is_text=is_text)


def read_of(
    declared: DeclaredFacts | None,
    tool_name: str,
    arguments: dict[str, Any],
    result: ToolResult,
    compared: Mapping[str, Any] = _NONE,
) -> FactRead:
    """Return the facts in a read for a call whose arguments `compared` their paths compare; None if no condition names one."""
    read = FactRead(tool=tool_name, arguments=arguments, compared=dict(compared))
    if isinstance(result, KnownRead):
        return read.replace(error=result.read.error) if declared is None else _of_known(declared, read, result.read)
    if result.success and declared is None:
        return read
    if result.success and declared is not None:
        found = selected(declared, tool_name, result, compared)
        return read.replace(values=found.values, failed=found.failed)
    is_absent = result.error_code is ToolErrorCode.NOT_FOUND
    return read.replace(error=None if is_absent else _ERRORS.get(result.error_code, "the read failed"))


def _read_by(declared: DeclaredFacts, tool_name: str) -> list[Fact]:
    return [fact for fact in declared.order if fact.kind is FactKind.READ and fact.tools == (tool_name,)]


def by_path(declared: DeclaredFacts | None, read: FactRead) -> FactRead:
    """Return a read of these facts with its facts by their path, for a `KnownRead`; None if no condition names one."""
    values = {place: value for place, value in read.values.items() if place.startswith("$")}
    failed = {place: why for place, why in read.failed.items() if place.startswith("$")}
    if declared is None:
        return read.replace(values=values, failed=failed)
    for fact in declared.order:
        if fact.name in read.values:
            value = _with_gaps(read.values[fact.name], declared.named.get(fact.name, {}))
            path, known = _path(declared, fact), values.get(_path(declared, fact))
            values[path] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
        if fact.name in read.failed:
            failed[_path(declared, fact)] = read.failed[fact.name]
    return read.replace(values=values, failed=failed)


def _of_known(declared: DeclaredFacts, read: FactRead, known: FactRead) -> FactRead:
    """Return what the facts of `declared` have from a read whose facts are by their path."""
    read = read.replace(error=known.error)
    if known.error is not None or not (known.values or known.failed):
        return read
    names = {name for root in _read_by(declared, read.tool) for name in declared.parts_of(root)}
    for fact in declared.order:
        if fact.name not in names:
            continue
        path, named = _path(declared, fact), declared.named.get(fact.name, {})
        if path in known.failed:
            read.failed[fact.name] = known.failed[path]
        elif path in known.values and _covers(known.values[path], named):
            read.values[fact.name] = _kept(known.values[path], named)
        else:
            read.failed[fact.name] = NOT_GIVEN
    return read


def _path(declared: DeclaredFacts, fact: Fact) -> str:
    """Return the path of a fact in the result that it is read from, such as `$.customer $.name` for a part of a part."""
    base = _path(declared, declared.declared[fact.of]) if fact.of in declared.declared else "$"
    path = " ".join(one for one in (base, fact.path) if one and (one != "$" or not fact.path))
    return path if fact.fold is None else f"{fact.fold} {path}"


def _with_gaps(value: Any, named: Mapping[str, Any]) -> Any:
    """Return a value with null for each field that something names and that it does not have."""
    if EACH in named:
        return [_with_gaps(one, named[EACH]) for one in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    return {name: _with_gaps(value.get(name), part) for name, part in named.items()}


def _covers(value: Any, named: Mapping[str, Any]) -> bool:
    """True if a value with gaps says of each field that something names what it is, or that there is none."""
    if EACH in named:
        return all(_covers(one, named[EACH]) for one in value) if isinstance(value, list) else True
    return not isinstance(value, dict) or all(name in value and _covers(value[name], part) for name, part in named.items())


_ERRORS: Mapping[ToolErrorCode | None, str] = {
    ToolErrorCode.TIMEOUT_ERROR: "there was no answer in time",
    ToolErrorCode.TOOL_UNAVAILABLE: "its server is not available",
    ToolErrorCode.ACCESS_DENIED: "its server does not permit the read",
}


def of_arguments(declared: DeclaredFacts, facts: Sequence[Fact], arguments: dict[str, Any]) -> Selected:
    """Return those of `facts` that are parts of the arguments of a call."""
    given = {name: value for name, value in arguments.items() if value is not None}
    roots = [fact for fact in facts if fact.of == ARGUMENTS]
    found = Selected()
    for fact in roots:
        # An argument that a call may leave out: nothing is missing that should be there.
        if fact.arguments <= given.keys():
            _add(found, fact, given, given)
    return _with_parts(declared, found, given)


def filled(source: Source, arguments: dict[str, Any], user_id: str, known: CallFacts) -> Any:
    """Return the value of a parameter, the list of the values if the source leads to each element, or None if it is absent.

    Raises `UnreadableError`.
    """
    if source.root not in (ARGUMENTS, "principal"):
        if (why := known.failed.get(source.root)) is not None:
            raise UnreadableError(why)
        if source.root not in known.values:
            return None
        return _at(source, known.values[source.root])
    if source.root != ARGUMENTS:
        return user_id
    return None if arguments.get(source.steps[0]) is None else _at(source, arguments)


def described(types: Mapping[str, CedarType], named: Iterable[tuple[str, ...]], known: CallFacts) -> str:
    """Return the facts at these paths for people and for the model: `order 'W1': status = 'delivered'`.

    `types` are those of the facts of the tool. The values are a server's words: quoted, and cut.
    """
    fields: dict[str, list[str]] = {}
    for name, *steps in sorted(set(named)):
        shown = _shown(known.values.get(name), steps) if name in known.values and steps else None
        fields.setdefault(name, []).extend([] if shown is None else [f"{_in_words('.'.join(steps))} = {shown}"])
    return one_line("; ".join(_object(name, types, known, shown) for name, shown in fields.items()), _MAX_REASON)


def shown_facts(declared: DeclaredFacts, tool_name: str, known: CallFacts) -> tuple[ShownFact, ...]:
    """Return what the conditions about a tool read of the objects of a call. What comes from the arguments is shown as such."""
    types = declared.types[tool_name]
    shown = [fact for fact in declared.of_tool[tool_name] if fact.name in types and not declared.is_of_arguments(fact)]
    return tuple(_shown_fact(types[fact.name], fact.name, known) for fact in shown)


def _shown_fact(type_: CedarType, name: str, known: CallFacts) -> ShownFact:
    about = known.about.get(name, ())
    if (why := known.failed.get(name)) is not None:
        return ShownFact(name=name, about=about, missing=f"not known: {why}")
    if name not in known.values:
        return ShownFact(name=name, about=about, missing="not found")
    return ShownFact(name=name, about=about, values=dict(_fields(type_, known.values[name], "")))


def _fields(type_: CedarType, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a fact that conditions name, by their path, with their values; none if only its existence is read."""
    if not isinstance(value, dict) or not type_.fields:
        if value != {} or path:
            yield path, True if value == {} else value
        return
    for name, part, _ in type_.fields:
        if value.get(name) is not None:
            yield from _fields(part, value[name], f"{path}.{name}" if path else name)


def _object(name: str, types: Mapping[str, CedarType], known: CallFacts, fields: Sequence[str]) -> str:
    about = " ".join([_in_words(name), *(_text(one) for one in known.about.get(name, ()))])
    if name not in known.values:
        return f"{about}: not found"
    if fields:
        return f"{about}: {', '.join(fields)}"
    type_ = types.get(name)
    is_object = type_ is None or type_.kind is Kind.RECORD
    return about if is_object else f"{_in_words(name)} = {_text(known.values[name])}"


def _in_words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: Any, steps: Sequence[str]) -> str | None:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return "missing" if value is None else _text(value)


def _text(value: Any) -> str:
    return quoted(value, _MAX_SHOWN) if isinstance(value, str) else exact(canonical_json(value), _MAX_SHOWN)


def _selected(
    declared: DeclaredFacts,
    roots: Sequence[Fact],
    result: ToolResult,
    compared: Mapping[str, Any] = _NONE,
    *,
    is_text: bool | None = None,
) -> Selected:
    found = Selected()
    try:
        data = whole_data(result, is_text=is_text)
    except UnreadableError as exc:
        found.failed.update({fact.name: str(exc) for fact in roots})
    else:
        for fact in roots:
            _add(found, fact, data, compared)
    return _with_parts(declared, found, compared)


def _with_parts(declared: DeclaredFacts, found: Selected, compared: Mapping[str, Any]) -> Selected:
    """Return `found` with the facts that are parts of others in it, and of each value what something names."""
    for fact in declared.order:
        if fact.kind is FactKind.PART and fact.of in found.failed:
            found.failed[fact.name] = found.failed[fact.of]
        elif fact.kind is FactKind.PART and fact.of in found.values:
            _add(found, fact, found.values[fact.of], compared)
    kept = {name: _kept(value, declared.named.get(name, {})) for name, value in found.values.items()}
    return Selected(values=kept, failed=found.failed)


def _add(found: Selected, fact: Fact, data: Any, compared: Mapping[str, Any]) -> None:
    """Add the value of a fact in `data`, or the reason why it has none. Without what its path compares it is absent."""
    if not fact.compared <= compared.keys():
        return
    try:
        values = [data] if fact.selection is None else fact.selection.of(data, compared)
        if values or fact.fold is not Fold.ONE:
            found.values[fact.name] = folded(fact, values)
    except UnreadableError as exc:
        found.failed[fact.name] = str(exc)


def folded(fact: Fact, values: list[Any]) -> Any:
    """Return the value of a fact from those that its path has selected. Raises `UnreadableError`."""
    match fact.fold:
        case Fold.COUNT:
            return len(values)
        case Fold.SUM:
            return total(values)
        case Fold.ONE if len(values) > 1:
            raise UnreadableError("its path selects more than one value")
    return values if fact.is_set else values[0]


def _kept(value: Any, named: Mapping[str, Any]) -> Any:
    """Return the parts of a value that something names; `named` is a tree of the names of fields."""
    if not named:
        return {} if isinstance(value, dict) else value
    if EACH in named:
        return [_kept(one, named[EACH]) for one in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    return {name: _kept(value[name], part) for name, part in named.items() if value.get(name) is not None}


def _at(source: Source, value: Any) -> Any:
    """Return the value that the steps of a source lead to, or the list of those of each element."""
    for number, step in enumerate(source.steps):
        if step == EACH:
            if not isinstance(value, list):
                raise UnreadableError(f"{Source(source.root, source.steps[:number])} is no list")
            rest = Source(source.root, source.steps[number + 1 :])
            return [_at(rest, one) for one in value]
        value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            raise UnreadableError(f"{Source(source.root, source.steps[: number + 1])} is missing")
    if value is None:
        raise UnreadableError(f"an element of {source} is null")
    return value
