"""The declarations of facts: their forms, their types, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.evaluation import CedarConditions
from graph_agent.policy.cedar.fact_types import PRESENCE
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.types import CedarType, Field, Kind
from graph_agent.policy.fact_errors import FactError, UnreadableError
from graph_agent.policy.facts import Fact, FactKind, Fold, Source, parse_fact
from graph_agent.policy.selection import Selection
from tests.fact_lines import facts_in, split

TEXT, COUNT, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
STRING = CedarType(Kind.STRING)


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


LINES = {"type": "array", "items": schema("product_id", product_id=TEXT)}
TYPED = schema("status", status=TEXT, total=NUMBER, customer=schema(id=TEXT), lines={"type": "array", "items": schema(id=TEXT)})


def read(name: str, parameter: str, **known: Any) -> ToolAction:
    return ToolAction.of(name, "shop", schema(parameter, **{parameter: TEXT}), writes=False, **known)


ACTIONS = (
    read("get_order", "order_id"),
    read("get_typed", "order_id", output=TYPED),
    read("get_customer", "user_id"),
    read("get_product", "product_id"),
    read("find_by_mail", "mail"),
    read("find_by_name", "name"),
    read("foreign", "order_id", gives_facts=False),
    ToolAction.of("own_profile", "shop", schema("who", who=TEXT), writes=False, bound_argument="who"),
    ToolAction.of(
        "cancel",
        "shop",
        schema("order_id", "method", order_id=TEXT, method=TEXT, items=LINES, count=COUNT, amount=NUMBER),
        writes=True,
    ),
    ToolAction.of("rename", "shop", schema("name", name=TEXT), writes=True),
)
HAS_ORDER = "context.result has order"
ORDER = "- order: get_order(order_id = arguments.order_id)\n"
TYPED_ORDER = "- order: get_typed(order_id = arguments.order_id)\n"


def compiled(text: str) -> CedarConditions:
    return CedarConditions(ConditionsFile(split(text)[1]), ACTIONS, facts=facts_in(text))


def conditions(declared: str, clause: str, scope: str = 'action == Action::"cancel"') -> CedarConditions:
    text = f"""{declared}// the rules
        @id("base") permit (principal, action, resource);
        @id("rule")
        forbid (principal, {scope}, resource) unless {{ {clause} }};"""
    found = compiled(text)
    found.require_valid()
    return found


def types(declared: str, clause: str) -> dict[str, CedarType]:
    return dict(conditions(declared, clause).results.types["cancel"])


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            "get_order(order_id = arguments.order_id)",
            Fact("f", FactKind.READ, ("get_order",), (("order_id", Source("arguments", ("order_id",))),)),
        ),
        (
            " get_customer ( user_id=order.customer.id , who = principal ) $.methods.*.id ",
            Fact(
                "f",
                FactKind.READ,
                ("get_customer",),
                (("user_id", Source("order", ("customer", "id"))), ("who", Source("principal"))),
                path="$.methods.*.id",
            ),
        ),
        (
            "count get_product(id = arguments.items[*].product_id) $.variants[?@.ok == true]",
            Fact(
                "f",
                FactKind.READ,
                ("get_product",),
                (("id", Source("arguments", ("items", "[*]", "product_id"))),),
                path="$.variants[?@.ok == true]",
                fold=Fold.COUNT,
            ),
        ),
        (
            "sum get_price(sku = arguments.items[*].sku) $.prices[?@.kind == 'a * b'] * arguments.items[*].number",
            Fact(
                "f",
                FactKind.READ,
                ("get_price",),
                (("sku", Source("arguments", ("items", "[*]", "sku"))),),
                path="$.prices[?@.kind == 'a * b']",
                fold=Fold.SUM,
                times=Source("arguments", ("items", "[*]", "number")),
            ),
        ),
        ("last find_by_mail", Fact("f", FactKind.LAST, ("find_by_mail",))),
        ("last a, 'b c' ,d $.id", Fact("f", FactKind.LAST, ("a", "b c", "d"), path="$.id")),
        ("order $.history[0].method", Fact("f", FactKind.PART, of="order", path="$.history[0].method")),
        ("count arguments $.items[*]", Fact("f", FactKind.PART, of="arguments", path="$.items[*]", fold=Fold.COUNT)),
    ],
)
def test_an_annotation_says_where_a_fact_comes_from(text: str, fact: Fact) -> None:
    assert parse_fact("f", text) == fact


@pytest.mark.parametrize(
    "text",
    [
        "",
        "get_order",
        "get_order(order_id)",
        "get_order(order_id = arguments)",
        "get_order(order_id = principal.id)",
        "get_order(order_id = 'W1')",
        "get_order(order_id = arguments.a, order_id = arguments.b)",
        "get_order(id = arguments.a[*], other = arguments.b[*]) $.id",
        "get_order(id = arguments.a[*].b[*]) $.id",
        "get_order(id = arguments.a[*])",
        "count get_order(id = arguments.a) $.total",
        "order $.a[",
        "order $..id",
        "order $.a[?@..b == 1].id",
        "arguments $[*].id",
        "count order $.status",
        "get_price(sku = arguments.items[*].sku) $.price * arguments.items[*].number",
        "sum get_price(sku = arguments.items[*].sku) $.price * arguments.others[*].number",
        "sum get_price(sku = arguments.items[*].sku) $.price * arguments.number",
        "sum get_price(sku = arguments.items[*].sku) $.price * order.number",
        "sum get_price(sku = arguments.sku) $.prices[*] * arguments.items[*].number",
    ],
)
def test_a_declaration_that_can_give_no_value_is_an_error(text: str) -> None:
    with pytest.raises(FactError):
        parse_fact("f", text)


def test_only_facts_that_something_names_are_read() -> None:
    found = conditions(f"{ORDER}- old: order $.a\n", "context.result has order")
    assert [fact.name for fact in found.results.order] == ["order"]


def test_an_annotation_of_a_condition_declares_no_fact() -> None:
    text = """@order("get_order(order_id = arguments.order_id)") permit (principal, action, resource);
        forbid (principal, action, resource) unless { context.result has order };"""
    with pytest.raises(ConfigurationError, match="line 2: no line of the constitution declares the fact 'order'"):
        compiled(text).require_valid()


@pytest.mark.parametrize(
    ("clause", "type_"),
    [
        ('context.result.order.a == "pending"', STRING),
        ('context.result.order.a like "p*"', STRING),
        ("context.result.order.a == context.arguments.method", STRING),
        ("context.result.order.a == context.result.order.b", STRING),
        ("context.result.order.a + 1 > 3", CedarType(Kind.LONG)),
        ("context.result.order.a > context.length.items", CedarType(Kind.LONG)),
        ("context.result.order.a", CedarType(Kind.BOOL)),
        ("!context.result.order.a", CedarType(Kind.BOOL)),
        ('context.result.order.a.lessThan(decimal("5.00"))', CedarType(Kind.DECIMAL)),
        ("context.result.order.a < context.time.now", CedarType(Kind.DATETIME)),
        ('context.time.now.durationSince(context.result.order.a) <= duration("24h")', CedarType(Kind.DATETIME)),
        ('context.result.order.a.contains("x")', CedarType(Kind.SET, item=STRING)),
        ("context.result.order.a.containsAll([1, 2])", CedarType(Kind.SET, item=CedarType(Kind.LONG))),
        ('["x", "y"].contains(context.result.order.a)', STRING),
        ('(if context.result.order.a == 1 then "x" else "y") == "x"', CedarType(Kind.LONG)),
    ],
)
def test_the_use_of_a_field_says_its_type(clause: str, type_: CedarType) -> None:
    found = types(ORDER, f"context.result has order && ({clause})")["order"].field("a")
    assert found == Field("a", type_)


def test_a_field_that_is_asked_for_is_optional_and_may_have_any_type() -> None:
    found = types(ORDER, 'context.result has order && context.result.order has a && context.result.order.b == "x"')
    assert found["order"].fields == (Field("a", PRESENCE, False), Field("b", STRING))


def test_the_output_schema_says_the_types_that_the_use_leaves_open() -> None:
    clause = "context.result has order && context.result.order has total && context.result.order.customer.id == "
    found = types(TYPED_ORDER, f"{clause} context.result.order.status")["order"]
    assert found.field("total") == Field("total", CedarType(Kind.DECIMAL), False)
    assert types(f"{TYPED_ORDER}- all: order $.total\n", "context.result has all") == {"all": CedarType(Kind.DECIMAL)}


def test_a_parameter_says_the_type_of_the_fact_that_fills_it() -> None:
    customer = "- customer: get_customer(user_id = order.user_id) $.name\n"
    clause = "context.result has customer && context.result has order && context.result.order has user_id"
    assert types(f"{ORDER} {customer}", clause)["order"].fields == (Field("user_id", STRING, False),)
    with pytest.raises(ConfigurationError, match=r"order.user_id is a whole number, and the parameter 'user_id' a text"):
        conditions(f"{ORDER} {customer}", f"{clause} && context.result.order.user_id == 5")


@pytest.mark.parametrize(
    ("declared", "clause", "problem"),
    [
        (ORDER, 'context.result.order.a == "x" && context.result.order.a == 5', "line 4: the uses of a fact do not fit"),
        (ORDER, 'context.result.order.a == "x" && context.result.order.a.b == 5', "line 4: the uses of a fact do not fit"),
        (ORDER, "context.result.order.a < context.result.order.b", "line 4: nothing says whether 'order.a' is a whole number"),
        (ORDER, 'context.result.order == "x"', "line 4: the fact 'order' is a whole object"),
        (ORDER, 'context.result.customer == "x"', "line 4: no line of the constitution declares the fact 'customer'"),
        (TYPED_ORDER, 'context.result.order.statos == "x"', "line 4: 'order' has no field 'statos'"),
        (TYPED_ORDER, "context.result.order.status == 5", "line 4: 'order.status' is a whole number here, and a text in"),
        (TYPED_ORDER, 'context.result.order.status.a == "x"', "line 4: 'order.status' is a text in the output schema"),
        (
            f"{TYPED_ORDER}- ids: order $.linez[*].id\n",
            'context.result.ids.contains("x")',
            "the fact 'ids': there is no field 'linez'",
        ),
        (f"{ORDER}- ids: order $.l[*].id\n", 'context.result.ids == "x"', "line 5: the fact 'ids' is a set"),
        (f"{ORDER}- n: count order $.l[*]\n", 'context.result.n == "x"', "line 5: the fact 'n' is a number of values"),
        ("- a: get_customer(user_id = b.id)\n- b: get_customer(user_id = a.id)\n", 'context.result.a.x == "x"', "from itself"),
        ("- a: nothing $.id\n", 'context.result.a == "x"', "the fact 'nothing', which 'a' names"),
        (
            "- a: get_ordr(order_id = arguments.order_id)\n",
            'context.result.a.x == "x"',
            "line 2: the fact 'a': there is no tool 'get_ordr'",
        ),
        ("- a: last nothing $.id\n", 'context.result.a == "x"', "line 2: the fact 'a': there is no tool 'nothing'"),
        (
            "- a: cancel(order_id = arguments.order_id)\n",
            'context.result.a.x == "x"',
            "line 2: the fact 'a': the tool 'cancel' may change",
        ),
        (
            "- a: get_order(id = arguments.order_id)\n",
            'context.result.a.x == "x"',
            "line 2: the fact 'a': .* no parameter 'id'",
        ),
        ("- a: get_order()\n", 'context.result.a.x == "x"', "line 2: the fact 'a': .* needs the parameter 'order_id'"),
        (
            "- a: get_order(order_id = arguments.ordre)\n",
            'context.result.a.x == "x"',
            "line 2: the fact 'a': no tool has an argument 'ordre'",
        ),
        (
            "- a: foreign(order_id = arguments.order_id)\n",
            'context.result.a.x == "x"',
            r"line 2: .*\(trusted results\)",
        ),
        ("- a: last foreign $.id\n", 'context.result.a == "x"', r"line 2: .*\(trusted results\)"),
    ],
)
def test_a_fact_that_does_not_fit_is_an_error_with_its_line(declared: str, clause: str, problem: str) -> None:
    names = sorted({part.split(".")[2].strip(" ") for part in clause.split() if part.startswith("context.result.")})
    asked = "".join(f"context.result has {name} && " for name in names)
    with pytest.raises(ConfigurationError, match=problem):
        conditions(declared, f"{asked}{clause}")


def test_a_fact_is_optional_so_that_an_unguarded_access_does_not_validate() -> None:
    with pytest.raises(
        ConfigurationError, match=r"optional attribute `result\.order` .*: first ask `context\.result has order &&`"
    ):
        conditions(ORDER, 'context.result.order.status == "pending"')


def test_a_tool_without_the_arguments_of_a_fact_does_not_have_it() -> None:
    found = conditions(ORDER, 'context.result has order && context.result.order.status == "x"', "action")
    assert set(found.results.of_tool) == {"get_order", "get_typed", "foreign", "cancel"}
    assert "context.result" not in found.schema
    assert found.actions["rename"].result == CedarType(Kind.RECORD)


def test_a_condition_about_one_tool_gives_the_facts_of_another_one_no_type() -> None:
    tests = {"cancel": 'a == "x"', "get_typed": "a > 5", "foreign": "b < 5"}
    rules = (
        f'forbid (principal, action == Action::"{name}", resource) when {{ {HAS_ORDER} && context.result.order.{test} }};'
        for name, test in tests.items()
    )
    text = f"{ORDER}permit (principal, action, resource);\n" + "\n".join(rules)
    found = compiled(text)
    found.require_valid()
    assert {name: types["order"].fields for name, types in found.results.types.items() if types} == {
        "cancel": (Field("a", STRING),),
        "get_typed": (Field("a", CedarType(Kind.LONG)),),
        "foreign": (Field("b", CedarType(Kind.LONG)),),
    }
    # A read keeps what the conditions about any tool name.
    assert found.results.named == {"order": {"a": {}, "b": {}}}


def test_facts_are_read_after_those_that_they_need() -> None:
    declared = f"- a_method: customer $.methods[0]\n- customer: get_customer(user_id = order.user_id)\n{ORDER}"
    found = conditions(declared, 'context.result has a_method && context.result.a_method == "x"')
    assert [fact.name for fact in found.results.of_tool["cancel"]] == ["order", "customer", "a_method"]


def test_a_bound_parameter_need_not_be_filled() -> None:
    found = conditions("- me: own_profile()\n", "context.result has me && context.result.me.blocked == false")
    assert [fact.name for fact in found.results.of_tool["cancel"]] == ["me"]


def test_without_facts_the_schema_has_no_results() -> None:
    found = compiled(f"{ORDER}permit (principal, action, resource);")
    found.require_valid()
    assert '"result"' not in found.schema


OBJECT: dict[str, Any] = {
    "status": "pending",
    "payments": [{"id": "card_1", "amount": 5}, {"id": "gift_1", "amount": 7.5}],
    "methods": {"a": {"id": "card_1"}, "b": {"id": "gift_1"}},
    "mixed": [{"kind": "card", "limit": 5}, {"kind": "cash"}],
    "incomplete": [{"id": "card_1"}, {}],
    "nulls": [{"id": "card_1"}, {"id": None}],
    "empty": [],
    "no_methods": {},
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("$.status", ["pending"]),
        ("$.payments[0].id", ["card_1"]),
        ("$.payments[-1].id", ["gift_1"]),
        ("$.payments[*].id", ["card_1", "gift_1"]),
        ("$.payments[0:1].id", ["card_1"]),
        ("$.methods.*.id", ["card_1", "gift_1"]),
        ("$.payments[?@.amount > 6].id", ["gift_1"]),
        ("$.payments[?match(@.id, 'card.*')].amount", [5]),
        ("$.mixed[?@.kind == 'card' && @.limit > 3].kind", ["card"]),
        ("$.mixed[?@.limit].kind", ["card"]),
        ("$.mixed[?!@.limit].kind", ["cash"]),
        ("$.nulls[?@.id == null]", [{"id": None}]),
        ("$.empty[*].id", []),
        ("$.no_methods.*.id", []),
        ("$.methods[?@.id == 'gift_1'].id", ["gift_1"]),
    ],
)
def test_a_path_selects_values(path: str, selected: list[Any]) -> None:
    assert Selection(path, "@f").of(OBJECT) == selected


@pytest.mark.parametrize(
    "path",
    [
        "$.missing",
        "$.none",
        "$.status.text",
        "$.status[*]",
        "$.payments.id",
        "$.payments[2].id",
        "$.empty[0]",
        "$.incomplete[*].id",
        "$.nulls[*].id",
        "$.incomplete[?@.id == 'card_1'].id",
        "$.incomplete[?match(@.id, 'c.*')].id",
        "$.mixed[?@.limit > 3].kind",
        "$.mixed[?!(@.limit > 3)].kind",
        "$.payments[?@.amount == '5'].id",
        "$.payments[?@.id > 3].id",
        "$.payments[?count(@.parts[*]) == 0].id",
        "$.payments[?@.parts[*]].id",
        "$.mixed[?length(@.limit) > 0].kind",
        "$.nulls[?@.id != 'card_1']",
        "$.missing[*]",
        "$.no_methods[*].id",
        "$.no_methods[?@.id == 'x'].id",
    ],
)
def test_what_a_path_names_and_a_value_does_not_have_is_never_left_out(path: str) -> None:
    with pytest.raises(UnreadableError):
        Selection(path, "@f").of(OBJECT)


def test_a_clause_that_is_a_fact_alone_makes_it_a_truth_value() -> None:
    text = f"""{ORDER}permit (principal, action, resource);
        forbid (principal, action == Action::"cancel", resource)
        when {{ context.result has order }} when {{ context.result.order.locked }};"""
    found = compiled(text)
    assert found.results.types["cancel"]["order"].field("locked") == Field("locked", CedarType(Kind.BOOL), True)
