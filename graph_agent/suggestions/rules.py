"""The suggested conditions, written from the evidence: each asks for a yes outside of what was ordinary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graph_agent.policy.cedar.schema import attribute, quoted
from graph_agent.policy.cedar.syntax import unique_ids
from graph_agent.policy.cedar.types import NUMBERS, Kind
from graph_agent.policy.cedar.values import AMBIGUOUS
from graph_agent.policy.facts import Fact, parse_fact
from graph_agent.reply.text import one_line
from graph_agent.suggestions.evidence import Evidence, Part, Path, ToolEvidence
from graph_agent.suggestions.facts import FactEvidence, ReadPath
from graph_agent.suggestions.samples import OUTLIERS, Choices, Numbers, hours_of, upper_limit, with_margin

MIN_CALLS: Final = 50
"""A tool with fewer calls gets no rule."""
MIN_DAYS: Final = 5
"""A tool that was used on fewer days gets no rule about hours and days."""
MAX_CHOICES: Final = 20
MAX_NAME: Final = 120
_MAX_COMMENT: Final = 300
MAX_HOURS: Final = 16
"""A longer span of hours is no limit."""
_IDENTIFYING: Final = 4
"""A text with so many digits may identify a person, and is never printed. So may one with an @."""

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

    def text(self, *, shadow: bool) -> str:
        """Return the rule."""
        mark = "@shadow " if shadow else ""
        scope = f"(principal, action == Action::{quoted(self.tool)}, resource)"
        lines = f"// {one_line(self.evidence, _MAX_COMMENT)}\n{mark}@id({quoted(self.name)})\nforbid {scope}\n"
        return f"{lines}when {{ {self.condition} }}\nunless {{ context.confirmed }};\n"


def policy_text(
    suggestions: Sequence[Suggestion], evidence: Evidence, enough: int, *, shadow: bool = False, tool: str | None = None
) -> str:
    """Return the file of conditions, or the part of it that is about one tool."""
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


def suggested(evidence: Evidence, enough: int, roles: Sequence[str]) -> list[Suggestion]:
    """Return the rules for which there is enough evidence, by tool."""
    found = [one for name in sorted(evidence.tools) for one in _about(evidence.tools[name], evidence, enough, roles)]
    ids = unique_ids((one.name for one in found), MAX_NAME)
    return [replace(one, name=name) for one, name in zip(found, ids, strict=True)]


def left_out(evidence: Evidence, enough: int) -> Iterator[str]:
    """Yield why a tool has no rule."""
    for name, tool in sorted(evidence.tools.items()):
        if not _is_enough(tool, enough):
            yield f"{name}: {_seen(tool)}: too little for a rule"


def _is_enough(tool: ToolEvidence, enough: int) -> bool:
    return tool.calls >= MIN_CALLS and len(tool.users) >= enough


def _about(tool: ToolEvidence, evidence: Evidence, enough: int, roles: Sequence[str]) -> Iterator[Suggestion]:
    if not _is_enough(tool, enough):
        return
    parts = {part.path: part for part in tool.parts if _can_be_read(tool, part) and not _is_user(tool, part)}
    yield from _ranges(tool, parts)
    yield from _choices(tool, parts)
    yield from _lengths(tool)
    yield from _hosts(tool, parts)
    if tool.action.writes:
        yield from _roles(tool, roles)
        yield from _order(tool, evidence)
        yield from _counts(tool, parts)
        yield from _sources(tool)
        yield from _facts(tool, evidence.facts, enough)
    yield from _hours(tool)


def _can_be_read(tool: ToolEvidence, part: Part) -> bool:
    """True if conditions can read nearly all values of a part: a call with another one would be refused, whatever it is."""
    return part.type.kind is not Kind.VARIANT and tool.unreadable[part.path] <= tool.calls * OUTLIERS


def _is_user(tool: ToolEvidence, part: Part) -> bool:
    """True for an argument that is the user, and no condition of what is ordinary."""
    return part.path[0] in ("user_id", tool.action.bound_argument)


def _ranges(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Suggestion]:
    for path, numbers in sorted(tool.numbers.items()):
        if path not in parts or numbers.count < MIN_CALLS or parts[path].type.values:
            continue
        values = numbers.sorted
        limit = _limit(numbers, values)
        if limit is None:
            continue
        value = f"context.arguments{_access(path)}"
        name = f"{tool.action.name}: {'.'.join(path)} {_at_most(limit)}"
        why = f"{_seen(tool)}, {_below(values, limit)} {_at_most(limit)}"
        given, kind = _given(parts[path]), parts[path].type.kind
        condition, stricter = (f"{given}{one}" for one in _above(kind, value, limit))
        yield Suggestion(name, tool.action.name, why, condition, stricter=stricter)


def _choices(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Suggestion]:
    for path, choices in sorted(tool.choices.items()):
        if path not in parts or choices.count < MIN_CALLS:
            continue
        kind = parts[path].type.kind
        values = [one for one in choices.common() if not _may_identify(one)]
        known = set(map(str, parts[path].type.values))
        if kind is Kind.BOOL:
            known = {"true", "false"}
        share = choices.share(values)
        if not values or len(values) > MAX_CHOICES or share < 1 - OUTLIERS or (known and known <= set(values)):
            continue
        value = f"context.arguments{_access(path)}"
        listed = [one if kind is Kind.BOOL else quoted(one) for one in sorted(values)]
        why = f"{_seen(tool)}, {share:.1%} with {'one of these values' if len(values) > 1 else 'this value'}"
        name = f"{tool.action.name}: the usual {'.'.join(path)}"
        condition, stricter = (f"{_given(parts[path])}![{', '.join(one)}].contains({value})" for one in (listed, listed[:-1]))
        yield Suggestion(name, tool.action.name, why, condition, stricter=stricter if listed[1:] else "true")


def _lengths(tool: ToolEvidence) -> Iterator[Suggestion]:
    for path, numbers in sorted(tool.lengths.items()):
        if len(path) > 1 or tool.unreadable[path] or path[0] not in tool.action.lists or numbers.count < MIN_CALLS:
            continue
        values = numbers.sorted
        if (limit := _limit(numbers, values)) is not None:
            name = f"{tool.action.name}: {_at_most(limit)} in {path[0]}"
            why = f"{_seen(tool)}, {_below(values, limit)} with {_at_most(limit)}"
            condition, stricter = _above(Kind.LONG, f"context.length{_access(path)}", limit)
            yield Suggestion(name, tool.action.name, why, condition, stricter=stricter)


def _hosts(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Suggestion]:
    for path, choices in sorted(tool.hosts.items()):
        found = choices.frequent()
        share = choices.share(found)
        addressed = [one for one in found if one not in ("", AMBIGUOUS)]
        if not addressed or AMBIGUOUS in found or choices.count < MIN_CALLS or share < 1 - OUTLIERS:
            continue
        allowed = sorted({*found, *([""] if parts[path].optional else [])})
        why = f"{_seen(tool)}, {share:.1%} of the addresses at {'these hosts' if len(addressed) > 1 else 'this host'}"
        name = f"{tool.action.name}: the usual hosts in {path[0]}"
        condition, stricter = (
            f"![{', '.join(map(quoted, one))}].containsAll(context.domain{_access(path)})"
            for one in (allowed, [host for host in allowed if host != addressed[-1]])
        )
        yield Suggestion(name, tool.action.name, why, condition, stricter=stricter if allowed[1:] else "true")


def _roles(tool: ToolEvidence, roles: Sequence[str]) -> Iterator[Suggestion]:
    total = sum(tool.roles.values())
    with_role = {role: sum(calls for one, calls in tool.roles.items() if role in one) for role in roles}
    used = [role for role in sorted(roles) if with_role[role] > total * OUTLIERS]
    covered = sum(calls for one, calls in tool.roles.items() if not one.isdisjoint(used))
    if used and len(used) < len(roles) and covered >= total * (1 - OUTLIERS):
        why = f"{_seen(tool)}, {covered / total:.1%} by {' or '.join(used)}"
        others = " || ".join(f"principal in Role::{quoted(role)}" for role in used)
        yield Suggestion(f"{tool.action.name}: by {' or '.join(used)}", tool.action.name, why, f"!({others})")


def _order(tool: ToolEvidence, evidence: Evidence) -> Iterator[Suggestion]:
    candidates = {name: calls for name, calls in tool.after.items() if name != tool.action.name and name in evidence.tools}
    if not candidates:
        return
    calls, before = max((calls, name) for name, calls in candidates.items())
    if calls >= tool.calls * (1 - OUTLIERS):
        why = f"{_seen(tool)}, {calls / tool.calls:.1%} after {before} had succeeded in the conversation"
        condition = f"!context.succeeded.contains(Action::{quoted(before)})"
        yield Suggestion(f"{tool.action.name}: after {before}", tool.action.name, why, condition)


def _counts(tool: ToolEvidence, parts: dict[Path, Part]) -> Iterator[Suggestion]:
    name = tool.action.name
    values = [] if tool.is_called_without_message or tool.per_message.count < MIN_CALLS else tool.per_message.sorted
    if (limit := _limit(tool.per_message, values)) is not None:
        why = f"{_seen(tool)}, {_below(values, limit)} of the messages with {_at_most(limit)}"
        condition, stricter = _above(Kind.LONG, "context.used.message.calls", limit)
        yield Suggestion(f"{name}: {_at_most(limit)} for one message", name, why, condition, stricter=stricter)
    if len(tool.days) < MIN_DAYS or tool.per_day.count < MIN_CALLS:
        return
    values = tool.per_day.sorted
    if (limit := _limit(tool.per_day, values)) is not None:
        why = f"{_seen(tool)}, {_below(values, limit)} of the days of a user with {_at_most(limit)}"
        condition, stricter = _above(Kind.LONG, "context.used.day.calls", limit)
        yield Suggestion(f"{name}: {_at_most(limit)} a day", name, why, condition, stricter=stricter)
    kinds = {path[0]: part.type.kind for path, part in parts.items() if len(path) == 1 and part.type.kind in NUMBERS}
    for argument, numbers in sorted(tool.sums.items()):
        values = numbers.sorted
        if (limit := _limit(numbers, values)) is not None and argument in kinds:
            why = f"{_seen(tool)}, {_below(values, limit)} of the sums of a user in a day {_at_most(limit)}"
            total = f"context.used.day.sum{_access((argument,))}"
            condition, stricter = _above(kinds[argument], total, limit)
            yield Suggestion(f"{name}: {argument} {_at_most(limit)} a day", name, why, condition, stricter=stricter)


def _sources(tool: ToolEvidence) -> Iterator[Suggestion]:
    for name in sorted(tool.calls_said):
        calls, said = tool.calls_sourced[name], tool.calls_said[name]
        if name in ("user_id", tool.action.bound_argument) or tool.with_words < MIN_CALLS or said < calls * (1 - OUTLIERS):
            continue
        if len(tool.said[name]) < tool.enough:
            continue
        why = f"{_seen(tool)}, {said / calls:.1%} of the values of {name} in the words of the user"
        condition = f'!["user"].containsAll(context.source{_access((name,))})'
        yield Suggestion(f"{tool.action.name}: {name} in the words of the user", tool.action.name, why, condition)


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
        values = [one for one in choices.common() if not _may_identify(one)]
        share = sum(choices.calls[one] for one in values) / calls
        is_text = all(one.startswith("=") for one in choices.calls)
        if not values or len(values) > MAX_CHOICES or share < 1 - OUTLIERS or not (is_text or set(choices.calls) <= _TRUTHS):
            continue
        if facts.is_always(path.tool, steps, values, OUTLIERS):
            continue
        listed = ", ".join(quoted(one[1:]) if is_text else one for one in sorted(values))
        at = f"context.result.{path.fact}"
        given = "".join(f" && {at}{_access(steps[:depth])} has {quoted(step)}" for depth, step in enumerate(steps))
        holds = f"context.result has {path.fact}{given} && [{listed}].contains({at}{_access(steps)})"
        where = f"{path.tool}: {'.'.join(steps)}"
        one_of = "one of these values" if len(values) > 1 else "this value"
        why = f"{_seen(tool)}, {calls} after {path.tool} by {path.argument}, {share:.1%} with {one_of}"
        yield Suggestion(f"{tool.action.name}: by {where}", tool.action.name, why, f"!({holds})", path)


def _hours(tool: ToolEvidence) -> Iterator[Suggestion]:
    span = hours_of([tool.hours[hour] for hour in range(24)])
    if span is None or len(tool.days) < MIN_DAYS:
        return
    first, end = span
    if (end - first) % 24 > MAX_HOURS:
        return
    within = sum(calls for hour, calls in tool.hours.items() if (hour - first) % 24 < (end - first) % 24)
    why = f"{_seen(tool)}, {within / tool.calls:.1%} between {first} and {end or 24} o'clock"
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


def _limit(numbers: Numbers, values: Sequence[float]) -> float | None:
    if not values or values[-1] <= 0:
        return None
    largest, _ = upper_limit(values, whole=numbers.whole)
    if not math.isfinite(largest):
        return None
    limit = with_margin(largest, whole=numbers.whole)
    return limit if 0 < limit < 10**13 else None


def _at_most(limit: float) -> str:
    # All digits: an amount in cents has many, and no one reads 1.2e+06.
    return f"at most {limit:.15g}"


def _below(values: Sequence[float], limit: float) -> str:
    return f"{sum(one <= limit for one in values) / len(values):.1%}"


def _seen(tool: ToolEvidence) -> str:
    return f"{tool.calls} calls of {len(tool.users)} users"


def _may_identify(text: str) -> bool:
    return "@" in text or sum(map(str.isdigit, text)) >= _IDENTIFYING or len(text) > 80


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
