"""The rule of CONTRIBUTING.md on the first word of a docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import graph_agent

PACKAGE = Path(graph_agent.__file__).parent
BEGINNINGS = re.compile(r"(?:What|Whether|How|Of|When|Where|Those|Who)\b")


def docstrings(file: Path) -> Iterator[str]:
    """Yield the docstrings of a file: those of modules, classes and functions, and the texts below constants and fields."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for statement in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield str(statement.value.value)


def test_a_docstring_begins_with_a_noun_or_a_verb() -> None:
    found = {
        file.relative_to(PACKAGE): [text for text in docstrings(file) if BEGINNINGS.match(text)]
        for file in PACKAGE.rglob("*.py")
    }
    assert {str(file): texts for file, texts in found.items() if texts} == {}
