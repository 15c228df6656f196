"""A shop with twenty tools on four servers and twenty-one rules, for the tests of conditions and of their analysis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.call_in_hand import GuardVerdict
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import SECTION, Constitution, grant_line
from graph_agent.policy.past_call import PastCall
from tests.fact_lines import split
from tests.judging import judge_batch

ROLES = ("manager", "support")
PERMIT = '@id("base") permit (principal, action, resource);\n'
TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
AMOUNT: dict[str, Any] = {"type": "number", "minimum": 0}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class ShopTool(NamedTuple):
    """A tool for a test. `marker` is the marker of its line in the constitution."""

    name: str
    parameters: dict[str, Any]
    server: str = "shop"
    reads: bool = False
    marker: str = ""


SHOP: tuple[ShopTool, ...] = (
    ShopTool("find_order", schema("order", order=TEXT), reads=True),
    ShopTool("list_orders", schema(customer=TEXT, limit=COUNT), reads=True),
    ShopTool(
        "refund",
        schema("order", "amount", order=TEXT, amount=COUNT, reason={"type": "string", "enum": ["damaged", "late", "other"]}),
    ),
    ShopTool("cancel_order", schema("order", order=TEXT), marker="(requires confirmation)"),
    ShopTool(
        "ship",
        schema(
            "order",
            "carrier",
            order=TEXT,
            carrier={"type": "string", "enum": ["dhl", "ups"]},
            express={"type": "boolean"},
        ),
    ),
    ShopTool("discount", schema("customer", "percent", customer=TEXT, percent={**AMOUNT, "maximum": 100})),
    ShopTool("set_price", schema("sku", "price", sku=TEXT, price=AMOUNT)),
    ShopTool("stock", schema("sku", sku=TEXT), reads=True),
    ShopTool("restock", schema("sku", "count", sku=TEXT, count=COUNT)),
    ShopTool("delete_customer", schema("customer", customer=TEXT), marker="(requires confirmation)"),
    ShopTool("read_private", schema("customer", customer=TEXT), "crm", reads=True),
    ShopTool("note", schema("customer", "text", customer=TEXT, text=TEXT), "crm"),
    ShopTool("tag", schema("customer", "tags", customer=TEXT, tags={"type": "array", "items": TEXT}), "crm"),
    ShopTool("login_bank", schema(), "bank"),
    ShopTool("pay", schema("iban", "amount", iban=TEXT, amount=AMOUNT), "bank"),
    ShopTool("send_mail", schema("to", "text", to={"type": "array", "items": TEXT}, text=TEXT, subject=TEXT), "mail"),
    ShopTool("read_mail", schema("id", id=COUNT), "mail", reads=True),
    ShopTool("web_post", schema("url", "body", url=TEXT, body={"type": "object"}), "web"),
    ShopTool("web_get", schema("url", url=TEXT), "web", reads=True),
    ShopTool("report", schema("title", "days", title=TEXT, days={"type": "integer", "minimum": 1, "maximum": 365})),
)

GIVE_BACK = ShopTool("give_back", schema("order", "card", "amount", order=TEXT, card=TEXT, amount=AMOUNT))
"""A tool that the documentation speaks of, and the shop does not have."""

RULES = (
    PERMIT
    + """
