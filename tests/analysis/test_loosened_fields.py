"""Every field of a policy, of its tools and servers, and of the settings is compared by `policy diff`, or need not be."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import mcp.types
import pytest
from pydantic import BaseModel, SecretStr

from graph_agent.analysis import loosened_fields as table
from graph_agent.analysis.comparison import compare
from graph_agent.analysis.loosened_fields import compare_settings
from graph_agent.analysis.questions import AnalysisResult, Change
from graph_agent.analysis.servers import compare_servers
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution, DoneIf, ToolGrant, UndoneBy
from graph_agent.policy.facts import Fact, Source, parse_fact
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.settings import Settings
from graph_agent.tools.server_file import ServerConfig
from tests.fact_lines import split
from tests.policy.cedar_shop import COUNT, PERMIT, ROLES, TEXT, ShopTool, constitution_of, declarations_of, policy_of, schema

SECONDS = 5.0
TABLES: list[tuple[type, table.Rows]] = [
    (ToolGrant, table.GRANT),
    (ToolTraits, table.TRAITS),
    (ToolDeclaration, table.DECLARATION),
    (ToolRule, table.RULE),
    (Constitution, table.CONSTITUTION),
    (Fact, table.FACT),
    (Source, table.SOURCE),
    (UndoneBy, table.UNDONE_BY),
    (DoneIf, table.DONE_IF),
    (ConditionsFile, table.CONDITIONS),
    (CompiledPolicy, table.POLICY),
    (ServerConfig, table.SERVER),
    (Settings, table.SETTINGS),
    (mcp.types.Tool, table.LISTED),
    (mcp.types.ToolAnnotations, table.ANNOTATIONS),
]
_LINE = {"type": "object", "properties": {"to": TEXT, "n": COUNT, "m": COUNT}, "required": ["to", "n", "m"]}
PAY = ShopTool("pay", schema("to", "amount", to=TEXT, amount=COUNT, lines={"type": "array", "items": _LINE}), "bank")
BACK = ShopTool("payback", schema("id", id=TEXT), "bank", marker="(requires confirmation)")
FIND = ShopTool("find", schema("to", to=TEXT), "bank", reads=True)
MAIL = ShopTool("mail", schema(), "mail", reads=True)
OFFICE = PERMIT + (
    '@id("office hours") forbid (principal, action == Action::"pay", resource) when { context.time.hour < 8 };'
    '@id("large") forbid (principal, action == Action::"pay", resource) when { context.arguments.amount > 10 } '
    "unless { context.approvals.manager >= 1 };"
)
OWN_WORDS = PERMIT + (
    '@id("own words") forbid (principal, action == Action::"pay", resource) '
    'when { context.tainted && !(["user"].containsAll(context.source.to)) } unless { context.confirmed };'
)


@pytest.mark.parametrize(("type_", "rows"), TABLES, ids=[type_.__name__ for type_, _ in TABLES])
def test_each_field_has_a_decision(type_: type, rows: table.Rows) -> None:
    named = [one.name for one in fields(type_)] if is_dataclass(type_) else [*_fields_of(type_)]
    assert sorted(rows) == sorted(named)
    assert all(row.why or row.change is not Change.NOT_COMPARED for row in rows.values())


def _fields_of(type_: type) -> dict[str, Any]:
    assert issubclass(type_, BaseModel)
    return dict(type_.model_fields)


def found(old: CompiledPolicy, new: CompiledPolicy) -> list[AnalysisResult]:
    """Return what keeps `--no-new` from passing."""
    return [one for one in compare(old, new, SECONDS) if one.may_loosen]


def undone(seconds: str = "1 hour", where: str = "result.id") -> ShopTool:
    return PAY._replace(marker=f"(undone by payback(id = {where}) for {seconds})")


FACTS = "- sent: find(to = arguments.to)\n- paid: sent $.paid[*]\n"
RESTORES = "(undone by pay(to = sent.to, amount = sent.n) for 1 hour)"
DONE = "(done if sent $.paid[*])"


@pytest.mark.parametrize(
    ("before", "after", "tightens"),
    [
        (PAY, undone(), True),
        (undone(), undone("2 hours"), True),
        (undone(), undone(where="arguments.to"), False),
        (PAY._replace(marker=RESTORES), PAY._replace(marker=RESTORES.replace("sent.to", "arguments.to")), False),
        (PAY, PAY._replace(marker=DONE), False),
        (PAY._replace(marker=DONE), PAY._replace(marker=f"{DONE} (complete)"), False),
        (PAY._replace(marker=f"{DONE} (complete)"), PAY._replace(marker=f"{DONE} (complete after 2 minutes)"), False),
        (PAY._replace(marker=DONE), PAY._replace(marker=DONE.replace("paid", "done")), False),
    ],
)
def test_what_happens_after_a_call_is_named_if_it_changes(before: ShopTool, after: ShopTool, *, tightens: bool) -> None:
    old, new = (policy_of([one, BACK, FIND], FACTS + PERMIT) for one in (before, after))
    assert [(one.name, one.answer) for one in found(old, new)] == [("pay", Change.NOT_COMPARED)]
    assert bool(found(new, old)) is not tightens
    assert found(old, old) == []


def test_trusted_results_are_named_with_the_call_that_they_make_possible() -> None:
    old, new = (policy_of([PAY, MAIL._replace(marker=marker)], OWN_WORDS) for marker in ("", "(trusted results)"))
    runs, believed = found(old, new)
    assert (runs.name, runs.answer, runs.is_certain) == ("pay", Change.RUNS, True)
    assert runs.example is not None
    assert runs.example.guard == "asks -> runs"
    assert runs.example.state["under the old policy"]["tainted"] is True
    assert (believed.name, believed.answer) == ("mail", Change.BELIEVED)
    assert found(new, old) == []


def test_a_tool_that_more_plans_may_cover_is_named() -> None:
    markers = ("", "(in plans, only with a form)", "(in plans)")
    policies = [policy_of([PAY._replace(marker=marker)], PERMIT) for marker in markers]
    for at, old in enumerate(policies):
        loosened = [[one.answer for one in found(old, new)] for new in policies]
        assert loosened == [[Change.WIDER] if to > at else [] for to in range(3)]


def test_an_argument_whose_sources_are_found_otherwise_is_compared_by_them() -> None:
    # A choice of the schema has no source, so that it is never anything else than the user's.
    choice = PAY._replace(parameters=schema("to", "amount", to={**TEXT, "enum": ["x", "y"]}, amount=COUNT))
    runs = found(policy_of([PAY, MAIL], OWN_WORDS), policy_of([choice, MAIL], OWN_WORDS))
    assert [(one.name, one.answer, one.is_certain) for one in runs] == [("pay", Change.RUNS, True)]
    assert found(policy_of([choice, MAIL], OWN_WORDS), policy_of([choice, MAIL], OWN_WORDS)) == []
    # The id of the user, which the runtime sets, has none either.
    sourced = PERMIT + 'forbid (principal, action == Action::"pay", resource) when { context.source.to.isEmpty() };'
    bound = PAY._replace(marker="(to is the signed-in user)")
    assert [one.answer for one in found(policy_of([bound], sourced), policy_of([PAY], sourced))] == [Change.RUNS]


def test_another_time_zone_and_another_role_are_not_compared() -> None:
    policy = policy_of([PAY], OFFICE)
    assert policy.conditions is not None
    file = policy.conditions.file
    others: dict[str, Any] = {"time_zone": "Pacific/Kiritimati", "roles": (*ROLES, "intern")}
    for name, value in others.items():
        (one,) = found(policy, policy.with_conditions(replace(file, **{name: value})))
        assert (one.name, one.answer, one.why) == ("conditions", Change.NOT_COMPARED, table.CONDITIONS[name].why)


def test_a_prompt_that_is_offered_now_is_named() -> None:
    text = constitution_of([PAY])
    old, new = (
        compile_policy(Constitution.parse(one), declarations_of([PAY]), {"pay": ToolTraits()})
        for one in (text, f"{text}\n## Available Prompts\n- bank.advice: Advice\n")
    )
    assert [(one.name, one.answer) for one in found(old, new)] == [("constitution", Change.WIDER)]
    assert found(new, old) == []


def test_a_schema_of_results_from_which_facts_are_read_is_not_compared() -> None:
    rule = PERMIT + 'forbid (principal, action == Action::"pay", resource) when { context.result has sent };'

    def served(output: dict[str, Any] | None, rules: str = rule) -> CompiledPolicy:
        traits = {"pay": ToolTraits(), "find": ToolTraits(read_only=True, output=output)}
        tools = [PAY, FIND]
        constitution = Constitution.parse(split(FACTS)[0] + constitution_of(tools))
        policy = compile_policy(constitution, declarations_of(tools), traits)
        return policy.with_conditions(ConditionsFile(rules))

    old, new = schema(id={**TEXT, "pattern": "^A"}), schema(id=TEXT)
    assert [(one.name, one.answer) for one in found(served(old), served(new))] == [("find", Change.NOT_COMPARED)]
    assert found(served(old, PERMIT), served(new, PERMIT)) == []
    assert found(served(old), served({**old, "description": "An object."})) == []


ABOUT_SENT = PERMIT + 'forbid (principal, action == Action::"pay", resource) when { context.result has it };'
DECLARED_OTHERWISE = {
    "kind": ("sent $.n", "last find $.n"),
    "tools": ("last find $.n", "last find, mail $.n"),
    "parameters": ("sent.n * arguments.amount", "sent.n * sent.n"),
    "of": ("sent $.n", "other $.n"),
    "path": ("one sent $.a[?@.to == arguments.to].n", "one sent $.a[?@.to != arguments.to].n"),
    "fold": ("one sent $.a[*].n", "sum sent $.a[*].n"),
    "times": tuple(f"sum find(to = arguments.lines[*].to) $.n * arguments.lines[*].{number}" for number in ("n", "m")),
}


@pytest.mark.parametrize("name", DECLARED_OTHERWISE)
def test_a_fact_of_a_condition_that_is_declared_otherwise_is_named(name: str) -> None:
    first, second = DECLARED_OTHERWISE[name]
    read = "- sent: find(to = arguments.to)\n- other: find(to = principal)\n"
    old, new = (policy_of([PAY, FIND, MAIL], f"{read}- it: {one}\n{ABOUT_SENT}") for one in (first, second))
    assert [(one.name, one.why) for one in found(old, new)] == [("pay", "the fact 'it' is declared otherwise")]
    assert found(old, old) == []


def test_two_declarations_are_the_same_only_if_all_their_parts_are() -> None:
    parts = [one.name for one in fields(Fact) if one.compare]
    assert sorted(parts) == sorted(["name", *DECLARED_OTHERWISE])
    assert parse_fact("x", "sent $.n", 1) == parse_fact("x", "sent  $.n", 2)


def test_what_a_server_and_its_tools_permit_more_is_named() -> None:
    old = ServerConfig("bank", "https://bank.example/mcp", timeout=5)
    changes: dict[str, Any] = {"trusted": True, "server": "https://other.example/mcp", "empty": ("rm", "data")}
    for name, value in changes.items():
        (one,) = compare_servers([old], [replace(old, **{name: value})])
        assert (one.answer, one.why) == (table.SERVER[name].change, table.SERVER[name].why)
    assert list(compare_servers([old], [replace(old, timeout=9, start_timeout=1)])) == []


LOOSER: dict[str, tuple[Any, Any]] = {
    "roles": ("groups=manager", "groups=manager,intern"),
    "time_zone": ("UTC", "Europe/Berlin"),
    "home": (Path("/a"), Path("/b")),
    "database_url": ("sqlite:///a.db", "sqlite:///b.db"),
    "secret": (SecretStr("a" * 16), SecretStr("b" * 16)),
    "previous_secrets": ((), (SecretStr("b" * 16),)),
    "timeout_seconds": (30.0, 60.0),
    "max_iterations": (None, 50),
    "after_yes": ("end", "go_on"),
    "approval_hours": (24.0, 48.0),
    "turns_per_minute": (60, 120),
    "turn_tokens": (1000, None),
    "day_tokens": (1000, 2000),
    "retention_days": (30, 3),
    "jwt_secret": (SecretStr("a" * 32), SecretStr("b" * 32)),
    "jwks_url": ("https://a.example/keys", "https://b.example/keys"),
    "jwt_audience": ("a", "b"),
    "jwt_issuer": ("https://a.example", None),
    "jwt_max_hours": (24.0, 48.0),
    "oidc_issuer": ("https://a.example", "https://b.example"),
    "oidc_client_id": ("a", "b"),
    "allow_http": (False, True),
    "auditors": (("ann",), ("ann", "bob")),
    "operators": (("ann",), ("ann", "bob")),
    "auditor_claim": ("groups=audit", "groups=all"),
}


@pytest.mark.parametrize("name", [name for name, row in table.SETTINGS.items() if row.loosens and name != "approver_keys"])
def test_a_setting_that_may_permit_more_is_named(name: str) -> None:
    before, after = LOOSER[name]
    settings = Settings()
    (one,) = compare_settings(settings.model_copy(update={name: before}), settings.model_copy(update={name: after}))
    assert (one.name, one.may_loosen) == (Settings.model_fields[name].alias, True)
    assert list(compare_settings(settings, settings)) == []


def test_a_limit_that_is_lowered_permits_no_more() -> None:
    for name in ("timeout_seconds", "approval_hours", "turns_per_minute", "day_tokens", "jwt_max_hours"):
        before, after = (Settings().model_copy(update={name: value}) for value in (9, 3))
        assert list(compare_settings(before, after)) == []


def test_a_key_that_may_sign_approvals_is_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("ann ssh-ed25519 AAA\n", encoding="utf-8")
    two.write_text("ann ssh-ed25519 AAA\nbob ssh-ed25519 BBB\n", encoding="utf-8")
    by = {file: Settings().model_copy(update={"approver_keys": file}) for file in (one, two, None)}
    assert [bool([*compare_settings(by[old], by[new])]) for old, new in ((one, two), (one, None))] == [True, True]
    assert [bool([*compare_settings(by[old], by[new])]) for old, new in ((two, one), (None, one))] == [False, False]
