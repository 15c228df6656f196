"""The reads that tell whether a change was made: `(done if find_payments(reference = reference) $.payments[*])`.

Such a read is a tool that the constitution grants as a read. Its parameters are filled from the arguments of the change, with
that of the operation key. The change was made if the path selects a value in the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.result_data import whole_data
from graph_agent.policy.constitution import DoneIf, ToolGrant
from graph_agent.policy.fact_errors import FactError, UnreadableError
from graph_agent.policy.tool_rule import ToolRule

_MORE = frozenset(
    {
        "cursor",
        "hasmore",
        "hasnext",
        "hasnextpage",
        "incomplete",
        "incompleteresults",
        "istruncated",
        "more",
        "next",
        "nextcursor",
        "nextlink",
        "nextpage",
        "nextpagetoken",
        "nexttoken",
        "odatanextlink",
        "partial",
        "truncated",
    }
)
"""The names, without other characters than letters, by which results say that they are not whole."""
_NO_MORE: tuple[Any, ...] = (None, False, "", 0, [], {})
_TOTALS = frozenset({"count", "total", "totalcount", "totalitems", "totalresults"})

if TYPE_CHECKING:
    # Its library belongs to an extra.
    from graph_agent.policy.selection import Selection


def problem_of(grant: ToolGrant, rules: Mapping[str, ToolRule], servers: Mapping[str, str]) -> str | None:
    """Return why the read on a line cannot tell the outcome, as a clause about the tool; None if it can.

    A read whose tool is not served now is no problem: then no outcome is learned by it.
    """
    declared, rule = grant.done_if, rules[grant.name]
    if declared is None:
        return None
    if not rule.mutating or rule.traits.ledger:
        return f"needs no (done if ...): {'its server keeps a ledger' if rule.mutating else 'it only reads'}"
    try:
        selection = selection_of(declared.path)
    except ImportError:
        return "has (done if ...), which needs the extra 'policy': pip install 'graph-agent[policy]'"
    except ValueError as exc:
        return f"has {exc}"
    if declared.complete_after is not None and not selection.several:
        return f"has the path {declared.path}, which selects one value: (complete) needs a list, as in `$.payments[*]`"
    if (reader := rules.get(declared.tool)) is None:
        return None
    return _misfit(declared, rule, reader, same=servers.get(grant.name) == servers.get(declared.tool))


def arguments_of(declared: DoneIf, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of the read for a call with these arguments; None if the call leaves out one of them."""
    given = {parameter: arguments.get(name) for parameter, name in declared.parameters}
    return None if None in given.values() else given


def values_in(path: str, result: ToolResult, arguments: Mapping[str, Any] | None = None) -> list[Any] | None:
    """Return what a path selects in the result of a read for a call with these arguments; None if that is not certain."""
    try:
        return selection_of(path).of(whole_data(result), arguments) if result.success else None
    except UnreadableError:
        return None


def contradicts(found: Any, arguments: Mapping[str, Any]) -> bool:
    """True if a found object has another value than the call under the name of one of its arguments: it is another one."""
    if not isinstance(found, dict):
        return False
    return any(_differ(found[name], value) for name, value in arguments.items() if name in found)


def is_partial(data: Any) -> bool:
    """True if the data of a read says that there is more of it, as a page of a list does."""
    if isinstance(data, list):
        return any(map(is_partial, data))
    if not isinstance(data, dict):
        return False
    named = {re.sub(r"[^a-z]", "", str(name).lower()): value for name, value in data.items()}
    if any(value not in _NO_MORE for name, value in named.items() if name in _MORE):
        return True
    listed = max((len(one) for one in data.values() if isinstance(one, list)), default=None)
    totals = [value for name, value in named.items() if name in _TOTALS and isinstance(value, int)]
    return (listed is not None and any(total > listed for total in totals)) or any(map(is_partial, data.values()))


def _differ(found: Any, given: Any) -> bool:
    """True if two simple values differ, also as texts of numbers."""
    if not isinstance(found, str | int | float) or not isinstance(given, str | int | float):
        return False
    try:
        return float(found) != float(given)
    except ValueError:
        return str(found).strip().casefold() != str(given).strip().casefold()


def _misfit(declared: DoneIf, rule: ToolRule, reader: ToolRule, *, same: bool) -> str | None:
    tool = f"has (done if {declared.fact}), which reads {declared.tool}, "
    if reader.mutating:
        return f"{tool}which may change something: its line needs (reads)"
    if reader.grant.requires_confirmation:
        return f"{tool}which asks the user first"
    if not same and reader.traits.untrusted and not reader.grant.trusted_results:
        return f"{tool}whose server is another one and not trusted: its line needs (trusted results)"
    schema, own = reader.declaration.parameters, rule.served.parameters.get("properties", {})
    accepted, given = schema.get("properties", {}), dict(declared.parameters)
    if unknown := sorted(given.keys() - accepted.keys()):
        return f"{tool}which has no parameter '{unknown[0]}'"
    if missing := sorted(set(schema.get("required", ())) - given.keys() - {reader.grant.bound_argument, "user_id"}):
        return f"{tool}whose parameter '{missing[0]}' is not filled"
    if absent := sorted({*given.values(), *selection_of(declared.path).given} - own.keys()):
        return f"{tool}which needs '{absent[0]}', and that is no argument of the call"
    return None


# Cached, because a path is parsed for every outcome.
@lru_cache(maxsize=256)
def selection_of(path: str, where: str = "(done if ...)") -> Selection:
    """Return the compiled path of a marker, `where`. Raises ValueError, and ImportError without the extra."""
    # Imported here, because its library belongs to an extra.
    from graph_agent.policy.selection import Selection

    try:
        return Selection(path, where)
    except FactError as exc:
        raise ValueError(str(exc)) from None
