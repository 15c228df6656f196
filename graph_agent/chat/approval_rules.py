"""The rules under which an approval request was asked: its call is made only if they and those of this process permit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graph_agent.chat.closed_records import load_closed
from graph_agent.errors import ConfigurationError, RecordUnavailableError, service_unavailable
from graph_agent.models.canonical import digest
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.compiled import ONE_SERVER, CompiledPolicy
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.question.approvals import ApprovalStore, StoredRequest

if TYPE_CHECKING:
    # Only named in a signature: it imports LangGraph, which commands of an administrator do not need.
    from graph_agent.turn.engine import LLMAgentEngine

_FILES = {"constitution": "the constitution", "conditions": "the conditions, their roles or their time zone"}
_NOT_KEPT = "the decision in which it was asked is not kept any more"
_OTHER_EVIDENCE = "only a server with that sign-in and those keys knows which answers count"
_KEPT = 16
_UNREADABLE = "the earlier rules cannot be read from the record of the decision in which it was asked"


@dataclass(frozen=True, slots=True)
class AskedRules:
    """The rules under which a request was asked, as a process that may have others knows them."""

    others: tuple[CompiledPolicy, ...] = ()
    """Rules that this process does not have: each of them has to permit the call, too. A renewed request may have several."""
    left: str = ""
    """Why this process cannot say what they permit, and leaves the request, as a clause; empty if it can."""


class AskingRules:
    """Rebuilds the rules under which requests were asked, from the records of the decisions that asked."""

    def __init__(self, engine: LLMAgentEngine, requests: ApprovalStore) -> None:
        self._engine = engine
        self._requests = requests
        self._rebuilt: dict[str, PolicySnapshot] = {}
        """The last ones that were rebuilt, by their digests: to compile rules takes milliseconds."""

    async def of(self, request: ApprovalRequest, current: PolicySnapshot) -> AskedRules:
        """Return the rules of a request, and of those that it renews: a renewal does not lower what the first one needs."""
        policy = current.policy
        if other_evidence(request, self._requests.evidence):
            return AskedRules(left=_OTHER_EVIDENCE)
        if not request.renewals and not policy.differences(request.action.asked_under):
            return AskedRules()
        found: list[CompiledPolicy] = []
        asked: ApprovalRequest | None = request
        while asked is not None:
            record = await load_closed(self._engine.audit, asked.decision_id)
            if record is None:
                return AskedRules(left=_NOT_KEPT)
            snapshot = await self._snapshot(record, asked)
            if snapshot is None:
                return AskedRules(left=_UNREADABLE)
            if difference := _incomparable(asked.action.tool_name, snapshot, current):
                return AskedRules(left=difference)
            if policy.differences(asked.action.asked_under) and snapshot.policy not in found:
                found.append(snapshot.policy)
            renewals, asked = asked.renewals, await self._renewed(record, asked)
            if renewals and asked is None:
                return AskedRules(left=_NOT_KEPT)
        return AskedRules(tuple(found))

    async def _renewed(self, record: DecisionRecord, request: ApprovalRequest) -> ApprovalRequest | None:
        """Return the request that another one renews, as it is stored: the record names it, and its row has a MAC."""
        closed = record.header.context.approval
        stored = None if closed is None else await self._requests.find(closed.request.id)
        if stored is None or stored.request.renewals + 1 != request.renewals:
            return None
        return stored.request if stored.request.call_digest == request.call_digest else None

    async def _snapshot(self, record: DecisionRecord, asked: ApprovalRequest) -> PolicySnapshot | None:
        """Return the rules of a decision; None if they cannot be rebuilt, or are not those that its request names."""
        key = digest(record.header.digests)
        if (snapshot := self._rebuilt.get(key)) is None:
            try:
                snapshot = await self._engine.snapshot_of(record.header)
            except RecordUnavailableError as exc:
                raise service_unavailable() from exc
            except (ConfigurationError, LookupError, ValueError):
                return None
            if len(self._rebuilt) == _KEPT:
                self._rebuilt.pop(next(iter(self._rebuilt)))
            self._rebuilt[key] = snapshot
        differs = snapshot.policy.differences(asked.action.asked_under)
        return None if differs or asked.action.tool_name not in snapshot.policy.rules else snapshot


def other_rules(request: ApprovalRequest, policy: CompiledPolicy, evidence: AnswerEvidence) -> list[str]:
    """Return in words what differs here from the rules under which a request was asked; empty if nothing does."""
    found = [_FILES.get(name, f"the tool '{name}'") for name in policy.differences(request.action.asked_under)]
    return [*found, *other_evidence(request, evidence)]


def other_evidence(request: ApprovalRequest, evidence: AnswerEvidence) -> list[str]:
    """Return in words what answers need elsewhere: only a process with the same sign-in and keys knows which ones count."""
    here, asked = evidence.required, request.evidence
    found = ["the sign-in"] if here.sign_in != asked.sign_in else []
    return found + (["the keys of the approvers"] if here.approver_keys != asked.approver_keys else [])


def decided_elsewhere(stored: StoredRequest, asked: AskedRules, named: Sequence[str], refusal: str) -> str:
    """Return why this process does not decide an open request, in sentences; empty if it does.

    `named` are the rules that differ here, and `refusal` is the reason for which those of this process do not permit the call.
    """
    if not stored.is_open or not (asked.left or (asked.others and refusal)):
        return ""
    why = f"and it cannot be decided here: {asked.left}" if asked.left else f"and they do not permit it: {refusal}"
    return (
        "It is decided by a server with the rules under which it was asked. Here other ones are in force "
        f"({', '.join(named) or 'those of a request that it renews'}), {why}. If no server has the earlier ones any more, its "
        "requester withdraws it and asks again."
    )


def _incomparable(tool: str, asked: PolicySnapshot, current: PolicySnapshot) -> str:
    """Return what differs so that the older rules say nothing about a call that this process would make, as a clause."""
    if asked.gates != current.gates:
        return "its gates were others"
    then, now = asked.policy.rules[tool], current.policy.rules.get(tool)
    # Without its rule now, the call is refused.
    if now is not None and now.definition_json() != then.definition_json():
        return f"the definition of the tool '{tool}' was another one"
    conditions = asked.policy.conditions
    if conditions is None:
        return ""
    if current.policy.conditions is not None and _server(tool, current.policy.servers) != _server(tool, asked.policy.servers):
        return f"the server of the tool '{tool}' was another one"
    return "the earlier rules count what calls use" if conditions.counts(tool) else ""


def _server(tool: str, servers: Mapping[str, str]) -> str:
    return servers.get(tool, ONE_SERVER)
