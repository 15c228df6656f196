"""The tools of a suite as the engine knows them: declarations and constitution. It does not import AgentDojo."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graph_agent.models.llm import ToolDeclaration
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import SECTION, Constitution, grant_line


class ToolList:
    """The tools of a suite with a constitution that grants all of them.

    `reads` are the beginnings of the names of tools that only read, `trusted` the names of those with trusted results. With
    `in_plans` plans may have lines for every tool that may change something, or opens an address.
    """

    def __init__(self, suite: Any, *, reads: tuple[str, ...], trusted: Collection[str] = (), in_plans: bool = False) -> None:
        self.suite = suite
        self.name: str = suite.name
        self.declarations = [
            ToolDeclaration(name=tool.name, description=tool.description, parameters=tool.parameters.model_json_schema())
            for tool in suite.tools
        ]
        lines = [_line(tool.name, reads, trusted, in_plans=in_plans) for tool in self.declarations]
        self.constitution = "You help.\n\n" + f"{SECTION}\n" + "\n".join(lines) + "\n"

    def policy(self) -> CompiledPolicy:
        return compile_policy(Constitution.parse(self.constitution), self.declarations, {})


def _line(name: str, reads: tuple[str, ...], trusted: Collection[str], *, in_plans: bool) -> str:
    markers = ["(reads)"] if name.startswith(reads) else []
    markers += ["(trusted results)"] if name in trusted else []
    markers += ["(in plans)"] if in_plans and (name.startswith("browse_") or not name.startswith(reads)) else []
    return grant_line(name, name.replace("_", " ").capitalize(), " ".join(markers))
