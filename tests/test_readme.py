"""The README and the pages beside it say what the code says. `tests/documentation/` runs their code blocks."""

from __future__ import annotations

import re
from pathlib import Path

from graph_agent.graph import diagram
from graph_agent.settings import Settings
from tests.documentation.reference import configuration

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_picture_is_drawn_from_the_table() -> None:
    assert blocks("mermaid", (ROOT / "docs/architecture.md").read_text()) == [diagram.state_machine()]


def test_the_reference_documents_every_variable_and_the_readme_no_other() -> None:
    known = {field.alias for field in Settings.model_fields.values()}
    assert set(re.findall(r"^\| `([A-Z_]+)`", configuration(), re.MULTILINE)) == known
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", README)) <= known


def test_the_first_screen_of_the_readme_has_no_word_that_it_does_not_explain() -> None:
    screen = " ".join(README.partition("## Two commands")[0].split())
    assert not re.findall(r"(?i)operation key|\bseal|whitelist|ledger|LangGraph|receipt", screen)
    assert "MCP](docs/mcp.md), the Model Context Protocol" in screen


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_readme_of_the_tests_lists_every_shared_helper_and_no_other_file() -> None:
    tests = ROOT / "tests"
    readme = (tests / "README.md").read_text()
    helpers = {file.name for file in tests.glob("*.py") if not file.name.startswith(("test_", "conftest", "__"))}
    assert helpers - set(re.findall(r"`([\w/]+\.py)`", readme)) == set()
    (table,) = re.findall(r"^### Helpers$(.*?)^### ", readme, re.MULTILINE | re.DOTALL)
    assert [name for name in re.findall(r"`([\w/]+\.py)`", table) if not (tests / name).exists()] == []
