"""The texts of a loan desk, from the question to the undo: the sentence of its operator, and the words of code around it."""

from __future__ import annotations

from typing import Any

from graph_agent import FunctionTools, ToolRefusal
from graph_agent.chat.answer import ChatAnswer
from graph_agent.models.card import Card, CardState
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.testing import TestClient, calls, open_installation, says
from tests.chat.test_approvals import request_of, respond

CONSTITUTION = """You lend things.

## Available Tools
- find_loan: Find a loan (reads)
- extend: "Extend {loan_record.item or loan} until {due}[ (was {loan_record.due})]" (requires confirmation) \
(undone by extend(loan = arguments.loan, due = loan_record.due) for 30 minutes)
- charge_fee: "Charge {amount as EUR} for {loan_record.item or loan}" (without confirmation) \
(undone by waive_fee(fee = result.fee) for 30 minutes)
- waive_fee: "Waive fee {fee}" (requires confirmation)
- overdue: "List what is overdue on {day}" (reads) (requires confirmation)

## Facts
- loan_record: find_loan(loan = arguments.loan)
"""
RULES = """
@id("base") permit (principal, action, resource);
@id("only an open loan is extended")
forbid (principal, action == Action::"extend", resource)
unless { context.result has loan_record && context.result.loan_record.status == "open" };
@id("fees over 50 need a yes")
forbid (principal, action == Action::"charge_fee", resource)
when { context.arguments.amount > 50 } unless { context.confirmed };
@id("fees over 100 need a manager")
forbid (principal, action == Action::"charge_fee", resource)
when { context.arguments.amount > 100 } unless { context.approvals.manager >= 1 };
"""


def desk() -> FunctionTools:
    loans = {
        1: {"item": "camera", "due": "2026-12-10", "status": "open"},
        3: {"item": 'laptop 14"', "due": "2026-12-12", "status": "returned"},
    }
    fees: list[int] = []

    def find_loan(loan: int) -> dict[str, Any]:
        """Find a loan. (reads)"""
        if loan not in loans:
            raise ToolRefusal("There is no such loan.")
        return dict(loans[loan])

    def extend(loan: int, due: str) -> dict[str, Any]:
        """Set another due date for a loan."""
        loans[loan]["due"] = due
        return {"loan": loan, "due": due}

    def charge_fee(loan: int, amount: int) -> dict[str, Any]:
        """Charge a fee for a loan."""
        fees.append(loan)
        return {"fee": len(fees), "amount": f"{amount}.00"}

    def waive_fee(fee: int) -> dict[str, Any]:
        """Waive a fee."""
        return {"fee": fee, "status": "waived"}

    def overdue(day: str) -> dict[str, Any]:
        """List what is overdue on a day. (reads)"""
        found = [{"loan": number, **loan} for number, loan in loans.items() if loan["due"] < day]
        return {"day": day, "loans": found, "asked": {"by": "ann", "at": "2026-12-20T09:30:00Z"}}

    return FunctionTools(find_loan, extend, charge_fee, waive_fee, overdue)


async def yes(client: TestClient, asked: ChatAnswer) -> ChatAnswer:
    assert asked.decision.pending_action is not None
    return await client.chat.send("ann", answers=ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=True))


async def last_card(client: TestClient, conversation: str) -> Card:
    page = await client.chat.conversation("ann", conversation)
    return [one.card for one in page.messages if one.card is not None][-1]


EXTENDED = "Extend 'camera' until 15 January 2027 (was 10 December 2026)"


