"""The rules that `policy new` writes against instructions in what tools return, and what `policy check` says about them."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.bootstrap.policies import draft_conditions, explained_conditions
from graph_agent.bootstrap.source_rules import targets_of
from graph_agent.errors import ConfigurationError
from tests.policy.cedar_shop import AMOUNT, PERMIT, SHOP, TEXT, ShopTool, policy_of, schema
from tests.source_attacks import ATTACKS, CONSTITUTION, ORDINARY, TOOLS, runs


def targets(reads: bool = False, **arguments: Any) -> tuple[str, ...]:
    (action,) = policy_of([ShopTool("t", schema(**arguments), reads=reads)], None).actions
    return targets_of(action)


def test_targets_are_who_which_and_how_much_but_no_texts_times_and_choices() -> None:
    ids = {"type": "array", "items": {"type": "integer"}}
    assert targets(recipient=TEXT, amount=AMOUNT, file_id=TEXT, to=ids, password=TEXT, guests={"type": "array"}) == (
        "recipient",
        "amount",
        "file_id",
        "to",
        "password",
        "guests",
    )
    assert targets(body=TEXT, mailSubject=TEXT, due_date=TEXT, express={"type": "boolean"}, way={"enum": ["a", "b"]}) == ()


def test_of_a_read_only_an_address_is_a_target() -> None:
    assert targets(reads=True, url=TEXT, query=TEXT, customer_id=TEXT, site_uri=TEXT) == ("url", "site_uri")


@pytest.mark.parametrize(
    "name", ["per_page", "perPage", "page", "pageToken", "cursor", "limit", "fields", "field_names", "sort"]
)
def test_the_part_of_a_list_that_is_returned_is_no_target(name: str) -> None:
    arguments: dict[str, Any] = {name: TEXT}
    assert targets(**arguments) == ()


def test_what_is_changed_is_a_target_also_if_it_is_called_like_a_part_of_a_list() -> None:
    (limit, page) = policy_of(
        [ShopTool("set_limit", schema(limit=AMOUNT)), ShopTool("editPage", schema(page=TEXT))], None
    ).actions
    assert (targets_of(limit), targets_of(page)) == (("limit",), ("page",))
    assert targets(credit_limit=AMOUNT, order=TEXT) == ("credit_limit", "order")


def test_the_draft_is_accepted_for_many_arguments_and_for_names_that_differ_only_at_their_end() -> None:
    many = {f"target_{number}": TEXT for number in range(400)}
    tools = [ShopTool(name, schema(**many)) for name in ("x" * 190 + "1", "x" * 190 + "2")]
    draft = draft_conditions(policy_of(tools, None).actions, ())
    policy_of(tools, draft)
    assert all(draft.count(f"context.source.{name})") == len(tools) for name in many)


def test_a_draft_that_no_command_would_read_is_refused() -> None:
    many = {f"target_{number}": TEXT for number in range(400)}
    tools = [ShopTool(f"t{number}", schema(**many)) for number in range(20)]
    with pytest.raises(ConfigurationError, match="would have more than 262,144 characters"):
        draft_conditions(policy_of(tools, None).actions, ())


def test_the_draft_for_all_tools_is_valid_and_names_no_target_twice() -> None:
    draft = draft_conditions(policy_of(SHOP, None).actions, ())
    policy_of(SHOP, draft)
    assert draft.count("context.source.iban") == 1
    assert "after a foreign text, pay needs your own words" in draft


DRAFT = draft_conditions(
    policy_of([ShopTool(one.name, one.parameters, reads=one.name.startswith(("read", "find"))) for one in TOOLS], None).actions,
    (),
)
BY_TIME = {"another day"}
"""The draft leaves times free: who gets what of which object is not in them."""


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in BY_TIME])
async def test_no_injection_runs_under_the_draft(name: str) -> None:
    assert not await runs(ATTACKS[name], DRAFT, CONSTITUTION)


@pytest.mark.parametrize("name", [name for name, one in ORDINARY.items() if "guests" not in one.wanted[1]])
async def test_an_ordinary_turn_needs_no_yes_under_the_draft(name: str) -> None:
    assert await runs(ORDINARY[name], DRAFT, CONSTITUTION)


def test_check_says_what_is_trusted_what_has_no_rule_and_what_the_gateway_lacks() -> None:
    tools = [tool for tool in SHOP if tool.name in ("pay", "read_mail")]
    rule = (
        'forbid (principal, action == Action::"pay", resource)\n'
        'when { context.tainted && context.source.iban.contains("model") };'
    )
    lines = list(explained_conditions(policy_of(tools, PERMIT + rule)))
    assert "  no condition reads where 'amount' comes from" in lines
    assert not any("'iban' comes from" in line for line in lines)
    assert "results: those of no tool are trusted; after any other one `context.tainted` is true" in lines
    assert any(line.startswith("the gateway has only `context.tainted`") for line in lines)
    assert not any("tainted" in line for line in explained_conditions(policy_of(tools, PERMIT)))
