"""The lines of a plan that does the recorded calls of a decision again, made by code. Pure functions.

The user's words and the model's own values stand in a line as they are. A value that stood in the result of a tool is taken
from that tool anew, with the form that it had; where the rules admit no such line, it stands there as it is, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from graph_agent.models.base import located_violation
from graph_agent.models.canonical import canonical_json, plain_numbers
from graph_agent.models.mandate import MAX_LINES, MAX_RUNS, MAX_STANDING_MINUTES, MAX_TIMES, Bound, Form, From, Is, Line, Plan
from graph_agent.models.sources import CallSources, ReadCall, Source
from graph_agent.policy.cedar.result_data import whole_data
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.mandate import is_same, leaves_of, not_of_form, stands_in
from graph_agent.policy.plan_check import problems_of_line

_FORMS: Final = (Form.CODE, Form.LINK, Form.ADDRESS)


class RecordedCall(NamedTuple):
    """A change that a decision has made, as it was judged."""

    tool_name: str
    arguments: Mapping[str, Any]
    sources: CallSources | None
    """The sources of its arguments; None if they were not recorded."""


@dataclass(frozen=True, slots=True)
class Read:
    """The results that a decision has read, and the messages of its user."""

    results: Sequence[ReadCall] = ()
    said: Sequence[str] = ()


@dataclass(slots=True)
class RecordedLines:
    """The lines that permit calls again, each with the sources of its values."""

    job: str = ""
    """The job of a standing plan; empty for a plan of one conversation."""
    lines: list[Line] = field(default_factory=list)
    sources: list[CallSources] = field(default_factory=list)

    def add(self, call: RecordedCall, policy: CompiledPolicy, read: Read) -> None:
        """Add a line for a call, or permit the line of equal bounds once more. Raises `NotRepresentableError`."""
        line, sources = line_of(call, policy, read, standing=bool(self.job)), _known(call)
        # As JSON, in which 1 and true are two values, and 1 and 1.0 are one.
        bounds = [canonical_json(plain_numbers(one.replace(times=1).to_json())) for one in self.lines]
        if (bound := canonical_json(plain_numbers(line.to_json()))) in bounds:
            at = bounds.index(bound)
            if self.lines[at].times == MAX_TIMES:
                raise NotRepresentableError(f"a line permits at most {MAX_TIMES} calls")
            self.lines[at] = line.replace(times=self.lines[at].times + 1)
            self.sources[at] = _both(self.sources[at], sources)
            return
        if len(self.lines) == MAX_LINES:
            raise NotRepresentableError(f"a plan has at most {MAX_LINES} lines")
        try:
            widest_plan([*self.lines, line], self.job)
        except ValidationError as exc:
            raise NotRepresentableError(located_violation(exc)) from None
        self.lines.append(line)
        self.sources.append(sources)


def widest_plan(lines: Sequence[Line], job: str) -> Plan:
    """Return the plan with the longest time and the most runs that can be chosen. Raises `ValidationError`."""
    given = tuple(lines)
    return Plan(lines=given, minutes=MAX_STANDING_MINUTES, job=job, runs=MAX_RUNS) if job else Plan(lines=given)


class NotRepresentableError(Exception):
    """No line permits a call; the text is the reason as a clause."""


def line_of(call: RecordedCall, policy: CompiledPolicy, read: Read, *, standing: bool = False) -> Line:
    """Return the line that permits a call again, in a `standing` plan if wanted. Raises `NotRepresentableError`."""
    rule = policy.rules.get(call.tool_name)
    if rule is None or rule.grant.in_plans is None:
        raise NotRepresentableError("its tool is in no plan")
    sources = _known(call)
    given = {name: value for name, value in call.arguments.items() if value is not None and name != rule.grant.bound_argument}
    arguments: dict[str, Bound] = {}
    for name, value in given.items():
        bounds = _bounds_from(name, value, sources, read)
        alone = ((bound, Line(tool=call.tool_name, arguments={name: bound})) for bound in bounds)
        admitted = (bound for bound, one in alone if next(problems_of_line(one, policy, standing=standing), None) is None)
        arguments[name] = next(admitted, None) or _as_it_is(name, value)
    line = Line(tool=call.tool_name, arguments=arguments)
    if (why := next(problems_of_line(line, policy, standing=standing), None)) is not None:
        raise NotRepresentableError(why)
    return line


def _known(call: RecordedCall) -> CallSources:
    if call.sources is None:
        raise NotRepresentableError("the record does not say where its values came from")
    return call.sources


def _as_it_is(name: str, value: Any) -> Is:
    if _has_several_fields(value):
        # A bound is for each leaf: a plan that had both names and both values would let them change places.
        raise NotRepresentableError(f"its {name} has several fields, which a plan does not tell apart")
    try:
        return Is(tuple(leaves_of(value)))
    except ValidationError as exc:
        raise NotRepresentableError(f"its {name} cannot stand in a plan: {located_violation(exc)}") from None


def _has_several_fields(value: Any) -> bool:
    """True if an object in a value has more than one field."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and len(value) > 1) or any(map(_has_several_fields, parts))


