"""`graph-agent policy`, and commands with a conditions file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from graph_agent.bootstrap.policies import draft_conditions
from graph_agent.bootstrap.proposed_facts import proposed_facts
from graph_agent.policy.cedar.types import arguments_type
from tests.cli.conftest import Cli
from tests.fact_lines import write_rules
from tests.policy.cedar_shop import COUNT, PERMIT, SHOP, TEXT, ShopTool, policy_of, schema

RULES = """// rules for tests
permit (principal, action, resource);

@id("no milk") forbid (principal, action == Action::"add_task", resource)
when { context.arguments.description like "*milk*" };
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.cedar"
    file.write_text(RULES, encoding="utf-8")
    return file


def test_a_rule_is_the_reason_in_reply_and_log(cli: Cli, policy: Path) -> None:
    asked = cli("ask", "add a task to buy milk", "--conditions", str(policy))
    assert "Not done: add task 'buy milk'. No milk." in asked.out
    assert "not permitted: no milk" in cli("log", "show", "last").out
    assert "1 of 1 identical" in cli("replay", "--all").out
    other = policy.with_name("other.cedar")
    other.write_text(RULES.replace("milk", "beer"), encoding="utf-8")
    what_if = cli("replay", "--all", "--conditions", str(other), "--json")
    assert (what_if.code, json.loads(what_if.out)["identical"]) == (1, False)


def test_the_variable_names_the_file_too(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(policy))
    assert "No milk." in cli("ask", "add a task to buy milk").out
    assert cli("tools", "call", "add_task", '{"description": "milk"}').err == "graph-agent: add_task: not permitted: no milk\n"
    assert cli("doctor").code == 0


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            PERMIT + "\nforbid (principal, action, resource) when { context.arguments.x == 1 };",
            "policy.cedar, line 3: attribute `arguments.x`",
        ),
        ("", "permits nothing: begin it with `permit (principal, action, resource);`"),
    ],
)
def test_a_file_that_cannot_be_used_stops_every_command(cli: Cli, policy: Path, rules: str, message: str) -> None:
    policy.write_text(rules, encoding="utf-8")
    for command in (("ask", "hi"), ("policy", "check")):
        ended = cli(*command, "--conditions", str(policy))
        assert ended.code == 1
        assert message in ended.err
        assert len(ended.err.splitlines()) == 1 + ("model:" in ended.err)


def test_check_explains_each_tool_and_warns_of_deny_lists(cli: Cli, policy: Path) -> None:
    lines = cli("policy", "check", "--conditions", str(policy)).out.splitlines()
    assert lines[0].startswith(f"{policy}: 2 conditions, SHA-256 ")
    base = "permit 'the condition in line 2 of the conditions file'"
    assert lines[1:6] == [
        f"add_task (server 'tasks'): {base}, forbid 'no milk'",
        f"list_tasks (server 'tasks'): {base}",
        f"update_task (server 'tasks'): {base}",
        f"complete_task (server 'tasks'): {base}",
        f"delete_task (server 'tasks'): {base}; the constitution asks the user",
    ]
    assert lines[6].startswith("'no milk' in line 4 forbids by `like`, which compares exactly")
    assert "there is no conditions file" in cli("policy", "check").err


FACTS = """- tasks: list_tasks()
- open: count tasks $.tasks[*]
@id("base") permit (principal, action, resource);

@id("not with many tasks") forbid (principal, action == Action::"add_task", resource)
when { context.result has open && context.result.open > 100 };
"""


def test_check_says_which_facts_are_known_before_a_call(cli: Cli, tmp_path: Path) -> None:
    checked = cli("policy", "check", *write_rules(tmp_path, FACTS))
    assert checked.code == 0
    lines = checked.out.splitlines()
    assert lines[lines.index("add_task (server 'tasks'): permit 'base', forbid 'not with many tasks'") + 1 :][:2] == [
        "  'tasks' is known before each call: list_tasks()",
        "  'open' is known before each call: count tasks $.tasks[*]",
    ]
    impossible = 'forbid (principal, action == Action::"list_tasks", resource) unless { context.result has tasks };'
    files = write_rules(tmp_path, f'- tasks: list_tasks(status = arguments.description)\n{PERMIT}@id("odd") {impossible}')
    assert "'odd' names 'tasks', which no call of it can have" in cli("policy", "check", *files).out


