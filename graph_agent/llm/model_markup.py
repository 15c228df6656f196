"""Removal of a model's own markup from the text of a reply.

A server that knows its model's chat template puts reasoning and calls into separate fields. Other servers return what the
model wrote: reasoning between tags, or before a closing tag whose opening tag was in the prompt; special tokens at the start
and the end of a turn. Calls that the server did not parse are left in the text: they may be reply forms, and CHECK_RESPONSE
reads them.
"""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = r"(?:seed:)?(?:think|thinking|thought|thoughts|reasoning)"
_REASONING: Final = re.compile(
    rf"\s*(?:<({_TAGS})>.*?(?:</\1>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)|<\|channel>thought\b.*?(?:<channel\|>|\Z)"
    r"|<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)|<\|START_THINKING\|>.*?(?:<\|END_THINKING\|>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_REASONING: Final = re.compile(
    rf"(?:</{_TAGS}>|\[/THINK\]|<channel\|>)\s*|<\|channel\|>final<\|message\|>", re.IGNORECASE
)
_START_OF_TURN: Final = re.compile(
    r"\s*(?:<｜begin▁of▁sentence｜>|<bos>|<s>|<\|start\|>assistant|<\|START_(?:RESPONSE|TEXT)\|>)\s*"
)
_END_OF_TURN: Final = re.compile(r"(?:<\|\w{1,20}\|>|<｜[\w▁]{1,30}｜>|<end_of_turn>|<eos>|</s>)\Z")
_LONGEST_END_TOKEN: Final = 34


def strip_model_markup(text: str) -> str:
    """Return the part of `text` that is meant for the user; empty if it is only markup, or reasoning that was truncated.

    Takes linear time, because the text is untrusted and may be long.
    """
    if "<" not in text and "[" not in text:
        return text
    start = 0
    for opening in (_START_OF_TURN, _REASONING, _START_OF_TURN):
        while (found := opening.match(text, start)) is not None:
            start = found.end()
    for end_of_reasoning in _END_OF_REASONING.finditer(text, start):
        start = end_of_reasoning.end()
    visible = text[start : _end_without_tokens(text)]
    # A text without markup keeps its blanks.
    return visible.strip() if len(visible) < len(text) else text


def _end_without_tokens(text: str) -> int:
    # Backwards from the end: a pattern that allows blanks before the token would try again at every blank.
    end = end_of_text = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = _END_OF_TURN.search(text, max(0, end - _LONGEST_END_TOKEN), end)
        if token is None:
            return end_of_text
        end = end_of_text = token.start()
