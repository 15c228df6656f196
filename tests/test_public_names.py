"""The public names: one list; each can be imported, and none is imported before its first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import graph_agent
from tests.public_stub import STUB, stub_text

PUBLIC: list[str] = graph_agent.__all__  # type: ignore[attr-defined]  # not in the stub


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(graph_agent, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    assert STUB.read_text() == stub_text(), "run `make stub`"


def test_dir_and_a_star_import_have_the_public_names() -> None:
    assert set(PUBLIC) <= set(dir(graph_agent))
    program = "from graph_agent import *; print(*dir())"
    shown = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout.split()
    assert set(PUBLIC) <= set(shown)


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, graph_agent; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout.split()
    assert not {"langgraph", "mcp", "sqlalchemy", "fastapi", "httpx", "pydantic"} & set(loaded)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        graph_agent.Nonsense  # type: ignore[attr-defined]  # noqa: B018 - the access is the test
