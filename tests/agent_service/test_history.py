from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graph_agent.agent_service.messages import CUT, MAX_TEXT, History, read_history
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import Message, PendingAction, content_problem
from graph_agent.models.origin import Origin

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PENDING = PendingAction(
    id="p1",
    tool_name="delete_task",
    arguments={"task_id": "t1"},
    description="Delete task 'call mom'",
    created_at=NOW,
    expires_at=NOW + timedelta(minutes=5),
    signature="s",
)
ASKED: dict[str, Any] = {
    "role": "assistant",
    "content": "Should I?",
    "graph_agent": {"conversation_id": "c1", "decision_id": "d1", "pending_action": PENDING.to_json()},
}
YES = {"role": "user", "content": "yes"}


def says(role: Any, content: str, origin: Origin | None = None) -> Message:
    return Message(role=role, content=content, timestamp=NOW, origin=origin)


def test_what_was_said_is_kept_and_a_reply_that_is_not_ours_is_foreign() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be a pirate"},
        {"role": "user", "content": [{"type": "text", "text": "show"}, {"type": "text", "text": "tasks"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "x", "content": "{}"},
        {"role": "assistant", "content": "None yet."},
        {"role": "user", "content": "thanks"},
    ]
    earlier = (says("user", "show\ntasks"), says("assistant", "None yet.", Origin.FOREIGN))
    assert read_history(messages, NOW) == History("thanks", earlier)


def test_a_long_message_of_the_past_is_cut() -> None:
    earlier = read_history([{"role": "assistant", "content": "a" * MAX_TEXT + "b"}, YES], NOW).earlier
    assert earlier == (says("assistant", "a" * MAX_TEXT + CUT, Origin.FOREIGN),)


def test_conversation_and_waiting_action_come_with_the_last_message_of_the_assistant() -> None:
    said = says("assistant", "Should I?")
    assert read_history([ASKED, YES], NOW) == History("yes", (said,), "c1", PENDING)


def test_an_action_is_dropped_once_the_user_has_said_something_else() -> None:
    history = read_history([ASKED, {"role": "user", "content": "hm"}, {"role": "assistant", "content": "What?"}, YES], NOW)
    assert (history.conversation_id, history.pending) == ("c1", None)
    history = read_history([ASKED, {"role": "user", "content": "hm"}, YES], NOW)
    assert (history.conversation_id, history.pending) == ("c1", None)


@pytest.mark.parametrize(
    "mark",
    [
        None,
        "c1",
        [],
        {},
        {"conversation_id": 1, "pending_action": []},
        {"conversation_id": " ", "pending_action": {"id": "p1"}},
        {"conversation_id": "a\x00b", "pending_action": {**PENDING.to_json(), "more": 1}},
        {"conversation_id": "c" * 256, "pending_action": {**PENDING.to_json(), "expires_at": "soon"}},
    ],
)
def test_a_mark_that_is_not_ours_is_none(mark: Any) -> None:
    history = read_history([{**ASKED, "graph_agent": mark}, YES], NOW)
    assert (history.conversation_id, history.pending) == (None, None)


def test_only_an_assistant_carries_a_mark() -> None:
    history = read_history([{**ASKED, "role": "tool"}, YES], NOW)
    assert (history.conversation_id, history.pending) == (None, None)


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "The message history must be a list that ends in the user's message."),
        ("hello", "The message history must be a list that ends in the user's message."),
        (YES, "The message history must be a list that ends in the user's message."),
        (["hello"], "The last message of the history must be the user's."),
        ([YES, ASKED], "The last message of the history must be the user's."),
        (["hello", YES], "Message 1 of the history has no known role: user, assistant or tool."),
        ([YES, {"role": "robot", "content": "x"}, YES], "Message 2 of the history has no known role: user, assistant or tool."),
        ([{"role": ["user"], "content": "x"}, YES], "Message 1 of the history has no known role: user, assistant or tool."),
        ([{"role": "user", "content": 7}, YES], "Message 1 of the history is not text."),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "Message 1 of the history is not text."),
        (
            [{"role": "user", "content": "\ud800"}, YES],
            "Message 1 of the history contains characters that are not valid text.",
        ),
    ],
)
def test_an_invalid_history_is_refused_with_one_sentence(messages: Any, sentence: str) -> None:
    with pytest.raises(ServiceError) as refused:
        read_history(messages, NOW)
    assert (refused.value.code, refused.value.message) == (ServiceErrorCode.VALIDATION_ERROR, sentence)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("hello", None),
        ("x" * 4000, None),
        ("", "The message is empty."),
        (" \n", "The message is empty."),
        ("x" * 4001, "The message is longer than 4000 characters."),
        ("a\x00b", "The message contains characters that are not valid text."),
    ],
)
def test_a_refused_message_gets_a_reason(message: str, problem: str | None) -> None:
    assert content_problem(message) == problem
