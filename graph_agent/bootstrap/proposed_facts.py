"""The facts that a new conditions file proposes: the object of a change, as a read of the same tools finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graph_agent.policy.cedar.schema import CEDAR_WORDS, ToolAction, attribute, quoted
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.facts import RESERVED

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_ID = re.compile(r"(?i)_?id$|_?number$")
_STATUS = ("status", "state")


class ProposedFact(NamedTuple):
    """A fact about the object that changes name."""

    name: str
    read: ToolAction
    argument: str
    changes: Sequence[ToolAction]
    """The tools that change the object."""

    @property
    def declaration(self) -> str:
        """The line of the constitution."""
        tool = self.read.name if re.fullmatch(r"[A-Za-z0-9_.-]+", self.read.name) else f'"{self.read.name}"'
        return f"- {self.name}: {tool}({self.argument} = arguments.{self.argument})"

    def examples(self) -> Iterator[str]:
        """Yield two conditions about the object: that it is there, and what it is."""
        scope = ", ".join(f"Action::{quoted(one.name)}" for one in self.changes)
        head = f"// needs the fact {self.name} of the constitution\nforbid (principal, action in [{scope}], resource)"
        known = f"context.result has {self.name}"
        field = _status(self.read.output)
        yield f"@id({quoted(f'only what {self.read.name} finds')})\n{head}\nunless {{ {known} }};"
        pending = f'context.result.{self.name}{attribute(field)} == "pending"'
        yield f"@id({quoted(f'only a pending {self.name}')})\n{head}\nunless {{ {known} && {pending} }};"


def proposed_facts(actions: Sequence[ToolAction]) -> list[ProposedFact]:
    """Return a fact for each argument of a change that is also the only one that a read of a trusted server needs."""
    found: dict[str, ProposedFact] = {}
    for read in actions:
        needed = [one for one in read.arguments.fields if one.required and one.name != read.bound_argument]
        if read.writes or not read.gives_facts or len(needed) != 1:
            continue
        argument, kind = needed[0].name, needed[0].type.kind
        changes = [one for one in actions if one.writes and _kind_of(one, argument) is kind]
        if not changes or not _NAME.fullmatch(argument) or argument in {one.argument for one in found.values()}:
            continue
        name = _ID.sub("", argument)
        name = name if name and name not in (*RESERVED, *CEDAR_WORDS, *found) else f"{read.name}_result"
        # In a sentence `{loan}` would be both the argument and the fact.
        name = f"{name}_record" if any(_kind_of(one, name) is not None for one in changes) else name
        if _NAME.fullmatch(name):
            found[name] = ProposedFact(name, read, argument, changes)
    return list(found.values())


def _kind_of(action: ToolAction, argument: str) -> Kind | None:
    declared = action.arguments.field(argument)
    return None if declared is None else declared.type.kind


def _status(output: CedarType | None) -> str:
    """Return the field of a result that is its status, or another text; "status" if no schema declares one."""
    texts = [one.name for one in output.fields if one.type.kind is Kind.STRING] if output is not None else []
    return next((name for name in (*_STATUS, *texts) if name in texts), "status")
