"""The refusal of a request that is larger than the context of the model, as the providers word it."""

from __future__ import annotations

import re
from typing import Any, Final

Overflow = tuple[int | None, int | None]
"""The tokens of the request and of the context, as far as the provider gives them."""

_TYPES: Final = frozenset({"exceed_context_size_error", "context_length_exceeded", "context_window_exceeded"})
_WORDS: Final = re.compile(
    r"(?:context|prompt|sequence|input)(?:[ _-]\w{1,12})?[ _-](?:length|size|window|limit)"
    r"|(?:prompt|input|messages?|conversation)\b.{0,40}? ?too (?:long|large)|request too large for model"
    r"|(?:maximum|max|too many|limit of|token limit)\b.{0,40}? ?tokens?\b|token limit"
    r"|tokens?\b.{0,40}? exceeds?\b|exceeds?\b.{0,60}? tokens?\b|max_new_tokens"
    r"|input token count|num_ctx|n_ctx|length of the messages",
    re.IGNORECASE,
)
_TOO_LARGE: Final = re.compile(
    r"exceed|too (?:long|large|many|big)|longer than|larger than|greater than|maximum|cannot fit|does not fit|must be <="
    r"|range of input|overflow|while (?:the )?limit",
    re.IGNORECASE,
)
_OUTPUT: Final = re.compile(
    r"\A[^.]{0,80}\bmax_(?:completion_|output_)?tokens\b[^.]{0,40}(?:is too large|must be|exceeds)", re.IGNORECASE
)
"""The refusal of the limit that was asked for the output, which is another mistake."""
_NUMBER: Final = re.compile(r"(?<![\w.-])\d{1,3}(?:,\d{3}){1,3}(?![\w,])|(?<![\w.-])\d{2,9}(?![\w.]*\w)")
_LIMITS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"n_ctx\W{0,4}(\d[\d,]*)",
        r"> (\d[\d,]*)",
        r"(?:maximum|maximal|max\b|limit\b|context (?:length|size|window)|available|allowed|cannot exceed|must be <=)"
        r"[^\d\[]{0,60}?(\d[\d,]*)",
        r"(\d[\d,]*)[ -](?:tokens? )?(?:maximum|limit|context)",
    )
)
"""The limit is beside one of these words; the first pattern that matches is used."""
_MAX_TEXT: Final = 4_000


def read_overflow(error: Any) -> Overflow | None:
    """Return the tokens that the `error` of a response names if the request did not fit the context; None for other errors."""
    fields = error if isinstance(error, dict) else {"message": error}
    text = fields.get("message")
    text = text[:_MAX_TEXT] if isinstance(text, str) else ""
    named = any(isinstance(fields.get(key), str) and fields[key] in _TYPES for key in ("type", "code"))
    if not named and (not _WORDS.search(text) or not _TOO_LARGE.search(text) or _is_about_output(text)):
        return None
    given = (_count(fields.get("n_prompt_tokens")), _count(fields.get("n_ctx")))
    return given if None not in given else _numbers(text)


def _is_about_output(text: str) -> bool:
    return _OUTPUT.search(text) is not None and "context" not in text.lower()


def _numbers(text: str) -> Overflow:
    """Return the numbers of a sentence: the limit by the words beside it, and the request as the largest beyond it."""
    found = next((match for pattern in _LIMITS if (match := pattern.search(text))), None)
    if found is None or not re.search("token|length", text, re.IGNORECASE):
        return None, None
    limit = _integer(found[1])
    beyond = [number for number in map(_integer, _NUMBER.findall(text)) if number > limit]
    return max(beyond, default=None), limit


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
