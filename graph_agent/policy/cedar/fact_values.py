"""The values of facts: taken from the results of tools, kept as far as something names them, and converted for Cedar.

Only what a server does not have is absent. Everything else that a condition names and that is not there as it should be (a
failed read, a missing field, a value of another type, a shortened result) is a reason to refuse the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.facts import NOT_GIVEN, FactRead, KnownRead, Selected, ShownFact
from graph_agent.models.result_size import LEFT_OUT
from graph_agent.models.tools import ContentKind, ToolResult
from graph_agent.policy.cedar import values
from graph_agent.policy.cedar.declared_facts import DeclaredFacts
from graph_agent.policy.cedar.facts import ARGUMENTS, EACH, Fact, FactKind, Source
from graph_agent.policy.cedar.syntax import Reads
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.cedar.values import Unconvertible
from graph_agent.reply.text import exact, one_line, quoted

_MAX_SHOWN = 80
"""The longest value that a reason shows, in characters."""
_MAX_REASON = 400


class UnreadableError(Exception):
    """A fact cannot be known; the text is a clause about it."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of one call. One that is in neither `values` nor `failed` is absent."""

    values: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    about: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The arguments of the reads by fact: what tells its object from others."""

    def add(self, found: Selected) -> None:
        self.values.update(found.values)
        self.failed.update(found.failed)


def selected(declared: DeclaredFacts, tool_name: str, result: ToolResult, *, is_text: bool | None = None) -> Selected:
    """Return what the facts from reads of `tool_name` have from this result.

    `is_text` says whether the data was a text; None leaves that to the parts of the result.
    """
    roots = [fact for fact in declared.order if fact.kind is FactKind.READ and fact.tools == (tool_name,)]
    return _selected(declared, roots, result, is_text=is_text)


def selected_last(declared: DeclaredFacts, fact: Fact, result: ToolResult, *, is_text: bool | None = None) -> Selected:
    """Return what a fact that is the newest result of a tool has from this one, with the facts that are parts of it."""
    return _selected(declared, [fact], result, is_text=is_text)


def read_of(declared: DeclaredFacts, tool_name: str, arguments: dict[str, Any], result: ToolResult) -> FactRead:
    """Return what is recorded of a read."""
    if isinstance(result, KnownRead):
        return _of_known(declared, tool_name, arguments, result.read)
    if result.success:
        found = selected(declared, tool_name, result)
        return FactRead(tool=tool_name, arguments=arguments, values=found.values, failed=found.failed)
    is_absent = result.error_code is ToolErrorCode.NOT_FOUND
    why = None if is_absent else _ERRORS.get(result.error_code, "the read failed")
    return FactRead(tool=tool_name, arguments=arguments, error=why)


def by_path(declared: DeclaredFacts, read: FactRead) -> FactRead:
    """Return a read of these facts with its facts by their path, for a `KnownRead`."""
    values: dict[str, Any] = {}
    for fact in declared.order:
        if fact.name in read.values:
            value = _with_gaps(read.values[fact.name], declared.named.get(fact.name, {}))
            path, known = _path(declared, fact), values.get(_path(declared, fact))
            values[path] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    failed = {_path(declared, fact): read.failed[fact.name] for fact in declared.order if fact.name in read.failed}
    return read.replace(values=values, failed=failed)


def _of_known(declared: DeclaredFacts, tool_name: str, arguments: dict[str, Any], known: FactRead) -> FactRead:
    """Return what the facts of `declared` have from a read whose facts are by their path."""
    read = FactRead(tool=tool_name, arguments=arguments, error=known.error)
    if known.error is not None or not (known.values or known.failed):
        return read
    roots = [fact for fact in declared.order if fact.kind is FactKind.READ and fact.tools == (tool_name,)]
    names = {name for root in roots for name in declared.parts_of(root)}
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
    return f"count {path}" if fact.count else path


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
            _add(found, fact, given)
    return _with_parts(declared, found)


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


def cedar_values(types: Mapping[str, CedarType], facts: Sequence[Fact], known: CallFacts, time_zone: str) -> dict[str, Any]:
    """Return the facts of a call that conditions name as Cedar's JSON. `types` are those of the facts of its tool.

    Raises `Unconvertible` if one of them is not known.
    """
    found = {}
    for fact in facts:
        type_ = types.get(fact.name)
        if type_ is None:
            continue
        if (why := known.failed.get(fact.name)) is not None:
            raise Unconvertible(f"'{fact.name}' is not known: {why}")
        if fact.name in known.values:
            found[fact.name] = _converted(type_, known.values[fact.name], fact.name, time_zone)
    return found


def described(types: Mapping[str, CedarType], named: Iterable[tuple[str, ...]], known: CallFacts) -> str:
    """Return the facts at these paths for people and for the model: `order 'W1': status = 'delivered'`.

    `types` are those of the facts of the tool. The values are a server's words: quoted, and cut.
    """
    fields: dict[str, list[str]] = {}
    for name, *steps in sorted(set(named)):
        shown = _shown(known.values.get(name), steps) if name in known.values and steps else None
        fields.setdefault(name, []).extend([] if shown is None else [f"{'.'.join(steps)} = {shown}"])
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
    about = " ".join([name, *(_text(one) for one in known.about.get(name, ()))])
    if name not in known.values:
        return f"{about}: not found"
    if fields:
        return f"{about}: {', '.join(fields)}"
    type_ = types.get(name)
    is_object = type_ is None or type_.kind is Kind.RECORD
    return about if is_object else f"{name} = {_text(known.values[name])}"


def _shown(value: Any, steps: Sequence[str]) -> str | None:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return "missing" if value is None else _text(value)


def _text(value: Any) -> str:
    return quoted(value, _MAX_SHOWN) if isinstance(value, str) else exact(canonical_json(value), _MAX_SHOWN)


def _selected(declared: DeclaredFacts, roots: Sequence[Fact], result: ToolResult, *, is_text: bool | None) -> Selected:
    found = Selected()
    try:
        data = whole_data(result, is_text=is_text)
    except UnreadableError as exc:
        found.failed.update({fact.name: str(exc) for fact in roots})
    else:
        for fact in roots:
            _add(found, fact, data)
    return _with_parts(declared, found)


def _with_parts(declared: DeclaredFacts, found: Selected) -> Selected:
    """Return `found` with the facts that are parts of others in it, and of each value what something names."""
    for fact in declared.order:
        if fact.kind is FactKind.PART and fact.of in found.failed:
            found.failed[fact.name] = found.failed[fact.of]
        elif fact.kind is FactKind.PART and fact.of in found.values:
            _add(found, fact, found.values[fact.of])
    kept = {name: _kept(value, declared.named.get(name, {})) for name, value in found.values.items()}
    return Selected(values=kept, failed=found.failed)


def _add(found: Selected, fact: Fact, data: Any) -> None:
    """Add the value of a fact in `data`, or the reason why it has none."""
    try:
        found.values[fact.name] = _value(fact, data)
    except UnreadableError as exc:
        found.failed[fact.name] = str(exc)


def _value(fact: Fact, data: Any) -> Any:
    if fact.selection is None:
        return data
    # Imported here, because its library is only loaded where a declaration has a path.
    from graph_agent.policy.cedar.selection import NotSelectedError

    try:
        found = fact.selection.of(data)
    except NotSelectedError as exc:
        raise UnreadableError(str(exc)) from None
    if fact.count:
        return len(found)
    return found if fact.is_set else found[0]


def whole_data(result: ToolResult, *, is_text: bool | None = None) -> Any:
    """Return the data of a result. Without structured content it is the JSON of a text. Raises `UnreadableError`."""
    data = result.data
    if isinstance(data, dict) and LEFT_OUT in data:
        raise UnreadableError("its result is too large to be read whole")
    if is_text is None:
        kinds = {item.kind for item in result.content}
        is_text = ContentKind.TEXT in kinds and ContentKind.STRUCTURED not in kinds
    if not is_text or not isinstance(data, dict) or data.keys() != {"text"} or not isinstance(data["text"], str):
        return data
    try:
        found = json.loads(data["text"], object_pairs_hook=_unambiguous, parse_constant=_no_constant)
        # A number beyond those of JSON, or half of a character: no record could have it.
        canonical_json(found).encode()
    except (ValueError, RecursionError):
        return data
    # A list or a simple value has the form in which servers with structured content send it.
    return found if isinstance(found, dict) else {"result": found}


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


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


def _converted(type_: CedarType, value: Any, name: str, time_zone: str) -> Any:
    """Return a value as Cedar's JSON. Unlike with arguments, one value is no set of it. Raises `Unconvertible`."""
    match type_.kind, value:
        case Kind.RECORD, dict():
            found = {}
            for field_name, part, required in type_.fields:
                path = f"{name}.{field_name}"
                if value.get(field_name) is not None:
                    found[field_name] = _converted(part, value[field_name], path, time_zone)
                elif required:
                    raise Unconvertible(f"'{path}' is missing in what was read")
            return found
        case Kind.RECORD, _ if not type_.fields and value is not None:
            return {}
        case Kind.SET, list():
            assert type_.item is not None
            _require_within(type_, len(value), name)
            return [_converted(type_.item, one, f"an element of {name}", time_zone) for one in value]
        case Kind.DATETIME, str():
            return {"__extn": {"fn": "datetime", "arg": _time(value, name, time_zone)}}
        # A `Decimal` of Python is a text in JSON.
        case ((Kind.LONG | Kind.DECIMAL) as kind, _) if values.is_number(value) and (kind, type(value)) != (Kind.LONG, str):
            number = values.scaled(type_.kind, value, name)
            _require_within(type_, Decimal(str(value)), name)
            _require_declared(type_, number, name)
            return values.number_json(type_.kind, number)
        case ((Kind.BOOL | Kind.STRING), str() | bool()):
            found = values.convert(type_, value, Reads(()), "", name)
            _require_within(type_, len(value) if isinstance(value, str) else value, name)
            _require_declared(type_, value, name)
            return found
    raise Unconvertible(f"'{name}' has another type in what was read than the conditions expect")


def _require_within(type_: CedarType, size: float | Decimal, name: str) -> None:
    """Raise `Unconvertible` for what the output schema rules out: a proof over the conditions relies on it."""
    if not (type_.low is None or size >= type_.low) or not (type_.high is None or size <= type_.high):
        raise Unconvertible(f"'{name}' is outside the limits of the output schema of its tool")


def _require_declared(type_: CedarType, value: str | int, name: str) -> None:
    if type_.values and value not in type_.values:
        raise Unconvertible(f"'{name}' has a value that the output schema of its tool does not have")


def _time(text: str, name: str, time_zone: str) -> str:
    """Return a date or a time of ISO 8601 as Cedar writes it. One without an offset is in the time zone of the conditions."""
    try:
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(time_zone))
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise Unconvertible(f"'{name}' is no time in what was read") from None
