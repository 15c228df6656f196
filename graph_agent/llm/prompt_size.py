"""The check of whether a model has read all of a request, by the number of tokens that its server reports."""

from __future__ import annotations

from typing import Final

from graph_agent.models.llm import LLMRequest, LLMResponse

_CHARS_PER_TOKEN: Final = 5
"""No tokenizer packs more characters of English into a token on average. A prompt with fewer tokens was not read as a whole."""


def missing_declarations(request: LLMRequest, response: LLMResponse) -> int | None:
    """Return the prompt tokens of `response` if they prove that the request did not reach the model as a whole; else None.

    Usually its chat template has dropped the declarations of the functions.
    """
    tokens = 0 if response.usage is None else response.usage.prompt_tokens
    return tokens if tokens and _chars(request) > tokens * _CHARS_PER_TOKEN else None


def _chars(request: LLMRequest) -> int:
    """Return the number of characters that every template sends: the prompt, and names and descriptions without JSON."""
    return len(request.system_instruction or "") + sum(len(tool.name) + len(tool.description) for tool in request.tools)
