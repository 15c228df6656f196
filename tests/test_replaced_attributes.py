"""Tests use what the code under test offers: where one replaces an attribute or reads a private one, a comment says why.

None replaces a private one.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
COMMAND = "noqa: SLF001"
"""Ruff finds the private attributes, and wants this beside each."""


def without_reason(text: str) -> list[int]:
    """Return the lines of a program that call `setattr` without a comment above, or permit a private name without a reason."""
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    lines = text.splitlines()
    replaced = [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr"
    ]
    found = [line for line in replaced if not lines[line - 2].lstrip().startswith("# ")]
    found += [line for line, comment in comments.items() if comment.endswith(COMMAND)]
    return sorted(found)


def private_names(text: str) -> list[int]:
    """Return the lines of a program that call `setattr` with a private name."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    replaced = (node for node in calls if getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr")
    return [
        node.lineno
        for node in replaced
        for given in node.args[:2]
        if isinstance(given, ast.Constant) and str(given.value).rpartition(".")[2].startswith("_")
    ]


def test_no_test_replaces_a_private_name() -> None:
    found = [f"{file.relative_to(FOLDER)}:{line}" for file in FOLDER.rglob("*.py") for line in private_names(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("monkeypatch.setattr(a, 'b', '_c')", []),
        ("monkeypatch.setattr(a, '_b', 1)", [1]),
        ("\nmonkeypatch.setattr('a._b', 1)", [2]),
        ("setattr(a, name, 1)", []),
    ],
)
def test_a_private_name_is_the_last_part_of_what_is_replaced(text: str, lines: list[int]) -> None:
    assert private_names(text) == lines


def test_each_replaced_and_each_private_attribute_has_a_reason() -> None:
    found = {
        f"{file.relative_to(FOLDER)}:{line}"
        for file in FOLDER.rglob("*.py")
        for line in without_reason(file.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("monkeypatch.setattr(a, 'b', 1)", [1]),
        ("# why\nmonkeypatch.setattr(a, 'b', 1)", []),
        ("# why\npatch.setattr(\n    a, 'b', 1)\nsetattr(a, 'b', 1)", [4]),
        ("a = b._c  # NOQA", [1]),
        ("a = b._c  # NOQA (why)", []),
        ("'# NOQA'", []),
    ],
)
def test_a_reason_is_a_comment_above_or_in_parentheses(text: str, lines: list[int]) -> None:
    assert without_reason(text.replace("NOQA", COMMAND)) == lines
