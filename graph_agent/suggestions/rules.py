"""The suggested conditions, written from the evidence: each asks for a yes outside of what was ordinary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graph_agent.policy.cedar.schema import attribute, quoted
from graph_agent.policy.cedar.syntax import unique_ids
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.cedar.values import AMBIGUOUS
from graph_agent.policy.counted import names_object
from graph_agent.policy.facts import Fact, parse_fact
from graph_agent.reply.text import counted, one_line
from graph_agent.suggestions.evidence import Evidence, Part, Path, ToolEvidence
from graph_agent.suggestions.facts import FactEvidence, ReadPath
from graph_agent.suggestions.left_out import (
    MAX_NAME,
    MIN_CALLS,
    LeftOut,
    digits,
    limit_of,
    may_identify,
    numbers_above,
    other_values,
    seen,
    without_rule,
)
from graph_agent.suggestions.samples import OUTLIERS, Choices, hours_of

MIN_DAYS: Final = 5
"""A tool that was used on fewer days gets no rule about hours and days."""
MAX_CHOICES: Final = 20
_MAX_COMMENT: Final = 300
MAX_HOURS: Final = 16
"""A longer span of hours is no limit."""
_TRUTHS: Final = {"true", "false"}

_HEAD = """\
// Suggested from the record: {period}.
// Outside of what was ordinary, the user is asked. Delete `unless {{ context.confirmed }}` to refuse instead.
// Read each rule, and delete what was chance. Values of fewer than {enough} users are not in this file.
{facts}
@id("what the constitution lists")
permit (principal, action, resource);
"""
_FACTS = """\
// They need these lines in the section `## Facts` of the constitution:
"""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One rule."""

    name: str
    """Its `@id`."""
    tool: str
    evidence: str
    """The reason, as a comment."""
    condition: str
    """The clause without its braces: the call is unusual if it holds."""
    fact: ReadPath | None = None
    """The read that gives the fact that it names."""
    stricter: str = "true"
    """The clause of a slightly stricter rule: what it newly asks about is at the border."""
    argument: str = ""
    """The argument that it is about, if it is about one."""

    def text(self, *, shadow: bool) -> str:
        """Return the rule."""
        mark = "@shadow " if shadow else ""
        scope = f"(principal, action == Action::{quoted(self.tool)}, resource)"
        lines = f"// {one_line(self.evidence, _MAX_COMMENT)}\n{mark}@id({quoted(self.name)})\nforbid {scope}\n"
        return f"{lines}when {{ {self.condition} }}\nunless {{ context.confirmed }};\n"


def policy_text(
    suggestions: Sequence[Suggestion], evidence: Evidence, enough: int, *, shadow: bool = False, tool: str | None = None
) -> str:
    """Return the conditions file, or the part of it that is about one tool."""
    printed = [one for one in suggestions if tool in (None, one.tool)]
    period = f"{evidence.calls} calls from {evidence.first} to {evidence.last}" if evidence.calls else "it has no calls"
    declared = "".join(f"// - {name}: {fact.text}\n" for name, fact in sorted(facts_of(printed).items()))
    facts = declared and f"{_FACTS}{declared}"
    head = _HEAD.format(period=period, enough=enough, facts=facts)
    return "\n".join([head, *(one.text(shadow=shadow) for one in printed)])


def facts_of(suggestions: Iterable[Suggestion]) -> dict[str, Fact]:
    """Return the facts that rules name, as the constitution has to declare them."""
    named = (one.fact for one in suggestions if one.fact is not None)
    return {path.fact: parse_fact(path.fact, path.declaration) for path in named}


