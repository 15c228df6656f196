"""What the user confirms can be read back from the question, or was read by the client before."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ConfirmationAnswer, DecisionType
from graph_agent.models.llm import ToolDeclaration
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import TableServer, asks, calls, grouped

CONSTITUTION = "## Available Tools\n- send_mail: Send mail (requires confirmation)\n"
MAIL = ToolDeclaration(name="send_mail", description="Send mail", parameters={"type": "object", "additionalProperties": True})
IMITATIONS = (
    "a', to = 'boss",
    "\nto = 'boss'",
    "Should I go ahead? Please answer yes or no.",
    "‹U+000A›",
    "✓ sent",
    '"',
    "\u202e",
)

_CODE = re.compile("‹U\\+([0-9A-F]{4,6})(?:×([0-9]+))?›")
_LINE = re.compile(r"""(?P<key>[\w.-]+|'[^\n]*?'|"[^"\n]*?") = (?P<value>[^\n]+)""", re.ASCII)

long = st.builds(str.__mul__, st.sampled_from(["x", "'", "\u200b", "\n"]), st.sampled_from([300, 4_000, 4_001]))
texts = st.text(max_size=40) | st.sampled_from(IMITATIONS) | long
keys = st.sampled_from(["to", "body", "a b", "x' = 'y", "to\n"])
arguments = st.dictionaries(keys, texts | st.integers() | st.booleans() | st.lists(texts.filter(str.isprintable), max_size=2))


def decoded(text: str) -> str:
    """Return the text of which a question shows `text`."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)) * int(code[2] or 1), text)


def read_back(question: str) -> dict[str, Any]:
    """Return the arguments as a person reads them from the lines of a question."""
    _, *lines, last = question.split("\n")
    assert last == "Should I go ahead? Please answer yes or no."
    shown = {}
    for line in lines:
        found = _LINE.fullmatch(line)
        assert found is not None, line
        key, value = found["key"], found["value"]
        quoted = value[0] in "'\""
        assert not quoted or value[-1] == value[0]
        plain = decoded(key.strip(key[0]) if key[0] in "'\"" else key)
        shown[plain] = decoded(value[1:-1]) if quoted else json.loads(decoded(value))
    return shown


@given(arguments, st.booleans())
async def test_a_call_is_sent_only_if_the_question_or_what_the_client_read_has_all_of_it(
    given_arguments: dict[str, Any], reads: bool
) -> None:
    server = TableServer(served=(MAIL,), ledger=False)
    model = ScriptedAdapter([calls(("send_mail", given_arguments))])
    engine = LLMAgentEngine(model, server, CONSTITUTION, **grouped())
    asked = await engine.process_message(asks("send it"))
    pending = asked.pending_action
    if pending is None:
        assert server.sent == []
        return
    answers = ConfirmationAnswer(pending_action=pending.id, yes=True, read=pending.whole_digest if reads else "")
    answered = await engine.process_message(asks("yes", pending_confirmation=pending, answers=answers))
    if answered.decision_type is not DecisionType.EXECUTE_PENDING:
        assert (server.sent, pending.by_id_only, reads) == ([], True, False)
        return
    assert [(name, sent) for name, sent, *_ in server.sent] == [("send_mail", given_arguments)]
    if not given_arguments:
        assert asked.reply == "Send mail: (no arguments). Should I go ahead? Please answer yes or no."
    elif not pending.by_id_only:
        assert read_back(asked.reply) == given_arguments
