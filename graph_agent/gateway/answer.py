"""The answers of the gateway: each one says whose texts it has. What is foreign is recorded before a client reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, TypeVar

from graph_agent.models.origin import Origin
from graph_agent.tools.passed_on import ServerWordsError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[R_co]):
    """An answer to a client, with the origin of its texts. The protocol's part of it reaches no client without one."""

    result: R_co
    origin: Origin
    decision_id: str | None = None
    """The decision whose record has the foreign texts, so that they taint the calls after it."""

    def __post_init__(self) -> None:
        if self.origin is Origin.FOREIGN and self.decision_id is None:
            raise TypeError("an answer with foreign texts needs the decision whose record has them")


def by_code(result: R) -> Answer[R]:
    """Return an answer in which only code speaks, without a quotation."""
    return Answer(result, Origin.CODE)


def by_operator(result: R) -> Answer[R]:
    """Return an answer with texts that the operator has written, or reviewed and pinned."""
    return Answer(result, Origin.OPERATOR)


def foreign(result: R, decision_id: str) -> Answer[R]:
    """Return an answer with texts of a server, or of anybody who writes to it, which the record of a decision has."""
    return Answer(result, Origin.FOREIGN, decision_id)


Handler = Callable[[Any, Any], Awaitable[R]]


def with_origin(handler: Callable[[Any, Any], Awaitable[Answer[R]]]) -> Handler[R]:
    """Return a handler of the SDK. Raises `TypeError` for a text of a server that is in no record."""

    @wraps(handler)
    async def handle(context: Any, params: Any) -> R:
        try:
            answer = await handler(context, params)
        except ServerWordsError as exc:
            if not exc.recorded:
                raise TypeError("an error that quotes a server was not recorded") from exc
            raise
        if not isinstance(answer, Answer):
            raise TypeError(f"{type(answer).__name__} has no origin")
        return answer.result

    return handle
