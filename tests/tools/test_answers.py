"""Conversion of unusual MCP answers to results."""

from __future__ import annotations

import math
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    InputRequiredResult,
    ReadResourceResult,
    TextResourceContents,
)

from graph_agent.errors import ToolErrorCode
from graph_agent.tools import answers


@pytest.mark.parametrize("data", [{"n": math.nan}, {"n": [math.inf]}])
def test_data_that_is_not_json_is_unusable_and_its_effect_unknown(data: dict[str, Any]) -> None:
    result = answers.from_answer(CallToolResult(content=[], structured_content=data))
    assert result == answers.UNUSABLE
    assert result.unknown


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, answers.TIMED_OUT),
        (answers.NotConnectedError(), answers.UNAVAILABLE),
        (answers.NoTimeError(), answers.NO_TIME),
        (answers.NoAnswerError(lost=True), answers.CONNECTION_LOST),
        (answers.NoAnswerError(lost=False), answers.UNUSABLE),
        (ValueError("hunter2"), answers.UNUSABLE),
        (KeyboardInterrupt(), answers.CONNECTION_LOST),
    ],
)
def test_every_failure_has_its_result(answer: BaseException | None, result: object) -> None:
    assert answers.from_answer(answer) == result


CODES = [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32020, -32022, -32099, 0, 1, 404]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_an_error_says_in_the_words_of_the_server_why_and_proves_nothing_but_a_refusal_of_a_trusted_one(
    code: int, trusted: bool, begun: bool
) -> None:
    error = MCPError(code, "no board 'Q3':\nchoose one of Q1, Q2")
    change = answers.from_answer(error, trusted=trusted, change=True, begun=begun)
    read = answers.from_answer(error, trusted=trusted, begun=begun)
    assert change.data == read.data == {"server_text": "no board 'Q3': choose one of Q1, Q2"}
    refused = trusted and not begun and code in (-32601, -32602)
    assert (change.unknown, change.error_code) == (
        not refused,
        ToolErrorCode.TOOL_EXECUTION_ERROR if refused else ToolErrorCode.TOOL_REPORTED_FAILURE,
    )
    assert ("nothing was done" in str(change.error), "nothing was done" in str(read.error)) == (refused, refused)
    assert (read.success, read.unknown) == (False, False)


@pytest.mark.parametrize(
    "answer", [InputRequiredResult(request_state="s"), MCPError(-32042, "sign in", {"elicitations": []})], ids=["form", "url"]
)
@pytest.mark.parametrize(
    ("trusted", "change", "unknown"), [(False, True, True), (False, False, False), (True, True, False), (True, False, False)]
)
def test_a_tool_that_asks_for_input_may_have_acted_unless_it_reads_or_is_trusted(
    answer: Any, trusted: bool, change: bool, unknown: bool
) -> None:
    result = answers.from_answer(answer, trusted=trusted, change=change)
    assert (result.success, result.unknown, result.data) == (False, unknown, None)
    assert "sign in" not in str(result)


def settled(code: str | None, *, success: bool = False, is_error: bool = False) -> CallToolResult:
    outcome = {"success": success, "data": None, "error": "e", "error_code": code}
    return CallToolResult(content=[], structured_content=outcome, is_error=is_error)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (settled(None, success=True), None),
        (settled("TOOL_EXECUTION_ERROR"), ToolErrorCode.TOOL_EXECUTION_ERROR),
        (settled("TOOL_EXECUTION_ERROR", is_error=True), ToolErrorCode.TOOL_EXECUTION_ERROR),
        (settled(None, success=True, is_error=True), ToolErrorCode.UNKNOWN_ERROR),
        (settled("DATABASE_ERROR"), ToolErrorCode.UNKNOWN_ERROR),
        (settled("VALIDATION_ERROR"), ToolErrorCode.UNKNOWN_ERROR),
        (settled("PERMISSION_DENIED"), ToolErrorCode.UNKNOWN_ERROR),
        (settled(None), ToolErrorCode.UNKNOWN_ERROR),
        (CallToolResult(content=[], structured_content={"ok": True}), ToolErrorCode.UNKNOWN_ERROR),
        (None, ToolErrorCode.UNKNOWN_ERROR),
        (answers.NotConnectedError(), ToolErrorCode.UNKNOWN_ERROR),
    ],
)
def test_only_the_ledger_itself_can_settle(answer: Any, code: ToolErrorCode | None) -> None:
    assert answers.from_settlement(answer).error_code is code


def resource(text: str) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri="task://1", text=text)])


@pytest.mark.parametrize(
    "answer",
    [
        resource("no json"),
        resource("[]"),
        resource("[" * 100_000),
        resource("{}"),
        resource('{"description": 1}'),
        resource('{"description": "a", "n": NaN}'),
        ReadResourceResult(contents=[]),
        ReadResourceResult(contents=[BlobResourceContents(uri="task://1", blob="")]),
        None,
        MCPError(-32603, "hunter2"),
        answers.NotConnectedError(),
    ],
)
def test_a_preview_without_a_description_is_a_failure(answer: Any) -> None:
    assert not answers.from_preview(answer).success


def test_a_preview_of_a_missing_object_is_not_found() -> None:
    for code in (-32602, -32002):
        assert answers.from_preview(MCPError(code, "hunter2")) == answers.NOT_FOUND