Found = Suggestion | LeftOut


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a suggestion."""

    enough: int
    """The users below which a value says nothing."""
    roles: Sequence[str] = ()
    confirmed: frozenset[str] = frozenset()
    """The tools of which the constitution asks about each call."""
    more: bool = False
    """True to suggest limits for one message and arguments in the words of the user too."""


def suggested(evidence: Evidence, asked: Asked) -> tuple[list[Suggestion], list[LeftOut]]:
    """Return the rules for which there is enough evidence, by tool, and the reasons for what has none."""
    found = [one for name in sorted(evidence.tools) for one in _of_tool(evidence.tools[name], evidence, asked)]
    rules = [one for one in found if isinstance(one, Suggestion)]
    ids = unique_ids((one.name for one in rules), MAX_NAME)
    named = [replace(one, name=name) for one, name in zip(rules, ids, strict=True)]
    return named, [one for one in found if isinstance(one, LeftOut)]


def _of_tool(tool: ToolEvidence, evidence: Evidence, asked: Asked) -> Iterator[Found]:
    name = tool.action.name
    if name in asked.confirmed:
        yield LeftOut(name, "", "the constitution asks about each call, so that a rule would change nothing")
        return
    if tool.calls < MIN_CALLS or len(tool.users) < asked.enough:
        yield LeftOut(name, "", f"{seen(tool)}: too little for a rule")
        return
    found = list(_about(tool, evidence, asked))
    yield from found
    yield from without_rule(tool, {one.argument if isinstance(one, Suggestion) else one.what for one in found})


def _about(tool: ToolEvidence, evidence: Evidence, asked: Asked) -> Iterator[Found]:
    parts = {part.path: part for part in tool.parts if _can_be_read(tool, part) and not _is_user(tool, part)}
    yield from _ranges(tool, parts)
    yield from _choices(tool, parts)
    yield from _lengths(tool)
    yield from _hosts(tool, parts)
    if tool.action.writes:
        yield from _roles(tool, asked.roles)
        yield from _order(tool, evidence)
        yield from _counts(tool, parts)
        yield from _facts(tool, evidence.facts, asked.enough)
        more = [*_per_message(tool), *_sources(tool)]
        if asked.more:
            yield from more
        elif more:
            yield LeftOut(
                tool.action.name, "", f"{counted(len(more), 'rule')} about one message or the words of the user: see --more"
            )
    yield from _hours(tool)


def _can_be_read(tool: ToolEvidence, part: Part) -> bool:
    """True if conditions can read nearly all values of a part: a call with another one would be refused, whatever it is."""
    is_simple = part.type.kind is not Kind.VARIANT or part.number is not None
    return is_simple and tool.unreadable[part.path] <= tool.calls * OUTLIERS


def _is_user(tool: ToolEvidence, part: Part) -> bool:
    """True for an argument that is the user, and no condition of what is ordinary."""
    return part.path[0] in ("user_id", tool.action.bound_argument)


def _ranges(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Found]:
    for path, numbers in sorted(tool.numbers.items()):
        number = parts[path].number if path in parts else None
        if number is None or numbers.count < MIN_CALLS or number.values or names_object(path[-1]):
            continue
        name = ".".join(path)
        if (limit := limit_of(numbers, tool.enough)) is None:
            continue
        value, given = f"context.arguments{_access(path)}", _given(parts[path])
        if parts[path].type.kind is Kind.VARIANT:
            given, value = f"{given}{value} has {number.kind.lower()} && ", f"{value}.{number.kind.lower()}"
        title, why = (
            f"{tool.action.name}: {name} {_at_most(limit.border)}",
            f"{seen(tool)}, {limit.share} {_at_most(limit.border)}",
        )
        condition, stricter = (f"{given}{one}" for one in _above(number.kind, value, limit.border))
        yield Suggestion(title, tool.action.name, why, condition, stricter=stricter, argument=path[0])
        yield from numbers_above(tool, name, limit)


def _choices(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Found]:
    for path, choices in sorted(tool.choices.items()):
        if path not in parts or choices.count < MIN_CALLS:
            continue
        kind = parts[path].type.kind
        values = [one for one in choices.common() if not may_identify(one)]
        known = set(map(str, parts[path].type.values))
        if kind is Kind.BOOL:
            known = {"true", "false"}
        share = choices.share(values)
        if not values or len(values) > MAX_CHOICES or not choices.is_usual(values) or (known and known <= set(values)):
            continue
        value = f"context.arguments{_access(path)}"
        listed = [one if kind is Kind.BOOL else quoted(one) for one in sorted(values)]
        why = f"{seen(tool)}, {share:.1%} with {'one of these values' if len(values) > 1 else 'this value'}"
        name = f"{tool.action.name}: the usual {'.'.join(path)}"
        condition, stricter = (f"{_given(parts[path])}![{', '.join(one)}].contains({value})" for one in (listed, listed[:-1]))
        stricter = stricter if listed[1:] else "true"
        yield Suggestion(name, tool.action.name, why, condition, stricter=stricter, argument=path[0])
        yield from other_values(tool, ".".join(path), choices, values)


def _lengths(tool: ToolEvidence) -> Iterator[Found]:
    for path, numbers in sorted(tool.lengths.items()):
        if len(path) > 1 or tool.unreadable[path] or path[0] not in tool.action.lists or numbers.count < MIN_CALLS:
            continue
        if (limit := limit_of(numbers, tool.enough)) is not None:
            name = f"{tool.action.name}: {_at_most(limit.border)} in {path[0]}"
            why = f"{seen(tool)}, {limit.share} with {_at_most(limit.border)}"
            condition, stricter = _above(Kind.LONG, f"context.length{_access(path)}", limit.border)
            yield Suggestion(name, tool.action.name, why, condition, stricter=stricter, argument=path[0])
            yield from numbers_above(tool, f"{path[0]} with a length of", limit)


def _hosts(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Found]:
    for path, choices in sorted(tool.hosts.items()):
        found = choices.frequent()
        share = choices.share(found)
        addressed = [one for one in found if one not in ("", AMBIGUOUS)]
        if not addressed or choices.count < MIN_CALLS:
            continue
        if AMBIGUOUS in found or not choices.is_usual(found):
            others, users = choices.others(found)
            more = f"{counted(others, 'address', 'addresses')} of {counted(len(users), 'user')} or more are at other hosts"
            yield LeftOut(
                tool.action.name, path[0], "some addresses are none that conditions read" if AMBIGUOUS in found else more
            )
            continue
        allowed = sorted({*found, *([""] if parts[path].optional else [])})
        why = f"{seen(tool)}, {share:.1%} of the addresses at {'these hosts' if len(addressed) > 1 else 'this host'}"
        name = f"{tool.action.name}: the usual hosts in {path[0]}"
        condition, stricter = (
            f"![{', '.join(map(quoted, one))}].containsAll(context.domain{_access(path)})"
            for one in (allowed, [host for host in allowed if host != addressed[-1]])
        )
        stricter = stricter if allowed[1:] else "true"
        yield Suggestion(name, tool.action.name, why, condition, stricter=stricter, argument=path[0])
        yield from other_values(tool, f"{path[0]} at", choices, found)


def _roles(tool: ToolEvidence, roles: Sequence[str]) -> Iterator[Suggestion]:
    total = sum(tool.roles.values())
    with_role = {role: sum(calls for one, calls in tool.roles.items() if role in one) for role in roles}
    used = [role for role in sorted(roles) if with_role[role] > total * OUTLIERS]
    covered = sum(calls for one, calls in tool.roles.items() if not one.isdisjoint(used))
    if used and len(used) < len(roles) and covered >= total * (1 - OUTLIERS):
        why = f"{seen(tool)}, {covered / total:.1%} by {' or '.join(used)}"
        others = " || ".join(f"principal in Role::{quoted(role)}" for role in used)
        yield Suggestion(f"{tool.action.name}: by {' or '.join(used)}", tool.action.name, why, f"!({others})")


def _order(tool: ToolEvidence, evidence: Evidence) -> Iterator[Suggestion]:
    candidates = {name: calls for name, calls in tool.after.items() if name != tool.action.name and name in evidence.tools}
    if not candidates:
        return
    calls, before = max((calls, name) for name, calls in candidates.items())
    if calls >= tool.calls * (1 - OUTLIERS):
        why = f"{seen(tool)}, {calls / tool.calls:.1%} after {before} had succeeded in the conversation"
        condition = f"!context.succeeded.contains(Action::{quoted(before)})"
        yield Suggestion(f"{tool.action.name}: after {before}", tool.action.name, why, condition)


def _per_message(tool: ToolEvidence) -> Iterator[Suggestion]:
    name, numbers = tool.action.name, tool.per_message
    if tool.is_called_without_message or numbers.count < MIN_CALLS or (limit := limit_of(numbers, tool.enough)) is None:
        return
    why = f"{seen(tool)}, {limit.share} of the messages with {_at_most(limit.border)}"
    condition, stricter = _above(Kind.LONG, "context.used.message.calls", limit.border)
    yield Suggestion(f"{name}: {_at_most(limit.border)} for one message", name, why, condition, stricter=stricter)


def _counts(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Found]:
    name = tool.action.name
    if len(tool.days) < MIN_DAYS or tool.per_day.count < MIN_CALLS:
        return
    if (limit := limit_of(tool.per_day, tool.enough)) is not None:
        why = f"{seen(tool)}, {limit.share} of the days of a user with {_at_most(limit.border)}"
        condition, stricter = _above(Kind.LONG, "context.used.day.calls", limit.border)
        yield Suggestion(f"{name}: {_at_most(limit.border)} a day", name, why, condition, stricter=stricter)
    kinds = {path[0]: part.number.kind for path, part in parts.items() if len(path) == 1 and part.number is not None}
    for argument, numbers in sorted(tool.sums.items()):
        if argument not in kinds or names_object(argument) or (limit := limit_of(numbers, tool.enough)) is None:
            continue
        why = f"{seen(tool)}, {limit.share} of the sums of a user in a day {_at_most(limit.border)}"
        total = f"context.used.day.sum{_access((argument,))}"
        condition, stricter = _above(kinds[argument], total, limit.border)
        title = f"{name}: {argument} {_at_most(limit.border)} a day"
        yield Suggestion(title, name, why, condition, stricter=stricter, argument=argument)


def _sources(tool: ToolEvidence) -> Iterator[Suggestion]:
    for name in sorted(tool.calls_said):
        calls, said = tool.calls_sourced[name], tool.calls_said[name]
        if name in ("user_id", tool.action.bound_argument) or tool.with_words < MIN_CALLS or said < calls * (1 - OUTLIERS):
            continue
        if len(tool.said[name]) < tool.enough:
            continue
        why = f"{seen(tool)}, {said / calls:.1%} of the values of {name} in the words of the user"
        condition = f'!["user"].containsAll(context.source{_access((name,))})'
        title = f"{tool.action.name}: {name} in the words of the user"
        yield Suggestion(title, tool.action.name, why, condition, argument=name)


def _facts(tool: ToolEvidence, facts: FactEvidence, enough: int) -> Iterator[Suggestion]:
    for path, calls, users, fields in facts.about(tool.action.name):
        if calls < max(MIN_CALLS, tool.calls * (1 - OUTLIERS)) or users < enough:
            continue
        found = list(_fields(tool, path, calls, fields, facts))
        yield from found
        if found:
            # One read before each call is enough.
            return


def _fields(
    tool: ToolEvidence, path: ReadPath, calls: int, fields: Mapping[Path, Choices], facts: FactEvidence
) -> Iterator[Suggestion]:
    for steps, choices in sorted(fields.items()):
        values = [one for one in choices.common() if not may_identify(one)]
        share = sum(choices.calls[one] for one in values) / calls
        is_usual = choices.is_usual(values) and calls - choices.count <= calls * OUTLIERS
        is_text = all(one.startswith("=") for one in choices.calls)
        if not values or len(values) > MAX_CHOICES or not is_usual or not (is_text or set(choices.calls) <= _TRUTHS):
            continue
        if facts.is_always(path.tool, steps, values, OUTLIERS):
            continue
        listed = ", ".join(quoted(one[1:]) if is_text else one for one in sorted(values))
        at = f"context.result.{path.fact}"
        given = "".join(f" && {at}{_access(steps[:depth])} has {quoted(step)}" for depth, step in enumerate(steps))
        holds = f"context.result has {path.fact}{given} && [{listed}].contains({at}{_access(steps)})"
        where = f"{path.tool}: {'.'.join(steps)}"
        one_of = "one of these values" if len(values) > 1 else "this value"
        why = f"{seen(tool)}, {calls} after {path.tool} by {path.argument}, {share:.1%} with {one_of}"
        yield Suggestion(f"{tool.action.name}: by {where}", tool.action.name, why, f"!({holds})", path)


def _hours(tool: ToolEvidence) -> Iterator[Suggestion]:
    span = hours_of([tool.hours[hour] for hour in range(24)], [tool.users_of_hour[hour] for hour in range(24)], tool.enough)
    if span is None or len(tool.days) < MIN_DAYS:
        return
    first, end = span
    if (end - first) % 24 > MAX_HOURS:
        return
    within = sum(calls for hour, calls in tool.hours.items() if (hour - first) % 24 < (end - first) % 24)
    why = f"{seen(tool)}, {within / tool.calls:.1%} between {first} and {end or 24} o'clock"
    earlier = (end - 1) % 24
    stricter = _outside(first, earlier) if earlier != first else "true"
    name = f"{tool.action.name}: from {first} to {end or 24} o'clock"
    yield Suggestion(name, tool.action.name, why, _outside(first, end), stricter=stricter)


def _outside(first: int, end: int) -> str:
    hour = "context.time.hour"
    if end == 0:
        return f"{hour} < {first}"
    if first == 0:
        return f"{hour} >= {end}"
    return f"{hour} < {first} {'||' if first < end else '&&'} {hour} >= {end}"


def _at_most(limit: float) -> str:
    return f"at most {digits(limit)}"


def _access(path: Iterable[str]) -> str:
    return "".join(map(attribute, path))


def _given(part: Part) -> str:
    """Return the tests that an optional part is there."""
    checks = (f"context.arguments{_access(path[:-1])} has {quoted(path[-1])}" for path in part.optional)
    return "".join(f"{one} && " for one in checks)


def _above(kind: Kind, value: str, limit: float) -> tuple[str, str]:
    """Return the tests that a value is above the limit, and that it is at least the limit."""
    if kind is Kind.DECIMAL:
        number = f'decimal("{limit:.4f}")'
        return f"{value}.greaterThan({number})", f"{value}.greaterThanOrEqual({number})"
    return f"{value} > {int(limit)}", f"{value} >= {int(limit)}"
