"""The evidence that the answers to approval requests need in an installation, and whether an answer has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from graph_agent.models.approval import ApprovalAnswer, ApproverIdentity, RequiredEvidence
from graph_agent.models.canonical import digest
from graph_agent.models.decision import ApprovalRequest
from graph_agent.policy.approval_signature import ApproverKeys, SignatureRefused, require_signed


@dataclass(frozen=True)
class AnswerEvidence:
    """The sign-in and the keys by which this process knows who has answered."""

    sign_in: bool = False
    """True if users sign in: then no answer counts that was only asserted."""
    keys: ApproverKeys | None = None
    """The keys with which approvers sign; None if no signature is asked for."""

    @cached_property
    def required(self) -> RequiredEvidence:
        """The evidence that a request names, so that no process with other keys decides it."""
        keys = {} if self.keys is None else {user: sorted(key.hex() for key in own) for user, own in self.keys.items()}
        return RequiredEvidence(sign_in=self.sign_in, approver_keys=digest(keys) if keys else "")

    def problem_of(self, request: ApprovalRequest, answer: ApprovalAnswer) -> str | None:
        """Return why an answer does not count, as a clause; None if it does."""
        if self.keys is not None:
            try:
                require_signed(request, answer, self.keys)
            except SignatureRefused as refused:
                return str(refused)
        elif self.sign_in and answer.identity is not ApproverIdentity.TOKEN:
            return "its approver has not signed in"
        return None
