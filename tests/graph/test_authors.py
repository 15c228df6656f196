"""Who wrote each text of a decision, as its record names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from graph_agent.errors import REFUSAL_CODES, ToolErrorCode
from graph_agent.graph.added import AddedRuntime
from graph_agent.graph.build import build_graph
from graph_agent.graph.state import Ending, EndingKind, Turn
from graph_agent.graph.topology import TOPOLOGY
from graph_agent.models.authors import TextAuthor, TextAuthors, TextPart
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.replays.replayer import replay
from graph_agent.reply.fixed import CAP_REPLY, DECLINED_REPLY, FAILURE_REPLY, RATE_LIMIT_REPLY
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import TableServer, asks, calls, done, ends, engine_of, failed

ADD = ("add_task", {"description": "call mom"})
DELETE = ("delete_task", {"task_id": "t1"})
PREVIEW = {"delete_task": done({"description": "call mom"})}
Written = list[tuple[str, str]]


def written(parts: Sequence[TextPart]) -> Written:
    return [(part.author.value, part.text) for part in parts]


async def authors(engine: LLMAgentEngine, finished: FinishedTurn) -> tuple[Written, list[Written], list[Written]]:
    """Return the parts of reply, receipts and notices. A replay, and one under the same policy, must name the same authors."""
    texts = await engine.audit.texts(list(finished.record.header.digests.values()))
    found = finished.decision.authors
    assert found is not None
    unchanged = await replay(finished.record, texts)
    assert unchanged.identical
    for report in (unchanged, await replay(finished.record, texts, constitution=engine.constitution.text)):
        assert report.replayed is not None
        assert report.replayed.decision.authors == found
    return written(found.reply), list(map(written, found.effects)), list(map(written, found.notices))


async def authors_of(*script: Any, server: TableServer | None = None, **context: Any) -> Any:
    engine = engine_of(*script, server=server)
    return await authors(engine, await engine.run(asks(**context)))


async def test_the_words_of_the_model_and_a_receipt_differ() -> None:
    server = TableServer({"add_task": done({"preview": "call mom"})})
    found = await authors_of(calls(ADD), says("I have added it."), server=server)
    assert found == ([("model", "I have added it.")], [[("code", "Add task 'call mom'")]], [])


async def test_what_code_adds_to_the_words_of_the_model_is_codes() -> None:
    claims = calls(("answer", {"text": "I have added it.", "reports_change": True}))
    assert await authors_of(claims) == ([("model", "I have added it."), ("code", "\n\nNothing was changed.")], [], [])
    cut = await authors_of(ends("max_tokens", "Your tasks are"))
    assert cut == ([("model", "Your tasks are"), ("code", " […] (this answer was cut short)")], [], [])


@pytest.mark.parametrize(("name", "parameter"), [("ask_user", "question"), ("decline", "text")])
async def test_a_question_and_a_refusal_of_the_model_are_the_models(name: str, parameter: str) -> None:
    reply, *_ = await authors_of(calls((name, {parameter: "Which one?", "reason": "multiple_matches"})))
    assert reply == [("model", "Which one?")]


async def test_a_fixed_reply_and_the_receipts_in_it_are_codes() -> None:
    assert await authors_of(ends()) == ([("code", FAILURE_REPLY)], [], [])
    rounds = [calls(("add_task", {"description": f"call {name}"})) for name in ("ann", "bob", "eve", "kim", "joe")]
    server = TableServer({"add_task": lambda arguments: done({"preview": arguments["description"]})})
    reply, *_ = await authors_of(*rounds, server=server)
    assert [author for author, _ in reply] == ["code"]
    assert reply[0][1].startswith(f"{CAP_REPLY} Already done: Add task 'call ann'; Add task 'call bob'; ")


async def test_a_notice_is_codes() -> None:
    unknown = TableServer({"add_task": failed(ToolErrorCode.TIMEOUT_ERROR)}, ledger=False)
    _, effects, notices = await authors_of(calls(("drop_database", {}), ADD), says("Done?"), server=unknown)
    assert effects == []
    assert [[author for author, _ in notice] for notice in notices] == [["code"], ["code"]]
    assert notices[0] == [("code", "Not known whether this was done: Add task 'call mom'.")]


async def confirmed(answer: str, server: TableServer) -> Any:
    engine = engine_of(server=server)
    asked = await engine.call("ann", [FunctionCall(*DELETE)])
    question = await authors(engine, asked)
    assert question == ([("code", asked.decision.reply)], [], [])
    return await authors(engine, await engine.answer(asked, yes=answer == "yes"))


async def test_a_question_and_a_refused_confirmation_are_codes() -> None:
    assert await confirmed("no", TableServer(previews=PREVIEW)) == ([("code", DECLINED_REPLY)], [], [])


async def test_a_confirmed_call_is_reported_by_code_and_its_receipt_is_the_servers() -> None:
    server = TableServer({"delete_task": done({"receipt": "it was the last one"})}, PREVIEW)
    line, row = "Delete task 'call mom'", ("server", "'it was the last one'")
    reply = [("code", f"Done: {line}.\n  Receipt: "), row]
    assert await confirmed("yes", server) == (reply, [[("code", f"{line}; added: receipt "), row]], [])


async def test_why_a_confirmed_call_failed_is_the_servers() -> None:
    refused = ToolResult(success=False, error_code=ToolErrorCode.DATABASE_ERROR, data={"text": "disk full\nsorry"})
    reply, *_ = await confirmed("yes", TableServer({"delete_task": refused}, PREVIEW))
    failure = "That didn't work, so nothing was changed. Please try again.\n  Answer:\n"
    assert reply == [("code", failure), ("server", "> disk full\n> sorry")]


@pytest.mark.parametrize("code", [*sorted(REFUSAL_CODES), None])
async def test_why_a_tool_refused_a_confirmed_call_is_said_in_its_own_words(code: ToolErrorCode | None) -> None:
    refused = ToolResult(success=False, error="Only 10 of\nbolt are in stock.", error_code=code)
    reply, *_ = await confirmed("yes", TableServer({"delete_task": refused}, PREVIEW))
    said = "That was refused, so nothing was changed.\n\nThe tool says:\n"
    assert reply == [("code", said), ("server", "> Only 10 of bolt are in stock.")]


async def test_the_line_that_says_that_more_was_returned_is_codes() -> None:
    refused = ToolResult(success=False, error_code=ToolErrorCode.DATABASE_ERROR, data={"text": "x\n" * 60})
    (_, (server, lines), more), *_ = await confirmed("yes", TableServer({"delete_task": refused}, PREVIEW))
    assert (server, lines.count("> x")) == ("server", 50)
    assert more == ("code", "\n> […] (the rest is not shown)")


async def test_the_message_is_the_users_and_without_a_model_codes() -> None:
    engine = engine_of(says("Hello."))
    asked, called = await engine.run(asks("hi")), await engine.call("ann", [FunctionCall(*ADD)])
    assert [found.decision.authors.message for found in (asked, called) if found.decision.authors] == ["user", "code"]


async def test_the_reply_to_a_message_that_is_no_turn_is_codes() -> None:
    engine = engine_of()
    record = await engine.refuse("ann", "c1", "hi", OutcomeCategory.RATE_LIMITED, RATE_LIMIT_REPLY)
    assert record.decision.authors == TextAuthors(
        message=TextAuthor.USER, reply=[TextPart(author=TextAuthor.CODE, text=RATE_LIMIT_REPLY)]
    )
    texts = await engine.audit.texts(list(record.header.digests.values()))
    assert (await replay(record, texts)).identical
    by_model = TextAuthors(message=TextAuthor.USER, reply=[TextPart(author=TextAuthor.MODEL, text=RATE_LIMIT_REPLY)])
    forged = record.replace(decision=record.decision.replace(authors=by_model))
    assert [one.what for one in (await replay(forged, texts)).differences] == ["decision.authors.reply[0].author"]


@pytest.mark.parametrize(
    ("change", "author"),
    [
        (lambda ending: replace(ending, text=ending.text.replace("030 1234", "[phone number]")), TextAuthor.MODEL),
        (lambda _: Ending(EndingKind.ANSWER, "I cannot say that."), TextAuthor.CODE),
    ],
    ids=["changed", "replaced"],
)
async def test_a_text_that_an_added_state_changes_stays_the_models_and_another_one_is_codes(
    change: Callable[[Ending], Ending], author: TextAuthor
) -> None:
    async def check_content(turn: Turn, runtime: AddedRuntime) -> Turn:  # noqa: ARG001 (the signature of a node)
        assert turn.ending is not None
        return turn.to("checked", ending=change(turn.ending))

    table = {
        **TOPOLOGY,
        "CHECK_RESPONSE": {**TOPOLOGY["CHECK_RESPONSE"], "answered": "CHECK_CONTENT"},
        "CHECK_CONTENT": {"checked": "BUILD_DECISION"},
    }
    engine = engine_of(says("Call 030 1234."), graph=build_graph(table, {"CHECK_CONTENT": check_content}))
    decision = await engine.process_message(asks("who can help?"))
    assert decision.authors is not None
    assert decision.authors.reply == [TextPart(author=author, text=decision.reply)]
