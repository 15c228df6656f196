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
_LINE = re.compile(r"""  (?P<key>\w+|'[^\n]*?'|"[^"\n]*?"): (?P<value>[^\n]+)""", re.ASCII)
_QUOTED = re.compile(r"""(?:'(?P<single>.*?)'|"(?P<double>[^"]*)")(?:, | and |$)""")
_WORDS = {"yes": True, "no": False}

long = st.builds(str.__mul__, st.sampled_from(["x", "'", "\u200b", "\n"]), st.sampled_from([300, 4_000, 4_001]))
texts = st.text(max_size=40) | st.sampled_from(IMITATIONS) | long
keys = st.sampled_from(["to", "body", "a b", "x' = 'y", "to\n"])
arguments = st.dictionaries(keys, texts | st.integers() | st.booleans() | st.lists(texts.filter(str.isprintable), max_size=2))


def decoded(text: str) -> str:
    """Return the text of which a question shows `text`."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)) * int(code[2] or 1), text)


def read_value(value: str) -> Any:
    """Return the value of which a question shows `value`: texts are in quotes that they cannot close."""
    if value[0] in "'\"":
        found = [*_QUOTED.finditer(value)]
        assert "".join(one[0] for one in found) == value, value
        texts = [decoded(one["double"] if one["single"] is None else one["single"]) for one in found]
        # A list of one text reads as the text; the digest of the call tells them apart.
        return texts[0] if len(texts) == 1 else texts
    return _WORDS[value] if value in _WORDS else json.loads(decoded(value))


def read_back(question: str) -> dict[str, Any]:
    """Return the arguments as a person reads them from the lines of a question."""
    _, *lines, last = question.split("\n")
    assert last == "Should I go ahead? Please answer yes or no."
    shown = {}
    for line in lines:
        found = _LINE.fullmatch(line)
        assert found is not None, line
        key = found["key"]
        # A plain name has a capital letter as a label.
        shown[decoded(key.strip(key[0])) if key[0] in "'\"" else key.lower()] = read_value(found["value"])
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
        assert asked.reply == "Send mail. Should I go ahead? Please answer yes or no."
    elif not pending.by_id_only:
        assert read_back(asked.reply) == {
            name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in given_arguments.items()
        }
