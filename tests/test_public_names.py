"""The public names: one list, each importable, none imported before it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import graph_agent

SOURCE = Path(graph_agent.__file__)


@pytest.mark.parametrize("name", graph_agent.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(graph_agent, name) is not None


def test_the_list_is_sorted_and_is_what_type_checkers_see() -> None:
    assert graph_agent.__all__ == sorted(graph_agent.__all__, key=_as_ruff_sorts)
    (guarded,) = (node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    imported = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    declared = {
        node.target.id for node in guarded.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert imported | declared == set(graph_agent.__all__)


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, graph_agent; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout.split()
    assert not {"langgraph", "mcp", "sqlalchemy", "fastapi", "openai", "pydantic"} & set(loaded)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        graph_agent.Nonsense  # noqa: B018 (asking is the test)


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
