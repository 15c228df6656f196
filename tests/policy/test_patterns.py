"""The rules with `like` that `policy check` warns of: those that refuse what matches."""

from __future__ import annotations

import pytest

from graph_agent.bootstrap.policies import explained_conditions
from tests.policy.cedar_shop import PERMIT, TEXT, ShopTool, policy_of, schema


@pytest.mark.parametrize(
    ("rule", "warns"),
    [
        ('forbid HEAD when { IBAN like "DE*" };', True),
        ('forbid HEAD when { IBAN like "DE*" } unless { context.confirmed };', True),
        ('forbid HEAD when { context has arguments && IBAN like "DE*" };', True),
        ('forbid HEAD unless { IBAN like "DE*" };', False),
        ('forbid HEAD unless { context has arguments && IBAN like "DE*" };', False),
        ('forbid HEAD when { !(IBAN like "DE*") };', False),
        ('forbid HEAD unless { !(IBAN like "DE*") };', True),
        ('forbid HEAD when { !(true && !(IBAN like "DE*")) };', True),
        ('forbid HEAD when { (IBAN like "DE*") == false };', False),
        ('forbid HEAD when { false != (IBAN like "DE*") };', True),
        ('forbid HEAD when { if IBAN like "DE*" then false else true };', False),
        ('forbid HEAD when { if IBAN like "DE*" then true else false };', True),
        ('forbid HEAD when { context.confirmed == (IBAN like "DE*") };', True),
        ('permit HEAD when { IBAN like "DE*" };', False),
        ('permit HEAD unless { IBAN like "DE*" };', True),
        ('forbid HEAD when { IBAN == "DE" };', False),
    ],
)  # fmt: skip
def test_check_warns_of_a_pattern_that_refuses_and_not_of_one_that_allows(rule: str, warns: bool) -> None:
    tool = ShopTool("pay", schema("iban", "text", iban=TEXT, text=TEXT))
    written = rule.replace("HEAD", "(principal, action, resource)").replace("IBAN", "context.arguments.iban")
    lines = list(explained_conditions(policy_of([tool], PERMIT + written)))
    assert any("which compares exactly" in line for line in lines) is warns
