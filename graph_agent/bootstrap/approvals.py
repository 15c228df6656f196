"""The approval requests of an installation, with the evidence that its answers need."""

from __future__ import annotations

from graph_agent.bootstrap.rule_settings import approver_keys_of
from graph_agent.bootstrap.secret import record_keys
from graph_agent.db import Database
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.question.approvals import ApprovalStore
from graph_agent.question.migrations.old_approvals import move_old_approvals
from graph_agent.settings import Settings


def evidence_of(settings: Settings) -> AnswerEvidence:
    """Return the evidence that answers need by these settings. Raises `ConfigurationError`."""
    return AnswerEvidence(sign_in=settings.authenticates, keys=approver_keys_of(settings))


def open_approvals(settings: Settings, database: Database, origin: str) -> ApprovalStore:
    """Return the store of approval requests; `origin` is that of the log. Raises `ConfigurationError`.

    The requests of a database of before are moved to it.
    """
    evidence = evidence_of(settings)
    move_old_approvals(database, record_keys(settings))
    notices = settings.webhook_url is not None
    return ApprovalStore(database, record_key=record_keys(settings), origin=origin, evidence=evidence, notices=notices)
