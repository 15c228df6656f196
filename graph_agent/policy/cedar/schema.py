"""The Cedar schema of an installation, generated from the JSON Schemas of its tools.

principal  User::"<id>", in Role::"<role>"
action     Action::"<tool>", in "all tools", "all writes" or "all reads", and "server <name>"
resource   Server::"<name>"
context    arguments, confirmed, approvals, used, succeeded, attempted, hidden, length, domain, time, result, source, sources,
           tainted
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graph_agent.errors import ConfigurationError
from graph_agent.models.facts import WEEKDAYS, WINDOWS
from graph_agent.models.sources import Source
from graph_agent.policy.argument_parts import ArgumentPart
from graph_agent.policy.cedar.conditions import EVERYBODY
from graph_agent.policy.cedar.types import RESERVED, CedarType, Field, Kind, arguments_type
from graph_agent.policy.schema.keywords import BRANCHES, REFERENCES

CEDAR_WORDS = frozenset({"true", "false", "if", "then", "else", "in", "is", "like", "has", "__cedar"})
ALL_TOOLS, ALL_WRITES, ALL_READS = "all tools", "all writes", "all reads"
_COUNT = CedarType(Kind.LONG, low=0)
_PEOPLE = CedarType(Kind.LONG, low=0, high=EVERYBODY)
_TEXTS = CedarType(Kind.SET, item=CedarType(Kind.STRING))
_ACTIONS = CedarType(Kind.SET, item=CedarType(Kind.ACTION))
_SOURCES = CedarType(Kind.SET, item=CedarType(Kind.STRING, values=tuple(Source)))


@dataclass(frozen=True)
class ToolAction:
    """A tool as Cedar sees it."""

    name: str
    server: str
    writes: bool
    arguments: CedarType
    open: bool = False
    """True if a call may have arguments that the schema does not declare."""
    bound_argument: str | None = None
    """The argument that is the signed-in user, whatever a call says."""
    gives_facts: bool = True
    """False if the tool's server is not trusted, so that its results decide about no call."""
    output: CedarType | None = None
    """The type of its results, if the server declares one."""
    result: CedarType | None = None
    """The facts that conditions name and that a call of this tool can have, each optional. None if no condition names any."""

    seen: frozenset[tuple[str, str, str]] = frozenset()
    """The paths by which facts see inside hidden arguments: the argument, the path, and what conditions read there.

    An argument of which they show everything is not in `context.hidden`.
    """
    source_parts: tuple[ArgumentPart, ...] = ()
    """The parts of arguments whose sources conditions name."""

    @classmethod
    def of(
        cls,
        name: str,
        server: str,
        parameters: dict[str, Any],
        *,
        writes: bool,
        output: dict[str, Any] | None = None,
        **known: Any,
    ) -> ToolAction:
        """Return the action of a tool with these schemas of its arguments and of its results. `known` are other fields."""
        results = None if output is None else arguments_type(output)
        return cls(name, server, writes, arguments_type(parameters), _is_open(parameters), output=results, **known)

    @cached_property
    def seen_arguments(self) -> frozenset[str]:
        """The arguments that facts see into."""
        return frozenset(argument for argument, _, _ in self.seen)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of actions that the tool is in."""
        return ALL_TOOLS, ALL_WRITES if self.writes else ALL_READS, f"server {self.server}"

    @cached_property
    def numbers(self) -> tuple[Field, ...]:
        """The arguments that are summed in `used`, with the type of the number."""
        found = ((one.name, one.type.number, one.required) for one in self.arguments.fields)
        return tuple(Field(name, number, required) for name, number, required in found if number is not None)

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The arguments with a `length`."""
        return tuple(one.name for one in self.arguments.fields if one.type.kind is Kind.SET or one.type.is_list)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The arguments with a `domain`: free texts and lists of them."""
        return tuple(one.name for one in self.arguments.fields if _is_text(one.type))

    @cached_property
    def sourced(self) -> tuple[str, ...]:
        """The arguments with a `source`: all that a condition can name."""
        return tuple(one.name for one in self.arguments.fields if not one.name.startswith(RESERVED))

    @property
    def named_parts(self) -> tuple[str, ...]:
        """The names of the `source_parts`."""
        return tuple(part.name for part in self.source_parts)

    def context(self, roles: Iterable[str]) -> CedarType:
        """Return the type of `context` in a request about this tool, where people of `roles` can approve calls."""
        sums = _record(*(Field(name, CedarType(part.kind, low=0)) for name, part, _ in self.numbers))
        # With this call, so there is at least one.
        window = _record(Field("calls", CedarType(Kind.LONG, low=1)), Field("writes", _COUNT), Field("sum", sums))
        hour, weekday = CedarType(Kind.LONG, low=0, high=23), CedarType(Kind.STRING, values=WEEKDAYS)
        return _record(
            Field("arguments", self.arguments),
            Field("confirmed", CedarType(Kind.BOOL)),
            Field("approvals", _record(*(Field(role, _PEOPLE) for role in roles))),
            Field("used", _record(*(Field(name, window) for name in WINDOWS))),
            Field("succeeded", _ACTIONS),
            Field("attempted", _ACTIONS),
            Field("hidden", _TEXTS),
            Field("length", _record(*(Field(name, _COUNT) for name in self.lists))),
            Field("domain", _record(*(Field(name, _TEXTS) for name in self.texts))),
            Field("time", _record(Field("now", CedarType(Kind.DATETIME)), Field("hour", hour), Field("weekday", weekday))),
            *(() if self.result is None else (Field("result", self.result),)),
            Field("source", _record(*(Field(name, _SOURCES) for name in (*self.sourced, *self.named_parts)))),
            Field("sources", _SOURCES),
            Field("tainted", CedarType(Kind.BOOL)),
        )


def cedar_schema(actions: Sequence[ToolAction], roles: Iterable[str]) -> str:
    """Return the schema in Cedar's own syntax. Raises `ConfigurationError` if a tool has the name of a group."""
    groups = dict.fromkeys([ALL_TOOLS, ALL_WRITES, ALL_READS, *(group for one in actions for group in one.groups)])
    for action in actions:
        if action.name in groups:
            raise ConfigurationError(
                f"the tool '{action.name}' has the name of a group of actions, so conditions cannot name it"
            )
    roles = tuple(roles)
    named = [quoted(role) for role in roles]
    # Enumerated, so that the validator finds a misspelt role; without roles no condition can name one.
    lines = [f"entity Role enum [{', '.join(named)}];", "entity User in [Role];"] if named else ["entity User;"]
    lines += ["entity Server;", *(f"action {quoted(group)};" for group in groups)]
    lines += [
        f"action {quoted(one.name)} in [{', '.join(map(quoted, one.groups))}] appliesTo {{\n"
        f"  principal: User, resource: Server, context: {_text(one.context(roles))}\n}};"
        for one in actions
    ]
    return "\n".join(lines) + "\n"


