"""The conditions of the simulated replicas: limits of what a user may do in a day, and demands for approvals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from graph_agent.policy.cedar.conditions import ConditionsFile
from tests.simulation.tools import APPROVED, CONFIRMED, FROZEN, LIMITS, MAX_AMOUNT, PAYS, PUBLISHES, READ_FIRST

ROLES = ("finance", "manager")
APPROVERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"boss": ("manager",), "chief": ("finance", "manager"), "clerk": ("finance",), "guest": ()}
)
"""The people who request nothing, with their roles."""
REQUESTER_ROLES = ("manager",)
"""The roles of requesters: only that they are the requesters keeps them from approving."""
LOOKED_UP = ("pay_out", "erase")
"""The calls that wait for approvals and whose object is looked up. A rule that reads an object never voids a request."""


@dataclass(frozen=True)
class Demand:
    """The approvals that a call needs: as a condition, and as the checks have it."""

    condition: str
    is_met: Callable[[int, int], bool]
    """By the number of people who approved it as a manager, and as finance."""


_PEOPLE = "context.approvals.manager + context.approvals.finance"
_ONE_MANAGER = Demand("context.approvals.manager >= 1", lambda manager, _: manager >= 1)
_ANYBODY = Demand(f"{_PEOPLE} >= 1", lambda manager, finance: manager + finance >= 1)
_TWO_PEOPLE = Demand(f"{_PEOPLE} >= 2", lambda manager, finance: manager + finance >= 2)
_BOTH_ROLES = Demand(
    "context.approvals.manager >= 1 && context.approvals.finance >= 1", lambda manager, finance: manager >= 1 and finance >= 1
)
_NEVER = Demand("false", lambda *_: False)
_USUAL = {"refund": _ONE_MANAGER, "pay_out": _TWO_PEOPLE, "erase": _ONE_MANAGER}

USUAL, REDECLARED = "usual", "redeclared"
DEMANDS: Mapping[str, Mapping[str, Demand]] = MappingProxyType(
    {
        USUAL: _USUAL,
        "stricter": {"refund": _BOTH_ROLES, "pay_out": _BOTH_ROLES, "erase": _TWO_PEOPLE},
        "looser": {"refund": _ANYBODY, "pay_out": _ANYBODY, "erase": _ANYBODY},
        "closed": {"refund": _NEVER, "pay_out": _TWO_PEOPLE, "erase": _NEVER},
        # The same rules, and the tools are declared otherwise.
        REDECLARED: _USUAL,
    }
)
"""The name of a policy -> the demands for each call. A process starts with one of them, and runs with it until its end."""


@cache
def conditions(*, budgets: bool, approvals: bool, policy: str) -> ConditionsFile | None:
    """Return the conditions of a process that has this policy; None if there are none."""
    if not budgets and not approvals:
        return None
    rules = ['@id("all") permit (principal, action, resource);']
    if budgets:
        rules += [*_not_frozen(sorted(CONFIRMED)), *_budgets()]
    if approvals:
        rules += _not_frozen(LOOKED_UP)
        rules += [
            f'@id("approvals: {name}") forbid (principal, action == Action::"{name}", resource) '
            f"unless {{ {demand.condition} }};"
            for name, demand in DEMANDS[policy].items()
        ]
    return ConditionsFile("".join(rules), roles=ROLES if approvals else ())


def _not_frozen(names: tuple[str, ...] | list[str]) -> list[str]:
    return [
        f'@id("not frozen: {name}") forbid (principal, action == Action::"{name}", resource) '
        f'unless {{ context.result has object && context.result.object.state != "{FROZEN}" }};'
        for name in names
    ]


def _budgets() -> list[str]:
    calls = [
        f'@id("{name}") forbid (principal, action == Action::"{name}", resource) when {{ context.used.day.calls > {limit} }};'
        for name, limit in LIMITS.items()
    ]
    read_first = (
        f'@id("read first") forbid (principal, action == Action::"{PUBLISHES}", resource) '
        f'unless {{ context.succeeded.contains(Action::"{READ_FIRST}") }};'
    )
    money = (
        f'@id("money") forbid (principal, action == Action::"{PAYS}", resource) '
        f"when {{ context.used.day.sum.amount > {MAX_AMOUNT} }};"
    )
    return [*calls, read_first, money]


assert all(tuple(demands) == APPROVED for demands in DEMANDS.values())
