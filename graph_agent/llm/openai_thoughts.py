"""Thoughts, calls and marks of a chat template that a model's server leaves in the text of an answer.

A server that knows its model puts them into fields of their own. One that does not passes on what the model wrote: thoughts
between tags, or before a closing tag whose opening one stood in the prompt; calls that it did not read; the marks of a turn.
"""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = r"(?:seed:)?(?:think|thinking|thought|thoughts|reasoning)"
_THOUGHT: Final = re.compile(
    rf"\s*(?:<({_TAGS})>.*?(?:</\1>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)|<\|channel>thought\b.*?(?:<channel\|>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_THOUGHT: Final = re.compile(rf"(?:</{_TAGS}>|\[/THINK\]|<channel\|>)\s*|<\|channel\|>final<\|message\|>", re.IGNORECASE)
_CALLS: Final = re.compile(
    r"<tool_call>\s*[\w.]{1,80}\s*<arg_key>.*?(?:</tool_call>|\Z)"
    r"|<｜tool▁calls▁begin｜>.*?(?:<｜tool▁calls▁end｜>|\Z)"
    r"|<\|channel\|>commentary to=.*?(?:<\|call\|>|\Z)",
    re.DOTALL,
)
"""Notations that nobody else reads; those that are JSON or look like code may spell out a reply form."""
_START_OF_TURN: Final = re.compile(r"\s*(?:<｜begin▁of▁sentence｜>|<bos>|<s>)\s*")
_END_OF_TURN: Final = re.compile(r"(?:<\|\w{1,20}\|>|<｜[\w▁]{1,30}｜>|<end_of_turn>|<eos>|</s>)\Z")
_LONGEST_MARK: Final = 34


def without_thoughts(text: str) -> str:
    """`text` as it is meant for the user; empty where it is nothing but thoughts, calls, or thoughts that were cut. Linear."""
    if "<" not in text and "[" not in text:
        return text
    said, start = _CALLS.sub("", text), 0
    for opening in (_START_OF_TURN, _THOUGHT):
        while (found := opening.match(said, start)) is not None:
            start = found.end()
    for end_of_thought in _END_OF_THOUGHT.finditer(said, start):
        start = end_of_thought.end()
    shown = said[start : _end(said)]
    return shown.strip() if len(shown) < len(text) else text


def _end(text: str) -> int:
    """Where `text` ends but for the marks that end a turn. Backwards: a pattern would begin anew at every blank."""
    end = before_marks = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        mark = _END_OF_TURN.search(text, max(0, end - _LONGEST_MARK), end)
        if mark is None:
            return before_marks
        end = before_marks = mark.start()
