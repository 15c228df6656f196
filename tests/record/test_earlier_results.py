"""The results of earlier turns: those of the newest ones, up to a size, without those of other conversations and users."""

from __future__ import annotations

from typing import Any

from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.models.record import EntryKind, RecordEntry
from graph_agent.record.earlier_results import MAX_CHARACTERS, MAX_TURNS, find_results
from tests.audit.builders import NOON, make_record, store_records


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"tool_name": "read", "parameters": {"n": text}, "result": {"text": text}, **more}


def found(log: Database, without: str = "", **more: Any) -> list[Any]:
    def read(connection: Any) -> list[Any]:
        return [one.arguments["n"] for one in find_results(connection, "ann", "c1", without, **more)[0] if one.arguments]

    return log.write_now(read)


def test_the_calls_of_a_conversation_are_found_oldest_first(log: Database) -> None:
    store_records(
        log,
        make_record(1, calls=(call("first"), call("refused", disposition="refused", success=False))),
        make_record(2, calls=(call("failed", success=False, error_code=ToolErrorCode.NOT_FOUND, error_message="none"),)),
        make_record(3, user="bob", calls=(call("of bob"),)),
        make_record(4, conversation="c2", calls=(call("elsewhere"),)),
        make_record(5, calls=(call("last"),)),
    )
    assert found(log) == ["first", "failed", "last"]
    assert found(log, without=make_record(5).header.decision_id) == ["first", "failed"]
    assert found(log, before=NOON.replace(minute=2)) == ["first"]


def test_only_the_newest_turns_are_searched_and_one_in_any_case(log: Database) -> None:
    store_records(log, *(make_record(number, calls=(call(str(number)),)) for number in range(1, MAX_TURNS + 3)))
    assert found(log) == [str(number) for number in range(3, MAX_TURNS + 3)]


def test_a_conversation_with_long_results_is_searched_up_to_a_size(log: Database) -> None:
    long = "x" * (MAX_CHARACTERS // 2)
    store_records(log, *(make_record(number, calls=({**call(str(number)), "result": {"text": long}},)) for number in (1, 2)))
    assert found(log) == ["2"]
    store_records(log, make_record(3, calls=({**call("3"), "result": {"text": long * 3}},)))
    assert found(log) == ["3"]


def test_what_a_question_has_shown_is_known_beyond_the_size(log: Database) -> None:
    asked = make_record(1, calls=(call("1", disposition="awaiting", success=False),))
    shown = {"tool": "get_order", "arguments": {}, "values": {"status": "x"}}
    asked = asked.replace(entries=[*asked.entries, RecordEntry(n=len(asked.entries), kind=EntryKind.READ, result=shown)])
    store_records(log, asked, make_record(2, calls=({**call("2"), "result": {"text": "x" * MAX_CHARACTERS}},)))
    read = log.write_now(lambda connection: find_results(connection, "ann", "c1", "")[0])
    assert [(one.tool_name, bool(one.result.data)) for one in read] == [("get_order", False), ("read", True)]
