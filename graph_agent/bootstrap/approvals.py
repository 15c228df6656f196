"""The approval requests of an installation, with the evidence that its answers need."""

from __future__ import annotations

from graph_agent.bootstrap.secret import record_keys
from graph_agent.db import Database
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.approval_signature import read_approver_keys
from graph_agent.question.approvals import ApprovalStore
from graph_agent.question.migrations.old_approvals import move_old_approvals
from graph_agent.settings import Settings


def open_approvals(settings: Settings, database: Database, origin: str) -> ApprovalStore:
    """Return the store of approval requests; `origin` is that of the log. Raises `ConfigurationError`.

    The requests of a database of before are moved to it.
    """
    keys = None if settings.approver_keys is None else read_approver_keys(settings.approver_keys)
    evidence = AnswerEvidence(sign_in=settings.authenticates, keys=keys)
    move_old_approvals(database, record_keys(settings))
    notices = settings.webhook_url is not None
    return ApprovalStore(database, record_key=record_keys(settings), origin=origin, evidence=evidence, notices=notices)
