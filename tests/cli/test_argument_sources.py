"""Sources on the command line: `log show`, `log show --sources`, `demo injection` and what is proved about its rules."""

from __future__ import annotations

import re
from pathlib import Path

from graph_agent.analysis.questions import Answer, prove
from graph_agent.bootstrap.injection import FOLDER, list_payees, read_bill, send_money
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.tools.functions import FunctionTools
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
    cli("ask", "add a task to call dad", "--conditions", str(policy))
    shown = cli("log", "show").out
    assert "sources       1. description from user" in shown


def test_the_demo_of_an_injection_is_the_documented_one(cli: Cli) -> None:
    documented = (Path(__file__).parents[2] / "examples/injection/README.md").read_text(encoding="utf-8")
    [session] = re.findall(r"```console\n\$ graph-agent demo injection\n(.*?)```", documented, re.DOTALL)
    shown = cli("demo", "injection")
    assert shown.code == 0
    assert session in shown.out
    assert "recipient from untrusted (read_bill)" in shown.out
    assert cli("demo", "other").code == 2


def test_the_promise_of_the_demo_is_proved_and_fails_without_the_rule_about_taint() -> None:
    tools = FunctionTools(read_bill, list_payees, send_money)
    traits = {name: tools.traits(name) for name in tools.get_available_tools()}
    policy = compile_policy(
        Constitution.parse((FOLDER / "constitution.md").read_text(encoding="utf-8")), tools.declarations(), traits
    )
    rules, promises = ConditionsFile.load(FOLDER / "policy.cedar"), ConditionsFile.load(FOLDER / "promises.cedar")
    (kept,) = prove(policy.with_conditions(rules), promises, seconds=10)
    assert (kept.answer, kept.is_certain) == (Answer.PROVED, True)
    copies = re.sub(r'@id\("after a foreign text.*?};', "", rules.text, flags=re.DOTALL)
    (broken,) = prove(policy.with_conditions(ConditionsFile(copies)), promises, seconds=10)
    assert broken.answer is Answer.FAILS
    assert broken.example is not None
    assert broken.example.confirmed
