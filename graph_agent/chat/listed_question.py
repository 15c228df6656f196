"""Questions as a list of the command line has them: everything that is stored, and nothing that the rules say about it now."""

from __future__ import annotations

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import ApprovalRequest
from graph_agent.question.confirmations import action_of
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.words.said import brief_of


class ListedQuestion(Frozen):
    """A question in a list: one to the requester for a yes, or one to others for their approval."""

    id: str
    asks: Asks
    digest: str
    """An answer names it: the digest of everything that was shown."""
    state: QuestionState
    requester: str
    conversation_id: str
    conversation_title: str
    """For a question to the requester: the title of its conversation."""
    decision_id: str
    closing_decision: str | None
    """The decision that closes it, once there is one."""
    tool: str
    """The tool of the first call."""
    description: str
    """The action as the requester's reply describes it."""
    brief: str
    """The action on one line."""
    roles: list[str]
    """The roles whose approvals are needed."""
    rules: list[str]
    created_at: UtcDatetime
    expires_at: UtcDatetime
    ended_at: UtcDatetime | None
    why: str
    """For a void request: the reason."""


def listed(question: StoredQuestion, title: str = "") -> ListedQuestion:
    """Return a question for a list, with the title of its conversation."""
    request = None if question.asks is Asks.REQUESTER else ApprovalRequest.model_validate(question.subject)
    action = action_of(question) if request is None else request.action
    return ListedQuestion(
        id=question.id,
        asks=question.asks,
        digest=question.digest,
        state=question.state_now,
        requester=question.user_id,
        conversation_id=question.conversation_id,
        conversation_title=title,
        decision_id=question.decision_id,
        closing_decision=question.closed_by,
        tool=action.tool_name,
        description=action.description,
        brief=brief_of(action),
        roles=[] if request is None else list(request.roles),
        rules=list(action.because if request is None else request.rules),
        created_at=question.opened_at,
        expires_at=question.expires_at,
        ended_at=question.ended_at,
        why=question.why,
    )