async def test_the_texts_of_a_loan_desk_in_a_session_of_a_dozen_messages() -> None:
    script = [
        calls("extend", loan=1, due="2027-01-15"),
        calls("charge_fee", loan=1, amount=20),
        says("It is charged."),
        calls("charge_fee", loan=1, amount=60),
        calls("charge_fee", loan=1, amount=120),
        calls("extend", loan=3, due="2027-02-02"),
        says("It is back already."),
        calls("charge_fee", loan=1, amount=120),
    ]
    conditions = ConditionsFile(RULES, roles=("manager",))
    async with open_installation(desk(), CONSTITUTION, script, conditions=conditions) as client:
        asked = await client.send("keep the camera longer")
        assert asked.reply == (
            f"{EXTENDED}\n  Loan: 1\n  Loan record status now: 'open'\nShould I go ahead? Please answer yes or no."
        )
        extended = await yes(client, asked)
        assert (extended.reply, extended.decision.effects) == (f"Done: {EXTENDED} (loan 1).", [f"{EXTENDED} (loan 1)"])
        card = await last_card(client, asked.conversation_id)
        assert (card.state, card.heading, card.calls[0].result) == (CardState.DONE, "Done", ())
        low = await client.send("charge 20")
        assert low.decision.effects == ["Charge €20.00 for 'camera' (loan 1)"]
        fee = await client.send("charge 60")
        assert fee.reply == (
            "A rule asks for your yes: fees over 50 need a yes. Charge €60.00 for 'camera'\n  Loan: 1\n"
            "Should I go ahead? Please answer yes or no."
        )
        charged = await yes(client, fee)
        assert charged.reply == "Done: Charge €60.00 for 'camera' (loan 1).\n  Fee: 2"
        high = await client.send("charge 120")
        assert high.reply.startswith(
            "A rule asks for your yes: fees over 50 need a yes. "
            "After your yes it waits for another person with the role manager: "
            "fees over 100 need a manager. Charge €120.00 for 'camera'\n  Loan: 1\n"
        )
        refused = await client.send("keep the laptop longer")
        assert refused.decision.notices == [
            "Not done: charge €120.00 for 'camera' (loan 1).",
            "Not done: extend loan 3 until 2 February 2027. "
            "Only an open loan is extended (loan record 3: status = 'returned').",
        ]
        aside = await last_card(client, asked.conversation_id)
        assert (aside.heading, aside.note) == ("Set aside by your next message", "Nothing was changed.")
        undo = await client.chat.undo("ann", extended.decision_id)
        assert undo.reply == (
            f"Undo: {EXTENDED}\n  Due: 15 January 2027 → 10 December 2026\n  Loan: 1\n  Loan record status now: 'open'\n"
            "Should I go ahead? Please answer yes or no."
        )
        card = await last_card(client, asked.conversation_id)
        assert (card.heading, card.calls[0].said.undoes) == ("Undo: waits for your yes", EXTENDED)
        undone = await yes(client, undo)
        assert undone.reply == f"Done: Undo: {EXTENDED} (due 15 January 2027 → 10 December 2026, loan 1)."
        waive = await client.chat.undo("ann", charged.decision_id)
        assert waive.reply == (
            "It is not known whether others have changed this since, which the undo takes away too: "
            "charge €60.00 for 'camera' (loan 1). Undo: Charge €60.00 for 'camera'\n  Fee: 2\n  Loan: 1\n"
            "Should I go ahead? Please answer yes or no."
        )
        waived = await yes(client, waive)
        assert waived.reply == "Done: Undo: Charge €60.00 for 'camera' (fee 2).\n  Status: 'waived'"
        again = await client.send("charge 120 after all")
        waits = await yes(client, again)
        request = request_of(waits)
        await respond(client.chat, request)
        shown = await client.chat.conversation("ann", asked.conversation_id)
        cards = [one.card for one in shown.messages if one.card is not None]
        assert [(one.heading, one.people) for one in cards] == [
            ("Done, and undone later", ()),
            ("Done, and undone later", ()),
            ("Set aside by your next message", ()),
            ("Undo: done", ()),
            ("Undo: done", ()),
            ("Done", ("Approved by 'bob' as manager.",)),
        ]
        assert [row.text for row in cards[-1].calls[0].result] == ["3"]
        # What was asked for by a button, and its answers, are on the cards alone, and so is what was set aside.
        by_button = (extended, charged, undo, undone, waive, waived, waits)
        assert {one.decision_id for one in shown.messages if one.in_card and one.role == "user"} >= {
            one.decision_id for one in by_button
        }
        assert [one.content for one in shown.messages if one.role == "user" and not one.in_card] == [
            "keep the camera longer",
            "charge 20",
            "charge 60",
            "charge 120",
            "keep the laptop longer",
            "charge 120 after all",
        ]
        assert [line for one in shown.messages for line in one.notices] == [refused.decision.notices[1]]


async def test_a_list_in_a_result_is_a_table_with_a_line_for_each_object() -> None:
    async with open_installation(desk(), CONSTITUTION, [calls("overdue", day="2026-12-20")]) as client:
        listed = await yes(client, await client.send("what is overdue?"))
        assert listed.reply == (
            "Done: List what is overdue on 20 December 2026.\n"
            "  Asked: at 20 December 2026, 09:30 UTC, by 'ann'\n"
            "  Loans:\n"
            "    - loan 1, due 10 December 2026, item 'camera', status 'open'\n"
            "    - loan 3, due 12 December 2026, item 'laptop 14\"', status 'returned'"
        )
        assert listed.decision.authors is not None
        (table,) = (part.table for part in listed.decision.authors.reply if part.table is not None)
        assert table.columns == ("Loan", "Due", "Item", "Status")
        assert [cell.shown for cell in table.rows[1]] == ["", "", 'laptop 14"', "returned"]
        card = await last_card(client, listed.conversation_id)
        assert (card.state, [row.label for row in card.calls[0].result]) == (CardState.DONE, ["Asked", "Loans"])
        assert card.calls[0].result[1].table == table
        assert card.says == (listed.decision_id,)
