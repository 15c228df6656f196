"""Only the task server, the embedded model, the intent table and what is made for the task list know tasks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import graph_agent
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = Path(graph_agent.__file__).parent
TASK_NAMES = re.compile(r"\b({})\b".format("|".join([*(tool.name for tool in TASK_TOOLS), "task_id"])))
OWNERS = ("task_server/", "llm/embedded/")
EXCEPTIONS = {
    "agent_service/prompt.py": "the default prompt of the second documented system, word for word",
    "api/tasks.py": "the route of the page's task list",
    "graph/intent.py": "the intent table",
}
"""The other modules that name a task tool, and why. This table may only shrink."""


def texts(file: Path) -> Iterator[str]:
    """Yield every text in the code of a module, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.value


def test_no_general_module_names_a_task_tool() -> None:
    modules = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}
    found = {name for name, file in modules.items() if any(map(TASK_NAMES.search, texts(file)))}
    assert {name for name in found if not name.startswith(OWNERS)} == EXCEPTIONS.keys()
