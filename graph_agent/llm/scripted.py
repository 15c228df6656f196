"""An adapter that plays responses from a script: for tests, demos and `--model scripted:FILE`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from graph_agent.errors import ConfigurationError, InvalidResponseError, LLMError, LLMTimeoutError, RateLimitError
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.llm import LLMErrorCause, LLMErrorCode, LLMMessage, LLMRequest, LLMResponse, ToolDeclaration

Step = LLMResponse | LLMError | Callable[[list[LLMMessage], list[ToolDeclaration]], LLMResponse]
"""The result of one call: a response, an error to raise, or a function of the request's messages and tools."""

_ERROR_TYPES = {kind.default_code: kind for kind in (RateLimitError, LLMTimeoutError, InvalidResponseError)}
"""The errors that are raised; `LLMError` for every other code."""


class ScriptExhaustedError(LLMError, AssertionError):
    """The runtime called the model more or less often than the script has steps."""

    def __init__(self, message: str) -> None:
        super().__init__(message, cause=LLMErrorCause.SCRIPT_ENDED)


class ScriptedAdapter(RequestAdapter):
    """An `LLMAdapter` that plays `responses` in order and keeps every request in `requests`.

    As a context manager it raises `ScriptExhaustedError` on leaving if steps were not used.
    """

    model = "scripted"

    def __init__(
        self, responses: Iterable[Step], *, model: str = "scripted", declarations: Sequence[ToolDeclaration] | None = None
    ) -> None:
        super().__init__(declarations)
        self._steps: list[Step] = list(responses)
        self.model = model
        self.requests: list[LLMRequest] = []

    @classmethod
    def from_file(cls, path: str | Path, **settings: Any) -> Self:
        """Read a script from a JSON file (one list) or a JSONL file (one step per line).

        A step is an `LLMResponse` as JSON, or `{"error": CODE, "retry_after": seconds}`, which raises the error. Raises
        `ConfigurationError` for a file that cannot be read or is not a script.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigurationError(f"the script {path} cannot be read") from exc
        return cls.from_values(_values(text, path), path, **settings)

    @classmethod
    def from_values(cls, values: Iterable[Any], source: str | Path, **settings: Any) -> Self:
        """Make a script from JSON values, with steps as in a file. Raises `ConfigurationError`, which names `source`."""
        return cls([_step(value, n, source) for n, value in enumerate(values, start=1)], **settings)

    @property
    def unused(self) -> int:
        """The number of steps that are left."""
        return max(0, len(self._steps) - len(self.requests))

    async def respond(self, request: LLMRequest) -> LLMResponse:
        """Play the next step. Raises `ScriptExhaustedError` if there is none."""
        self.requests.append(request)
        if len(self.requests) > len(self._steps):
            raise ScriptExhaustedError(f"the script has {len(self._steps)} steps, and the model was called once more")
        step = self._steps[len(self.requests) - 1]
        if isinstance(step, LLMError):
            raise step
        return step if isinstance(step, LLMResponse) else step(list(request.messages), list(request.tools))

    def assert_finished(self) -> None:
        """Raise `ScriptExhaustedError` if steps are left, or if there were more calls than steps."""
        if len(self.requests) > len(self._steps):
            raise ScriptExhaustedError(f"the model was called {len(self.requests)} times for {len(self._steps)} steps")
        if self.unused:
            raise ScriptExhaustedError(f"{self.unused} of {len(self._steps)} steps of the script were not used")

    async def aclose(self) -> None:
        """Do nothing: a script has no connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.assert_finished()


def _values(text: str, path: str | Path) -> list[Any]:
    """Return the steps of a JSON file, which may be a single one, or of a JSONL file."""
    try:
        whole = json.loads(text)
        return whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        pass
    lines = {n: line for n, line in enumerate(text.splitlines(), start=1) if line.strip()}
    values: list[Any] = []
    for n, line in lines.items():
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as exc:
            raise ConfigurationError(f"the script {path} is neither JSON nor JSONL: line {n} cannot be read") from exc
    return values


def _step(value: Any, n: int, path: str | Path) -> Step:
    try:
        if isinstance(value, dict) and "finish_reason" not in value and "error" in value:
            code = LLMErrorCode(value["error"])
            wait = value.get("retry_after")
            error = _ERROR_TYPES.get(code, LLMError)
            return error(str(value.get("message", "")), code, None if wait is None else float(wait))
        return LLMResponse.model_validate(value)
    except (ValidationError, ValueError, TypeError) as exc:
        raise ConfigurationError(f"the script {path} is wrong at step {n}: it is not a response of a model") from exc
