"""The tools of the example `returns_desk`, its conditions, and the embedded model that answers its requests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks import desk as benchmark
from graph_agent.llm.embedded.fixed_requests import FixedRequestsAdapter
from graph_agent.testing import TestClient, calls, open_installation, says
from tests.returns_desk import CONDITIONS, CONSTITUTION, FOLDER, data_of, open_desk, reason_of, result_of
from tests.serving import address_of, free_ports, launch_header


async def test_a_customer_is_found_by_mail_address_and_postal_code_together() -> None:
    async with open_desk() as desk:
        found = await data_of(desk, "find_customer", email="Ines.Karlsen@example.com", postcode="24103")
        assert (found["customer_id"], found["orders"]) == ("C-104", ["FH-2031", "FH-2079", "FH-2087"])
        assert [method["kind"] for method in found["payment_methods"]] == ["card", "store_credit"]
        reason = await reason_of(desk, "find_customer", email="ines.karlsen@example.com", postcode="80331")
        assert reason == "There is no customer with this e-mail address and postal code."


async def test_an_order_has_what_the_policy_speaks_of() -> None:
    async with open_desk() as desk:
        assert await data_of(desk, "get_order", order_id="FH-2031") == {
            "order_id": "FH-2031",
            "customer_id": "C-104",
            "status": "delivered",
            "placed_on": "2026-11-04",
            "shipped_on": "2026-11-06",
            "delivered_on": "2026-11-08",
            "return_until": "2026-12-08",
            "items_changed": False,
            "address": {"street": "Kaistr. 12", "postcode": "24103", "city": "Kiel"},
            "payment_method_id": "card-104",
            "items": [
                {
                    "item_id": "2031-1",
                    "product": "Camp kettle",
                    "option": "1 liter",
                    "sku": "KET-1L",
                    "price": 34.8,
                    "state": "bought",
                },
                {
                    "item_id": "2031-2",
                    "product": "Harbour lantern",
                    "option": "zinc",
                    "sku": "LAN-ZIN",
                    "price": 59.9,
                    "state": "bought",
                },
            ],
            "total": 94.7,
        }
        assert await reason_of(desk, "get_order", order_id="FH-0001") == "There is no order FH-0001."


async def test_products_have_variants_with_price_and_availability() -> None:
    async with open_desk() as desk:
        [lantern] = (await data_of(desk, "list_products", words="LANTERN"))["products"]
        assert {one["sku"]: (one["price"], one["available"]) for one in lantern["variants"]} == {
            "LAN-BLK": (59.9, False),
            "LAN-BRA": (64.5, True),
            "LAN-ZIN": (59.9, True),
        }
        assert len((await data_of(desk, "list_products"))["products"]) == 4


async def test_only_a_pending_order_is_cancelled_and_once() -> None:
    async with open_desk() as desk:
        done = await data_of(desk, "cancel_order", order_id="FH-2087")
        assert done["refund"] == 83.4
        again = await reason_of(desk, "cancel_order", order_id="FH-2087")
        assert again == "Order FH-2087 is cancelled; only a pending order can be changed or cancelled."
        shipped = await reason_of(desk, "cancel_order", order_id="FH-2079")
        assert shipped.startswith("Order FH-2079 is shipped and left the shop on 2026-11-18; only a pending order")


async def test_the_address_of_a_pending_order_is_changed() -> None:
    address = {"street": "Holm 1", "postcode": "24937", "city": "Flensburg"}
    async with open_desk() as desk:
        await data_of(desk, "change_address", order_id="FH-2087", **address)
        assert (await data_of(desk, "get_order", order_id="FH-2087"))["address"] == address
        assert "is delivered" in await reason_of(desk, "change_address", order_id="FH-2031", **address)


async def test_items_are_changed_once_to_variants_of_the_same_product_that_are_in_stock() -> None:
    async def refused(new_sku: str) -> str:
        return await reason_of(desk, "change_items", order_id="FH-2087", item_ids=["2087-1"], new_skus=[new_sku])

    async with open_desk() as desk:
        assert await refused("LAN-BLK") == "Harbour lantern black is sold out."
        assert await refused("ROP-25") == "ROP-25 is not another variant of Harbour lantern."
        assert await refused("LAN-BRA") == "LAN-BRA is not another variant of Harbour lantern."
        both: dict[str, Any] = {"item_ids": ["2087-1", "2087-2"], "new_skus": ["LAN-ZIN", "ROP-25"]}
        assert (await data_of(desk, "change_items", order_id="FH-2087", **both))["refund"] == -16.4
        changed = await data_of(desk, "get_order", order_id="FH-2087")
        assert [one["sku"] for one in changed["items"]] == ["LAN-ZIN", "ROP-25"]
        assert await refused("LAN-BRA") == "The items of order FH-2087 were changed before, and that is possible once."


async def test_a_refused_item_takes_no_other_from_the_stock() -> None:
    async with open_desk() as desk:
        both: dict[str, Any] = {"item_ids": ["2031-1", "2031-2"], "new_skus": ["KET-2L", "LAN-BLK"]}
        assert "sold out" in await reason_of(desk, "exchange_items", order_id="FH-2031", **both)
        [kettle] = (await data_of(desk, "list_products", words="kettle"))["products"]
        assert [one["available"] for one in kettle["variants"]] == [True, True]


async def test_money_for_a_return_goes_to_the_payment_method_of_the_order_or_to_store_credit() -> None:
    async def give_back(item_id: str, refund_to: str) -> dict[str, Any]:
        return await data_of(desk, "return_items", order_id="FH-2031", item_ids=[item_id], refund_to=refund_to)

    async with open_desk() as desk:
        elsewhere = {"order_id": "FH-2031", "item_ids": ["2031-1"], "refund_to": "card-131"}
        assert (await reason_of(desk, "return_items", **elsewhere)).startswith("The money goes back to the payment method")
        assert (await give_back("2031-1", "credit-104"))["refund"] == 34.8
        assert (await give_back("2031-2", "card-104"))["refund"] == 59.9
        found = await data_of(desk, "find_customer", email="ines.karlsen@example.com", postcode="24103")
        assert found["payment_methods"][1]["balance"] == 49.8
        again = {"order_id": "FH-2031", "item_ids": ["2031-1"], "refund_to": "card-104"}
        assert await reason_of(desk, "return_items", **again) == "Item 2031-1 is on its way back already."


async def test_items_are_returned_and_exchanged_within_thirty_days_of_the_delivery() -> None:
    async with open_desk() as desk:
        late = {"order_id": "FH-1954", "item_ids": ["1954-1"]}
        reason = "Order FH-1954 could be returned or exchanged until 2026-10-26."
        assert await reason_of(desk, "return_items", refund_to="card-131", **late) == reason
        assert await reason_of(desk, "exchange_items", new_skus=["ROP-10"], **late) == reason
        swap = {"order_id": "FH-2031", "item_ids": ["2031-2"], "new_skus": ["LAN-BRA"]}
        done = await data_of(desk, "exchange_items", **swap)
        assert done["receipt"] == "Harbour lantern zinc: 4.60 EUR to pay"


async def test_store_credit_has_at_most_two_decimals_and_needs_an_account() -> None:
    async with open_desk() as desk:
        given = {"order_id": "FH-2079", "reason": "late", "idempotency_key": "one"}
        assert (await data_of(desk, "give_store_credit", amount=12.5, **given))["amount"] == 12.5
        assert "two decimals" in await reason_of(desk, "give_store_credit", amount=0.001, **given)
        no_account = {"order_id": "FH-1954", "amount": 5.0, "reason": "damaged", "idempotency_key": "two"}
        assert "no store credit account" in await reason_of(desk, "give_store_credit", **no_account)


async def test_a_repeated_operation_key_changes_nothing() -> None:
    address = {"street": "Holm 1", "postcode": "24937", "city": "Flensburg"}
    async with open_desk() as desk:
        first = await result_of(desk, "change_address", "one key", order_id="FH-2087", **address)
        await data_of(desk, "change_address", order_id="FH-2087", **{**address, "street": "Holm 2"})
        again = await result_of(desk, "change_address", "one key", order_id="FH-2087", **address)
        assert first.success
        assert again.data == first.data
        assert (await data_of(desk, "get_order", order_id="FH-2087"))["address"]["street"] == "Holm 2"


async def test_one_pending_order_is_cancelled_once_by_many_calls_at_once(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'shop.db'}") as desk:
        made = [result_of(desk, "cancel_order", order_id="FH-2088") for _ in range(8)]
        assert [result.success for result in await asyncio.gather(*made)].count(True) == 1
        [blanket] = (await data_of(desk, "list_products", words="blanket"))["products"]
        assert all(one["available"] for one in blanket["variants"])


async def test_nothing_is_done_for_a_customer_who_was_not_found() -> None:
    model = [calls("get_order", order_id="FH-2087"), says("I need your mail address first.")]
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        decision = (await client.send("where is FH-2087?")).decision
        assert decision.outcome_category == "REFUSAL:MISSING_PERMISSION"


async def test_the_desk_gives_at_most_25_euros_of_store_credit_a_day() -> None:
    def credit(amount: float) -> Any:
        return calls("give_store_credit", order_id="FH-2079", amount=amount, reason="late")

    model = [
        calls("find_customer", email="ines.karlsen@example.com", postcode="24103"),
        calls("get_order", order_id="FH-2079"),
        says("It is late indeed."),
        credit(15.0),
        credit(10.01),
        credit(10.0),
        says("25 euros are all that I can give."),
    ]
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        await client.send("FH-2079 is late")
        decision = (await client.send("so what do I get?")).decision
        assert decision.effects == [
            "Give €15.00 of store credit for order FH-2079: late",
            "Give €10.00 of store credit for order FH-2079: late",
        ]


async def say(client: TestClient, message: str) -> str:
    return (await client.send(message)).decision.reply


async def test_a_customer_without_a_key_is_served_by_the_embedded_model() -> None:
    model = FixedRequestsAdapter.from_file(FOLDER / "requests.yaml")
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        help_text = await say(client, "what can you do?")
        assert "- cancel orders FH-2087 and FH-2079" in help_text.split("\n")
        assert (
            await say(client, "cancel order FH-2087")
            == "That did not work: not permitted: find the customer first; look at the order first"
        )
        assert (await say(client, "I am ines.karlsen@example.com, 24103")).startswith(
            "Good day, Ines Karlsen. These are your orders:"
        )
        await say(client, "Show orders FH-2087 and FH-2079.")
        asked = (await client.send("cancel orders FH-2087 and FH-2079")).decision
        assert asked.reply.startswith("Cancel order FH-2087: €83.40 goes back to 'card-104'. Should")
        refused = "Only a pending order can be cancelled (order 'FH-2079': status = 'shipped')."
        assert asked.notices == [f"Not done: cancel order FH-2079. {refused}"]
        answer = (await client.send("yes")).decision
        assert answer.effects == ["Cancel order FH-2087: €83.40 goes back to 'card-104'"]
        assert "LAN-BLK" in await say(client, "do you have a lantern?")


async def test_two_pending_orders_are_one_question() -> None:
    model = FixedRequestsAdapter.from_file(FOLDER / "requests.yaml")
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        await say(client, "I am tomas.brandl@example.org, 80331")
        await say(client, "show orders FH-2088 and FH-2090")
        question = await say(client, "cancel orders FH-2088 and FH-2090")
        first = "Cancel order FH-2088: €89.00 goes back to 'transfer-117'"
        assert question.startswith(f"2 actions, in this order:\n1. {first}\n2. ")
        assert len((await client.send("yes")).decision.effects) == 2


async def test_each_sentence_of_the_help_is_understood() -> None:
    model = FixedRequestsAdapter.from_file(FOLDER / "requests.yaml")
    async with open_desk() as desk, open_installation(desk, CONSTITUTION, model, conditions=CONDITIONS) as client:
        for sentence in [line[2:] for line in (await say(client, "help")).split("\n") if line.startswith("- ")]:
            decision = (await client.send(sentence)).decision
            assert str(decision.outcome_category).startswith("SUCCESS"), (sentence, decision.reply)
            if decision.pending_action is not None:
                await client.send("yes")


async def test_a_turn_that_goes_on_saves_the_messages_that_one_that_ends_costs(tmp_path: Path) -> None:
    cancelled, refused = ["cancel_order", {"order_id": "FH-2088"}], ["cancel_order", {"order_id": "FH-2079"}]
    lines = [
        {"rounds": [[cancelled, refused]]},  # one card, whose second call fails
        {"rounds": [[cancelled], [refused]]},  # two cards
        {"rounds": [[cancelled]], "shipped": ["FH-2088"]},  # asked anew, and then refused
    ]
    file = tmp_path / "conversations.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = await benchmark.measure(list(benchmark.recorded(file)))
    figures = {after_yes: (one.extra_messages, one.questions, one.model_calls) for after_yes, one in found.items()}
    assert figures == {"end": (4, 5, 10), "explain": (1, 5, 7), "go_on": (0, 5, 7)}
    assert {(one.done, one.failed) for one in found.values()} == {(2, 3)}


def test_make_run_reads_the_settings_of_an_example_that_is_named() -> None:
    root = FOLDER.parents[1]
    shown = subprocess.run(["make", "-n", "run", "EXAMPLE=returns_desk"], cwd=root, text=True, capture_output=True, check=True)
    assert ". ./examples/returns_desk/settings.sh && .venv/bin/graph-agent serve" in shown.stdout


@pytest.mark.slow
def test_with_these_settings_the_page_speaks_of_no_tasks(tmp_path: Path) -> None:
    [port] = free_ports(1)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("GRAPH_AGENT_", "GEMINI", "OPENAI"))
    }
    environment |= {"GRAPH_AGENT_HOME": str(tmp_path)}
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        command = f". ./examples/returns_desk/settings.sh && exec .venv/bin/graph-agent serve --port {port}"
        server = subprocess.Popen(["sh", "-c", command], cwd=FOLDER.parents[1], env=environment, stderr=stderr)
    try:
        url = f"{address_of(server, log)}/api/about"
        request = urllib.request.Request(url, headers=launch_header(tmp_path))
        with urllib.request.urlopen(request) as answer:
            about = json.load(answer)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    assert about["title"] == "Desk of Fernhollow Goods"
    assert "tasks" not in about["views"]
    assert not [example for example in about["examples"] if "task" in example]
