"""The approval of a call by other people than its requester: the states of a request, and its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from operator import not_

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.person import is_same_person

MAX_OPEN_REQUESTS = 5
"""The number of open requests of one user."""
MAX_RENEWALS = 3
"""The number of times that a request is opened anew, because what its call acts on had changed."""
MAX_APPROVAL_HOURS = 30 * 24
MAX_REASON = 1_000
"""The longest reason of an answer, in characters."""


class ApprovalState(StrEnum):
    """OPEN, then exactly one of the others, for ever."""

    OPEN = "open"
    APPROVED = "approved"
    """Enough people approved it in time, and its call was started."""
    DENIED = "denied"
    CANCELLED = "cancelled"
    """The requester withdrew it."""
    EXPIRED = "expired"
    VOID = "void"
    """It could not be opened, or it was copied to another database."""


class ApproverIdentity(StrEnum):
    """The evidence for who answered."""

    TOKEN = "token"
    """A bearer token, or the session of the page."""
    KEY = "key"
    """The key file of the command line, which names the approver."""
    ASSERTED = "asserted"
    """Nothing: an installation without sign-in believes the command line."""


class RequiredEvidence(Frozen):
    """The evidence for who answered that an answer needs to count."""

    sign_in: bool = Field(default=False, exclude_if=not_)
    """True if no answer counts that was only asserted."""
    approver_keys: str = Field(default="", exclude_if=not_)
    """The digest of the keys with which approvers sign; empty if no signature is asked for."""


class ApprovalAnswer(Frozen):
    """The final answer of one person to one request."""

    approver: str
    approve: bool
    role: str
    """The role in which the person answered; a person counts once, in one role."""
    reason: str = Field(default="", max_length=MAX_REASON, exclude_if=not_)
    digest: str
    """The digest of the request that the person was shown."""
    identity: ApproverIdentity
    signature: str = Field(default="", exclude_if=not_)
    """The SSH signature of the approver, if there is one."""
    answered_at: UtcDatetime


class KnownRequests(Frozen):
    """The earlier requests of a user, in view of a new one."""

    origin: str = ""
    """The origin of the log, which a request names."""
    evidence: RequiredEvidence = Field(default=RequiredEvidence(), exclude_if=lambda evidence: not evidence.to_json())
    """The evidence that answers to a new request need."""
    same: str = Field(default="", exclude_if=not_)
    """The id of the open request for the same call."""
    denied: str = Field(default="", exclude_if=not_)
    """For a call that was denied in this conversation, until its request would have expired: who denied it, as a clause."""
    open: int = Field(default=0, exclude_if=not_)
    """The number of open requests of the user."""
    at: UtcDatetime | None = Field(default=None, exclude_if=lambda at: at is None)
    """The time of the database that was asked; None without one."""


def count_approvals(answers: Iterable[ApprovalAnswer], requester: str) -> dict[str, int]:
    """Return the number of people who approved, by role. Each counts once, and the requester never, in whatever spelling."""
    people, counts = [requester], Counter[str]()
    for one in answers:
        if one.approve and not any(is_same_person(one.approver, person) for person in people):
            people.append(one.approver)
            counts[one.role] += 1
    return dict(counts)
