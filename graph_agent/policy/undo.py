"""The calls that undo changes: `(undone by change_address(order = arguments.order, address = before.address) for 30 minutes)`.

The values of such a call are arguments of the change, parts of its result, or parts of what `(before is get_order(...))` reads
before the change. What it restores is read again right after the change, so that a later change by others is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from graph_agent.models.facts import FactRead, KnownRead
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import ToolGrant, UndoneBy, Where
from graph_agent.policy.outcome_reads import selection_of, values_in
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.reply.text import counted

_WHERE = "(undone by ...)"


class NotUndoableError(Exception):
    """A call cannot be undone; the text is the reason as a clause."""


def problem_of(grant: ToolGrant, rules: Mapping[str, ToolRule], servers: Mapping[str, str]) -> str | None:
    """Return why the marker of a line cannot be followed, as a clause about the tool; None if it can, or has none.

    Another tool that is not served now is no problem: then nothing is undone by it, or restored from it.
    """
    declared, rule = grant.undone_by, rules[grant.name]
    if declared is None:
        return None
    if not rule.mutating:
        return "needs no (undone by ...): it only reads"
    try:
        for where in [where for _, where in declared.parameters if where.root != "arguments"]:
            selection_of(place_of(where.path), _WHERE)
    except ImportError:
        return "has (undone by ...), which needs the extra 'policy': pip install 'graph-agent[policy]'"
    except ValueError as exc:
        return f"has {exc}"
    if (problem := _undo_problem(declared, rule, rules)) is not None or declared.before is None:
        return problem
    before = declared.before
    marker = f"(undone by {declared.tool} ...)"
    return problem_of_read(before.tool, before.parameters, marker, rule, rules, servers)


def filled(declared: UndoneBy, arguments: Mapping[str, Any], result: ToolResult, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the call that undoes a call. Raises `NotUndoableError`."""
    return {parameter: _value(where, arguments, result, before) for parameter, where in declared.parameters}


def read_arguments(declared: UndoneBy, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of the read before a call; None if the call leaves out one of them, or nothing is read."""
    if declared.before is None:
        return None
    given = {parameter: arguments.get(name) for parameter, name in declared.before.parameters}
    return None if None in given.values() else given


def place_of(path: str) -> str:
    """Return the path of a restored value in the result of its read, under which a `FactRead` has it."""
    return f"$.{path}"


def with_restored(read: FactRead, paths: Iterable[str], result: ToolResult) -> FactRead:
    """Return a read with the values at the `paths` that an undo restores, as its result has them."""
    if not result.success or (isinstance(result, KnownRead) and result.read.is_absent):
        return read
    found, failed = {}, {}
    for place in map(place_of, paths):
        if isinstance(result, KnownRead):
            values = [result.read.values[place]] if place in result.read.values else None
        else:
            values = values_in(place, result)
        if values is None:
            failed[place] = "it is missing"
        else:
            (found[place],) = values
    return read.replace(values={**read.values, **found}, failed={**read.failed, **failed})


def in_words(lifetime: timedelta) -> str:
    """Return how long a change can be undone, such as "30 minutes"."""
    minutes = lifetime // timedelta(minutes=1)
    for unit, length in (("day", 24 * 60), ("hour", 60), ("minute", 1)):
        if minutes % length == 0:
            return counted(minutes // length, unit)
    raise AssertionError("a lifetime has whole minutes")


def _value(where: Where, arguments: Mapping[str, Any], result: ToolResult, before: Mapping[str, Any]) -> Any:
    match where.root:
        case "arguments":
            value = arguments.get(where.path)
        case "result":
            value = (values_in(place_of(where.path), result) or [None])[0]
        case _:
            value = before.get(where.path)
    if value is None:
        raise NotUndoableError(f"{where} is not known")
    return value


def _undo_problem(declared: UndoneBy, rule: ToolRule, rules: Mapping[str, ToolRule]) -> str | None:
    tool = f"has (undone by {declared.tool} ...), "
    if (undo := rules.get(declared.tool)) is None:
        return None
    if not undo.mutating:
        return f"{tool}which only reads"
    own = rule.served.parameters.get("properties", {})
    absent = [where.path for _, where in declared.parameters if where.root == "arguments" and where.path not in own]
    if absent:
        return f"{tool}which reads '{absent[0]}', and that is no argument of the call"
    return _misfit(tool, undo, dict(declared.parameters))


def problem_of_read(
    reads: str,
    parameters: Iterable[tuple[str, str]],
    by: str,
    rule: ToolRule,
    rules: Mapping[str, ToolRule],
    servers: Mapping[str, str],
) -> str | None:
    """Return why the tool `reads` cannot be read for the calls of another, as a clause about that; None if it can.

    Each of the `parameters` has the argument that fills it. `by` is the part of the line that needs the read.
    """
    if (reader := rules.get(reads)) is None:
        return None
    tool = f"has {by}, which reads {reads}, "
    if reader.mutating:
        return f"{tool}which may change something: its line needs (reads)"
    if reader.grant.requires_confirmation:
        return f"{tool}which asks the user first"
    same = servers.get(rule.grant.name) == servers.get(reads)
    if not same and reader.traits.untrusted and not reader.grant.trusted_results:
        return f"{tool}whose server is another one and not trusted: its line needs (trusted results)"
    own = rule.served.parameters.get("properties", {})
    if absent := [name for _, name in parameters if name not in own]:
        return f"{tool}which needs '{absent[0]}', and that is no argument of the call"
    return _misfit(tool, reader, dict(parameters))


def _misfit(tool: str, called: ToolRule, given: Mapping[str, object]) -> str | None:
    schema = called.declaration.parameters
    if unknown := sorted(given.keys() - schema.get("properties", {}).keys()):
        return f"{tool}which has no parameter '{unknown[0]}'"
    if missing := sorted(set(schema.get("required", ())) - given.keys() - {called.grant.bound_argument, "user_id"}):
        return f"{tool}whose parameter '{missing[0]}' is not filled"
    return None
