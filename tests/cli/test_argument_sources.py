"""`graph-agent log show --sources`, and what `log show` prints where a rule reads sources."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli

RULES = (
    "permit (principal, action, resource);\n"
    '@id("no copies") forbid (principal, action in Action::"all writes", resource)\n'
    'when { context.sources.contains("untrusted") } unless { context.confirmed };'
)


def test_sources_are_printed_on_demand_and_those_that_a_rule_has_read_always(cli: Cli, tmp_path: Path) -> None:
    cli("ask", "add a task to call mom")
    assert "from your words" not in cli("log", "show").out
    assert "description from your words" in cli("log", "show", "--sources").out
    policy = tmp_path / "policy.cedar"
    policy.write_text(RULES, encoding="utf-8")
    cli("ask", "add a task to call dad", "--policy", str(policy))
    shown = cli("log", "show").out
    assert "sources       1. description from user" in shown