def is_group(name: str) -> bool:
    """True for the name of a group of actions, which conditions cannot tell from a tool of that name."""
    return name in (ALL_TOOLS, ALL_WRITES, ALL_READS) or name.startswith("server ")


def quoted(text: str) -> str:
    """Return `text` as a Cedar string."""
    escaped = (
        f"\\{c}" if c in '"\\' else f"\\u{{{ord(c):x}}}" if unicodedata.category(c)[0] in "CZ" and c != " " else c for c in text
    )
    return f'"{"".join(escaped)}"'


def attribute(name: str) -> str:
    """Return the access to a field of a record, as in `.amount` and `["to whom"]`."""
    return f".{name}" if name.isidentifier() and name.isascii() and name not in CEDAR_WORDS else f"[{quoted(name)}]"


def _text(type_: CedarType) -> str:
    match type_.kind:
        case Kind.SET:
            assert type_.item is not None
            return f"Set<{_text(type_.item)}>"
        case Kind.RECORD | Kind.VARIANT:
            seen = (one for one in type_.fields if one.type.kind is not Kind.HIDDEN)
            fields = (f"{quoted(name)}{'' if required else '?'}: {_text(part)}" for name, part, required in seen)
            return f"{{ {', '.join(fields)} }}"
    return str(type_.kind)


def _record(*fields: Field) -> CedarType:
    return CedarType(Kind.RECORD, fields=fields)


def _is_open(schema: dict[str, Any]) -> bool:
    """True if the guard may accept arguments that `properties` does not name: see `policy/schema/strict.py`."""
    combined = {"patternProperties", "dependentSchemas", "if", *BRANCHES, *REFERENCES} & schema.keys()
    limits = (schema.get(word, False) for word in ("additionalProperties", "unevaluatedProperties"))
    return bool(combined) or any(limit is not False for limit in limits)


def _is_text(type_: CedarType) -> bool:
    one = type_.item if type_.kind is Kind.SET else type_
    return one is not None and one.kind is Kind.STRING and not one.values
