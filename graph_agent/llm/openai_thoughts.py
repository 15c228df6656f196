"""Thoughts, and the marks of a chat template, that a model's server leaves in the text of an answer.

A server that knows its model keeps them in fields of their own. One that does not passes on what the model wrote: thoughts
between tags, or before a closing tag whose opening one stood in the prompt, and the words that end a turn.
"""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = r"(?:think|thinking|thought|thoughts|reasoning)"
_THOUGHT: Final = re.compile(rf"\s*<({_TAGS})>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_END_OF_THOUGHT: Final = re.compile(rf"</{_TAGS}>\s*|<\|channel\|>final<\|message\|>", re.IGNORECASE)
_END_OF_TURN: Final = re.compile(r"(?:\s*(?:<\|\w{1,20}\|>|<end_of_turn>|</s>))+\s*\Z")


def without_thoughts(text: str) -> str:
    """`text` as it is meant for the user; empty where it is nothing but thoughts, or thoughts that were cut."""
    if "<" not in text:
        return text
    position = 0
    while (thought := _THOUGHT.match(text, position)) is not None:
        position = thought.end()
    for end in _END_OF_THOUGHT.finditer(text, position):
        position = end.end()
    shown = _END_OF_TURN.sub("", text[position:])
    return shown.strip() if len(shown) < len(text) else text