def _bounds_from(name: str, value: Any, sources: CallSources, read: Read) -> Iterator[From]:
    """Yield the bounds that take an argument from the result of a tool, the narrowest first."""
    tools = {one.tool for one in sources.arguments.get(name, ()) if one.source in (Source.TRUSTED, Source.UNTRUSTED)}
    values = value if isinstance(value, list) else [value]
    if len(tools) != 1 or not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values):
        return
    if any(one.source in (Source.USER, Source.MODEL) for one in sources.arguments[name]):
        # Some of its values would be looked for where they never stood.
        return
    (tool,) = tools
    if tool is not None and values:
        yield from _candidates(tool, values, read)


def _candidates(tool: str, values: Sequence[Any], read: Read) -> Iterator[From]:
    if all(not isinstance(one, str) and one >= 0 for one in values):
        yield From(tool, Form.NUMBER, at_most=max(values))
    for form in _FORMS:
        bound = From(tool, form)
        if all(not_of_form(one, bound, read.said) is None for one in values):
            yield bound
    results = [one for one in read.results if one.tool_name == tool]
    # A text of which only a part stood there would never fit.
    if all(any(stands_in(result, one, From(tool)) for result in results) for one in values):
        if (path := _common_path(values, results)) is not None:
            yield From(tool, at=path)
        yield From(tool)


def _common_path(values: Sequence[Any], results: Sequence[ReadCall]) -> str | None:
    """Return the path at which every value stood in a result; None if there is none."""
    found = [{path for result in results for path, leaf in _leaves_at(result) if is_same(leaf, one)} for one in values]
    paths = {path for path in set.intersection(*found) if path != "$"}
    return min(paths, key=lambda path: (len(path), path)) if paths else None


def _leaves_at(result: ReadCall) -> Iterator[tuple[str, Any]]:
    if not result.result.success:
        return
    try:
        yield from _places(whole_data(result.result), "$")
    except UnreadableError:
        return


def _places(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for name, part in data.items():
            # Another name cannot stand in a path.
            if name.isascii() and name.replace("-", "_").isidentifier() and not name.startswith("-"):
                yield from _places(part, f"{path}.{name}")
    elif isinstance(data, list):
        for part in data:
            yield from _places(part, f"{path}[*]")
    else:
        yield path, data


def _both(one: CallSources, other: CallSources) -> CallSources:
    """Return the sources of the values of two calls within equal bounds."""
    names = {**one.arguments, **other.arguments}
    both = {name: list(dict.fromkeys([*one.arguments.get(name, ()), *other.arguments.get(name, ())])) for name in names}
    return CallSources(arguments=both, after=one.after or other.after)
