"""Times in the user's time zone: the words of a call change by it, and no value."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent import FunctionTools
from graph_agent.chat.answer import ChatAnswer
from graph_agent.models.card import CardState
from graph_agent.models.decision import ConfirmationAnswer, DecisionContext
from graph_agent.models.time_zone import time_zone
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import TestClient, calls, open_installation
from graph_agent.words.values import spoken, time_in_words
from tests.chat.test_approvals import request_of

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("value", "zone", "words"),
    [
        ("2027-03-05T16:20:00Z", BERLIN, "5 March 2027, 17:20 CET"),
        ("2027-03-05T16:20:05.250Z", BERLIN, "5 March 2027, 17:20:05.25 CET"),
        ("2027-03-05T23:20:00-05:00", BERLIN, "6 March 2027, 05:20 CET"),
        # The hour that a clock shows twice.
        ("2026-10-25T00:30:00Z", BERLIN, "25 October 2026, 02:30 CEST"),
        ("2026-10-25T01:30:00Z", BERLIN, "25 October 2026, 02:30 CET"),
        ("2027-03-28T01:00:00Z", BERLIN, "28 March 2027, 03:00 CEST"),
        ("2027-03-05T16:20:00Z", "America/Argentina/Buenos_Aires", "5 March 2027, 13:20 UTC-0300"),
        # CST and IST name several zones.
        ("2027-03-05T16:20:00Z", "America/Chicago", "5 March 2027, 10:20 UTC-0600"),
        ("2027-03-05T16:20:00Z", "Asia/Calcutta", "5 March 2027, 21:50 UTC+0530"),
        ("2027-03-05T16:20:00Z", "Europe/London", "5 March 2027, 16:20 UTC"),
        ("2027-07-05T16:20:00Z", "Europe/London", "5 July 2027, 17:20 UTC+0100"),
        # Without an offset a time is in no zone that is known.
        ("2027-03-05T16:20:00", BERLIN, "5 March 2027, 16:20"),
        ("2027-03-05", BERLIN, "5 March 2027"),
        ("2027-03-05T16:20:00+01:00", "", "5 March 2027, 16:20 UTC+0100"),
        ("2027-03-05T16:20:00Z", "Nowhere/At_all", "5 March 2027, 16:20 UTC"),
        ("9999-12-31T23:30:00Z", BERLIN, "31 December 9999, 23:30 UTC"),
        ("0001-01-01T00:00:00Z", "America/New_York", "1 January 1, 00:00 UTC"),
        # Before zones were agreed, offsets had seconds.
        ("1890-01-01T00:00:00Z", BERLIN, "1 January 1890, 00:53:28 UTC+005328"),
        # What is no time of the calendar stays as it was written.
        ("2016-12-31T23:59:60Z", BERLIN, "'2016-12-31T23:59:60Z'"),
        ("2027-03-05T16:20:00+24:00", BERLIN, "'2027-03-05T16:20:00+24:00'"),
        ({"at": "2027-03-05T16:20:00Z"}, BERLIN, "at 5 March 2027, 17:20 CET"),
        (["2027-03-05T16:20:00Z"], BERLIN, "5 March 2027, 17:20 CET"),
    ],
)
def test_a_time_with_an_offset_is_said_in_the_zone(value: Any, zone: str, words: str) -> None:
    assert spoken(value, zone=zone).text == words


NO_ZONES = ["../etc/passwd", "/etc/localtime", "Europe", "localtime", "tzdata.zi", "Europe/Berlin/", "europe/berlin", "a\x00b"]
OF_MACHINES = ["right/Europe/Berlin", "posix/UTC", "Factory", "leapseconds", "+VERSION"]


@pytest.mark.parametrize("name", [*NO_ZONES, *OF_MACHINES, "", "x" * 70_000, "\u202eEurope/Berlin", "Europe/Berlin\n✓ Done"])
def test_what_names_no_zone_is_none(name: str) -> None:
    assert time_zone(name) is None


@pytest.mark.parametrize("name", ["../etc/passwd", "x" * 65, "Europe/Berlin\n", "\u202eEurope/Berlin", "a\x00b", " "])
def test_no_record_has_a_name_that_could_mislead_its_reader(name: str) -> None:
    with pytest.raises(ValueError, match="time_zone"):
        DecisionContext(user_id="ann", message="hi", conversation_id="c", time_zone=name)


CONSTITUTION = """You lend things.

## Available Tools
- find_loan: Find a loan (reads)
- extend: "Extend loan {loan} until {due}[ (was {loan_record.due})]" (requires confirmation) \
(undone by extend(loan = arguments.loan, due = loan_record.due) for 30 minutes)

