"""The rules under which an approval request was asked, compared with those of this process: only equal ones decide it."""

from __future__ import annotations

from graph_agent.models.decision import ApprovalRequest
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.question.approvals import StoredRequest

_FILES = {"constitution": "the constitution", "conditions": "the conditions, their roles or their time zone"}


def other_rules(request: ApprovalRequest, policy: CompiledPolicy, evidence: AnswerEvidence) -> list[str]:
    """Return in words what differs here from the rules under which a request was asked; empty if nothing does."""
    found = [_FILES.get(name, f"the tool '{name}'") for name in policy.differences(request.action.asked_under)]
    here, asked = evidence.required, request.evidence
    found += ["the sign-in"] if here.sign_in != asked.sign_in else []
    return found + (["the keys of the approvers"] if here.approver_keys != asked.approver_keys else [])


def decided_elsewhere(stored: StoredRequest, policy: CompiledPolicy, evidence: AnswerEvidence) -> str:
    """Return why this process does not decide an open request, in sentences; empty if it does."""
    if not stored.is_open or not (other := other_rules(stored.request, policy, evidence)):
        return ""
    return (
        "It is decided by a server with the rules under which it was asked. Here other ones are in force: "
        f"{', '.join(other)}. If no server has those of then any more, its requester withdraws it and asks again."
    )