def test_the_check_of_a_constitution_names_what_is_read_and_a_fact_that_does_not_fit(cli: Cli, tmp_path: Path) -> None:
    files = write_rules(tmp_path, FACTS)
    assert "add_task is judged after reading tasks, open: calls of list_tasks" in cli("constitution", "check", *files).out
    constitution = tmp_path / "constitution.md"
    constitution.write_text(constitution.read_text().replace("list_tasks()", "list_task()"))
    ended = cli("constitution", "check", "--constitution", str(constitution))
    assert ended.code == 1
    assert "constitution, line 2: the fact 'tasks': there is no tool 'list_task'" in ended.err


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("result.open > 100", "result.tasks == 1", "line 5: the fact 'tasks' is a whole object"),
        ("has open && context.result.open > 100", "has tasks", "line 3: nothing names the fact 'open'"),
        ("count tasks", "count task", "line 3: no line of the constitution declares the fact 'task'"),
        ("count tasks $.tasks[*]", "open $.a", "line 3: the fact 'open' is made from itself"),
        ("list_tasks()", "lists_tasks()", "line 2: the fact 'tasks': there is no tool 'lists_tasks'"),
        (
            "list_tasks()",
            "add_task()",
            "the tool 'add_task' may change something: only reads give facts",
        ),
        (
            "list_tasks()",
            "list_tasks(x = arguments.description)",
            "line 2: the fact 'tasks': the tool 'list_tasks' has no",
        ),
        ("list_tasks()", "list_tasks(status = arguments.x)", "line 2: the fact 'tasks': no tool has an argument 'x'"),
        ("$.tasks[*]", "$.tasks[", "line 3: the fact 'open': the path $.tasks[ cannot be read"),
        ("open > 100", 'open > 100 && context.result.tasks.cunt == "a"', "line 5: 'tasks' has no field 'cunt'"),
    ],
)
def test_a_mistake_about_a_fact_is_an_error_with_its_line(
    cli: Cli, tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    assert right in FACTS
    ended = cli("policy", "check", *write_rules(tmp_path, FACTS.replace(right, wrong)))
    assert ended.code == 1
    assert message in ended.err


def test_the_schema_is_printed_for_other_tools(cli: Cli) -> None:
    printed = cli("policy", "schema")
    assert 'action "delete_task" in ["all tools", "all writes", "server tasks"] appliesTo' in printed.out
    assert printed.code == 0


def test_a_new_file_can_be_used_and_its_examples_too(cli: Cli, policy: Path) -> None:
    policy.write_text(cli("policy", "new").out, encoding="utf-8")
    assert cli("ask", "add a task to call mom", "--conditions", str(policy)).code == 0


def test_a_rule_about_called_is_an_error_that_names_both_replacements(cli: Cli, policy: Path) -> None:
    for rule in (
        'forbid (principal, action, resource) when { context.called.contains(Action::"add_task") };',
        "forbid (principal, action, resource) unless { context has called };",
    ):
        policy.write_text(f"{PERMIT}\n{rule}", encoding="utf-8")
        for command in (("policy", "check"), ("ask", "hello")):
            ended = cli(*command, "--conditions", str(policy))
            assert ended.code == 1
            assert "line 3: there is no `context.called`: write `context.succeeded` where" in ended.err
            assert "`context.attempted` where none may have been sent" in ended.err


@pytest.mark.parametrize(
    "tools",
    [
        SHOP,
        SHOP[:1],
        [ShopTool("say", schema("text", text=TEXT))],
        [ShopTool("odd", schema(**{"in": COUNT, 'a "b"': TEXT}))],
        [ShopTool("pay", schema(price={"type": "number"}))],
        [ShopTool("pay", schema("price", price={"type": ["number", "string"]}))],
        [ShopTool("pay", schema(price={"type": ["string", "integer"]}))],
    ],
)
def test_each_example_of_a_draft_fits_the_tools(tools: list[ShopTool]) -> None:
    draft = draft_conditions(policy_of(tools, None).actions, ("support",))
    policy_of(tools, draft)
    examples = re.findall(r"(?m)(?:^// .*\n)+", draft.partition("remove the slashes")[2])
    assert len(examples) in (4, 5, 7, 15)
    facts = "".join(re.findall(r"(?m)^// (- .*\n)", draft.partition("remove the slashes")[0]))
    for example in examples:
        policy_of(tools, facts + PERMIT + re.sub(r"(?m)^// (?!needs)", "", example))
    policy_of(tools, re.sub(r"(?m)^// (?=@|forbid|when|unless)", "", draft))


def test_a_draft_proposes_facts_about_what_changes_and_reads_have_in_common() -> None:
    results = {"type": "object", "properties": {"total": COUNT, "place": TEXT, "state": TEXT}}
    tools = [
        ShopTool("get_order", schema("order_id", order_id=TEXT), reads=True),
        ShopTool("cancel_order", schema("order_id", order_id=TEXT)),
        ShopTool("send_order", schema("order_id", "to", order_id=TEXT, to=TEXT)),
        ShopTool("find", schema("order_id", "words", order_id=TEXT, words=TEXT), reads=True),
        ShopTool("number", schema("order_id", order_id=COUNT)),
    ]
    actions = policy_of(tools, None).actions
    [proposed] = proposed_facts(actions)
    assert proposed.declaration == "- order: get_order(order_id = arguments.order_id)"
    there, pending = proposed.examples()
    assert there == (
        '@id("only what get_order finds")\n'
        "// needs the fact order of the constitution\n"
        'forbid (principal, action in [Action::"cancel_order", Action::"send_order"], resource)\n'
        "unless { context.result has order };"
    )
    assert 'context.result.order.status == "pending"' in pending
    typed = replace(actions[0], output=arguments_type(results))
    assert "context.result.order.state ==" in list(proposed_facts([typed, *actions[1:]])[0].examples())[1]
    # A fact with the name of an argument would make `{loan}` of a sentence ambiguous.
    lent = [ShopTool("find_loan", schema("loan", loan=COUNT), reads=True), ShopTool("extend", schema("loan", loan=COUNT))]
    [named] = proposed_facts(policy_of(lent, None).actions)
    assert named.declaration == "- loan_record: find_loan(loan = arguments.loan)"
    # The number by which a loan is found is no amount.
    fee = ShopTool("charge_fee", schema("loan", "amount", loan=COUNT, amount={"type": "number"}))
    draft = draft_conditions(policy_of([*lent, fee], None).actions, ())
    assert '@id("large amounts need a yes")\n// forbid (principal, action == Action::"charge_fee", resource)' in draft
    # What a server that is not trusted says decides about no call.
    assert proposed_facts([replace(actions[0], gives_facts=False), *actions[1:]]) == []


@pytest.mark.usefixtures("noon")  # an hour may end during the test
def test_a_budget_is_kept_shown_and_explained(cli: Cli, policy: Path) -> None:
    rule = '@id("two a day") forbid (principal, action == Action::"add_task", resource) when { context.used.day.calls > 2 };'
    policy.write_text(PERMIT + rule, encoding="utf-8")
    assert cli("budget").out == "Nothing that a condition counts was used today.\n"
    replies = [cli("ask", f"add a task to {what}", "--conditions", str(policy)).out for what in ("call mom", "read", "paint")]
    assert ["Two a day." in reply for reply in replies] == [False, False, True]
    assert "two a day" in cli("log", "show", "last").out
    previous = json.loads(cli("log", "list", "--json").out.splitlines()[1])["decision_id"]
    assert re.search(r"Budget of add_task, with this call: \d this hour; 2 this day\.", cli("log", "show", previous).out)
    assert re.fullmatch(r"add_task: (\d this hour; )?2 this day\n", cli("budget").out)
    shown = json.loads(cli("budget", "--json").out)
    assert (shown["tool"], shown["used"]["day"], shown["unsettled"]) == ("add_task", {"calls": 2, "sum": {}}, 0)
    assert cli("budget", "--user", "bob").out == "Nothing that a condition counts was used today.\n"


def test_rules_about_roles_can_be_tried_locally(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_AGENT_ROLES", "groups=support,manager")
    rule = '@id("only support adds") forbid (principal, action == Action::"add_task", resource)'
    policy.write_text(f'{PERMIT}{rule} unless {{ principal in Role::"support" }};', encoding="utf-8")
    for arguments in (["ask", "add a task to call mom"], ["tools", "call", "add_task", '{"description": "call mom"}']):
        command = [*arguments, "--conditions", str(policy)]
        for roles, refused in (([], True), (["--role", "manager"], True), (["--role", "manager", "--role", "support"], False)):
            ended = cli(*command, *roles)
            assert ("only support adds" in (ended.out + ended.err).lower()) is refused
            shown = cli("log", "show", "last").out
            assert ("was refused and not sent: ACCESS_DENIED, not permitted: only support adds." in shown) is refused
        unknown = cli(*command, "--role", "suport")
        assert unknown.code == 2
        assert "there is no role 'suport': GRAPH_AGENT_ROLES has support, manager" in unknown.err


def test_a_rule_in_the_shadow_lets_the_call_run_and_the_log_says_what_it_would_have_done(cli: Cli, policy: Path) -> None:
    policy.write_text(RULES.replace("@id", "@shadow @id"), encoding="utf-8")
    assert "no milk" not in cli("ask", "add a task to buy milk", "--conditions", str(policy)).out.lower()
    assert 'in the shadow: "no milk" would have refused it' in cli("log", "show", "last").out.replace("'", '"')
    assert json.loads(cli("log", "metrics", "--json").out)["shadow"] == {"no milk": {"asked": 0, "waited": 0, "refused": 1}}
    assert re.search(r"rule in the shadow +would have refused +asked +waited\nno milk +1 +0 +0\n", cli("log", "metrics").out)
    assert "1 of 1 identical" in cli("replay", "--all").out
    assert cli("log", "verify").code == 0
    checked = cli("policy", "check", "--conditions", str(policy)).out
    assert "2 conditions, 1 of them in the shadow, which decide nothing" in checked
    assert "(shadow) forbid 'no milk'" in checked


def test_suggest_says_why_there_is_no_rule_and_trial_what_the_shadow_would_have_changed(cli: Cli, policy: Path) -> None:
    policy.write_text(RULES.replace("@id", "@\n// Not yet.\nshadow @id"), encoding="utf-8")
    for thing in ("milk", "bread"):
        cli("ask", f"add a task to buy {thing}", "--conditions", str(policy))
    suggested = cli("policy", "suggest")
    assert suggested.out.endswith("permit (principal, action, resource);\n")
    assert "No rule for add_task: 2 calls of 1 user: too little for a rule." in suggested.err
    policy.with_name("suggested.cedar").write_text(suggested.out, encoding="utf-8")
    assert cli("policy", "check", "--conditions", str(policy.with_name("suggested.cedar"))).code == 0
    trial = cli("policy", "trial", "--conditions", str(policy))
    assert trial.code == 0
    assert "2 decisions with rules in the shadow" in trial.out
    assert "no milk: would have refused 1 call and asked about 0, in 1 of 2 decisions" in trial.out
    as_json = json.loads(cli("policy", "trial", "--conditions", str(policy), "--json").out)
    assert as_json["differing"] == []
    assert as_json["rules"]["no milk"]["by_tool"] == {"add_task": 1}
