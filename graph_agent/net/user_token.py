"""The bearer token by which the user of a request has signed in, for the servers that act with the user's own rights.

It is kept in a context variable and nowhere else, so that no state, record, event or trace can contain it. The tasks of a
request inherit it. Work in the background has none: sweeps, turns that another process resumes, and calls after the approval of
another user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UserToken:
    """The token of a user. It is exchanged, and never passed on."""

    user_id: str
    token: str = field(repr=False)


_signed_in: ContextVar[UserToken | None] = ContextVar("graph_agent_user_token", default=None)


def keep_user_token(token: UserToken | None) -> None:
    """Keep the token for the rest of the current task, which is that of one request."""
    _signed_in.set(token)


@contextmanager
def signed_in_with(user_id: str, token: str) -> Iterator[None]:
    """Let the calls of this user, in the tasks that begin meanwhile, act with the rights that `token` stands for.

    An application that authenticates its users itself gives the token that the issuer has made for this application.
    """
    before = _signed_in.set(UserToken(user_id, token))
    try:
        yield
    finally:
        _signed_in.reset(before)


def token_of(user_id: str) -> str | None:
    """Return the token of the user; None if the current task is not of a request that this user has signed in for."""
    found = _signed_in.get()
    # The request of an approver runs the calls of others.
    return found.token if found is not None and found.user_id == user_id else None