## Facts
- loan_record: find_loan(loan = arguments.loan)
"""
APPROVED = """
@id("base") permit (principal, action, resource);
@id("a manager agrees")
forbid (principal, action == Action::"extend", resource) unless { context.approvals.manager >= 1 };
"""
CALL = calls("extend", loan=1, due="2027-03-05T16:20:00Z")
SENTENCE = "Extend loan 1 until {} (was 10 December 2026, {})"
IN_BERLIN = SENTENCE.format("5 March 2027, 17:20 CET", "10:00 CET")
IN_TOKYO = SENTENCE.format("6 March 2027, 01:20 JST", "18:00 JST")
IN_UTC = SENTENCE.format("5 March 2027, 16:20 UTC", "09:00 UTC")


class Desk:
    def __init__(self) -> None:
        self.loans = {1: "2026-12-10T09:00:00Z"}

    def tools(self) -> FunctionTools:
        def find_loan(loan: int) -> dict[str, Any]:
            """Find a loan. (reads)"""
            return {"due": self.loans[loan]}

        def extend(loan: int, due: str) -> dict[str, Any]:
            """Set another due date for a loan."""
            self.loans[loan] = due
            return {"steps": [{"done_by": "clerk", "ended": "2026-12-01T08:00:00Z"}], "ends": "2027-03-06T16:20:00Z"}

        return FunctionTools(find_loan, extend)


async def yes(client: TestClient, asked: ChatAnswer, zone: str = "") -> ChatAnswer:
    assert asked.decision.pending_action is not None
    answers = ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=True)
    return await client.chat.send("ann", answers=answers, time_zone=zone)


@pytest.mark.parametrize(
    ("zone", "said", "ends", "ended"),
    [
        # An answer that names no zone is read by the one who was asked in one.
        ("", IN_BERLIN, "6 March 2027, 17:20 CET", "1 December 2026, 09:00 CET"),
        ("Asia/Tokyo", IN_TOKYO, "7 March 2027, 01:20 JST", "1 December 2026, 17:00 JST"),
    ],
)
async def test_a_yes_from_another_zone_is_for_the_same_values(zone: str, said: str, ends: str, ended: str) -> None:
    desk = Desk()
    async with open_installation(desk.tools(), CONSTITUTION, [CALL]) as client:
        asked = await client.chat.send("ann", "keep it longer", time_zone=BERLIN)
        assert asked.reply.startswith(IN_BERLIN)
        done = await yes(client, asked, zone)
        assert done.reply == (f"Done: {said}.\n  Ends: {ends}\n  Steps:\n    - done by 'clerk', ended {ended}")
        # The server has the value that the model gave.
        assert desk.loans[1] == "2027-03-05T16:20:00Z"
        page = await client.chat.conversation("ann", asked.conversation_id)
        (card,) = (one.card for one in page.messages if one.card is not None)
        assert (card.state, card.calls[0].said.sentence) == (CardState.DONE, IN_BERLIN)
        assert card.calls[0].arguments["due"] == "2027-03-05T16:20:00Z"
        undo = await client.chat.undo("ann", done.decision_id)
        assert undo.reply.startswith(f"Undo: {said}")
        for one in (asked, done, undo):
            audit = client.engine.audit
            assert isinstance(audit, DatabaseAuditWriter)
            loaded = await load_from_log(audit.database, one.decision_id)
            assert (await loaded.replay(Replayer())).identical


async def test_without_a_zone_the_record_and_the_words_are_as_before() -> None:
    async with open_installation(Desk().tools(), CONSTITUTION, [CALL]) as client:
        asked = await client.chat.send("ann", "keep it longer")
        assert asked.reply.startswith(IN_UTC)
        assert "time_zone" not in str(asked.decision.to_json())
        assert "time_zone" not in DecisionContext(user_id="ann", message="hi", conversation_id="c").to_json()


async def test_an_approver_reads_the_text_of_the_requester_with_its_zone() -> None:
    conditions = ConditionsFile(APPROVED, roles=("manager",))
    async with open_installation(Desk().tools(), CONSTITUTION, [CALL], conditions=conditions) as client:
        asked = await client.chat.send("ann", "keep it longer", time_zone=BERLIN)
        waits = await yes(client, asked)
        request = request_of(waits)
        assert request.action.description.startswith(IN_BERLIN)
        assert waits.reply.endswith(f" is open until {time_in_words(request.action.expires_at, BERLIN)}.")
