"""Only the task server, the embedded model, the intent table and what is made for the task list know tasks."""

from __future__ import annotations

import ast
from pathlib import Path

import graph_agent
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = Path(graph_agent.__file__).parent
TASK_NAMES = {tool.name for tool in TASK_TOOLS} | {"task_id"}
OWNERS = ("task_server/", "rules_model/")
KNOWN = {
    "api/tasks.py",  # the task list of the page
    "cli/demo.py",  # a conversation about tasks
    "policy/intent.py",  # the intent table
    "validation/runner.py",  # the stored tasks of a case
}
"""This set may only shrink."""


def names_tasks(file: Path) -> bool:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.Constant) and node.value in TASK_NAMES for node in ast.walk(tree))


def test_no_general_module_names_a_task_tool() -> None:
    found = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py") if names_tasks(file)}
    assert {name for name in found if not name.startswith(OWNERS)} == KNOWN
