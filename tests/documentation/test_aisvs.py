"""The table of docs/approvals.md has exactly the requirements of OWASP AISVS that tests name, and their files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.documentation.site import ROOT

_NAME = re.compile(r"test_aisvs_(\d+)_(\d+)_(\d+)_")
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+): .* \| (`tests/[^|]*`) \|$", re.MULTILINE)
REQUIRED = {f"9.2.{number}" for number in (1, 2, 3, 4, 8, 9, 10)} | {"9.6.2"}


def files_of_tests() -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "test_aisvs_" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (named := _NAME.match(node.name)):
                found[".".join(named.groups())].add(str(path.relative_to(ROOT)))
    return found


def test_each_requirement_has_the_tests_that_name_it() -> None:
    page = (ROOT / "docs" / "approvals.md").read_text(encoding="utf-8")
    rows = {number: set(re.findall("`([^`]+)`", files)) for number, files in _ROW.findall(page)}
    assert rows == files_of_tests()
    assert rows.keys() == REQUIRED