@id("big refunds need a yes") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 100 } unless { context.confirmed };
@id("refunds at most 500") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 500 } unless { principal in Role::"manager" };
@id("2000 a day") forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 2000 };
@id("10 refunds an hour") forbid (principal, action == Action::"refund", resource) when { context.used.hour.calls > 10 };
@id("other needs a yes") forbid (principal, action == Action::"refund", resource)
when { context.arguments has reason && context.arguments.reason == "other" } unless { context.confirmed };
@id("nothing leaves after private reads")
forbid (principal, action in [Action::"send_mail", Action::"web_post"], resource)
when { context.attempted.contains(Action::"read_private") }
unless { context.domain has to && ["example.com"].containsAll(context.domain.to) };
@id("mail outside needs a yes") forbid (principal, action == Action::"send_mail", resource)
unless { context.confirmed || ["example.com"].containsAll(context.domain.to) };
@id("20 recipients") forbid (principal, action == Action::"send_mail", resource) when { context.length.to > 20 };
@id("express needs a yes") forbid (principal, action == Action::"ship", resource)
when { context.arguments has express && context.arguments.express } unless { context.confirmed };
@id("discount up to 15") forbid (principal, action == Action::"discount", resource)
when { context.arguments.percent.greaterThan(decimal("15.0")) } unless { context.confirmed };
@id("discount up to 50") forbid (principal, action == Action::"discount", resource)
when { context.arguments.percent.greaterThan(decimal("50.0")) };
@id("prices by managers") forbid (principal, action == Action::"set_price", resource)
unless { principal in Role::"manager" };
@id("price list closed at night") forbid (principal, action == Action::"set_price", resource)
when { context.time.hour < 8 || context.time.hour >= 18 };
@id("test goods only without yes") forbid (principal, action == Action::"restock", resource)
unless { context.arguments.sku like "TEST-*" || context.confirmed };
@id("login first") forbid (principal, action == Action::"pay", resource)
unless { context.succeeded.contains(Action::"login_bank") };
@id("payments need a yes") forbid (principal, action == Action::"pay", resource) unless { context.confirmed };
@id("payments 1000 a day") forbid (principal, action == Action::"pay", resource)
when { context.used.day.sum.amount.greaterThan(decimal("1000.0")) };
@id("post only to our site") forbid (principal, action == Action::"web_post", resource)
unless { ["shop.example.com"].containsAll(context.domain.url) };
@id("unseen details need a yes") forbid (principal, action in Action::"all writes", resource)
unless { context.hidden.isEmpty() || context.confirmed };
@id("30 writes an hour") forbid (principal, action in Action::"all writes", resource)
when { context.used.hour.writes > 30 };
"""
)


def constitution_of(tools: Iterable[ShopTool]) -> str:
    """Return a constitution that grants all `tools`."""
    lines = "\n".join(grant_line(tool.name, tool.name.replace("_", " "), tool.marker) for tool in tools)
    return f"{SECTION}\n{lines}\n"


def declarations_of(tools: Iterable[ShopTool]) -> tuple[ToolDeclaration, ...]:
    return tuple(ToolDeclaration(name=tool.name, description="x", parameters=tool.parameters) for tool in tools)


def policy_of(tools: Iterable[ShopTool], rules: str | None, roles: Sequence[str] = ROLES) -> CompiledPolicy:
    """Return the policy that grants all `tools`, with facts and conditions that fit them, or with none."""
    tools = tuple(tools)
    traits = {tool.name: ToolTraits(read_only=tool.reads) for tool in tools}
    servers = {tool.name: tool.server for tool in tools}
    facts, rules = ("", None) if rules is None else split(rules)
    constitution = Constitution.parse(facts + constitution_of(tools))
    policy = compile_policy(constitution, declarations_of(tools), traits, servers=servers)
    if rules is None:
        return policy
    policy = policy.with_conditions(ConditionsFile(rules, roles=tuple(roles)))
    assert policy.conditions is not None
    policy.conditions.require_valid()
    return policy


def judge(
    policy: CompiledPolicy, tool: str, arguments: dict[str, Any], past: Sequence[PastCall] = (), **situation: Any
) -> GuardVerdict:
    """Return the guard's judged on one call of Ann, with her `roles` and `facts`."""
    call = FunctionCall(name=tool, arguments=arguments)
    (judged,) = judge_batch(
        [call], policy=policy, user_id="ann", decision_id="d", past=past, max_calls_per_turn=50, **situation
    )
    return judged


def facts(**more: Any) -> Facts:
    """Return facts at eleven on a Monday, with nothing used or called but `more`."""
    now = {"now": "2026-11-23T11:00:00Z", "hour": 11, "weekday": "Mon", "used": {}, "succeeded": [], "attempted": []}
    return Facts.model_validate({**now, **more})
