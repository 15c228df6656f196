"""Notices about approval requests, posted to a webhook of the operator: requested, a reminder at half time, closed.

They are Standard Webhooks: the same id for each try, a time, and an HMAC of both with the body. A notice has no text of the
request unless the operator wants it, and nothing that approves it. It is due work, sent at least once, and given up after 15
tries.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from graph_agent.chat.question_view import state_of
from graph_agent.due.table import BackOff, DueWork, WorkKind
from graph_agent.due.worker import Again, DueHandler
from graph_agent.models.approval import ApprovalState
from graph_agent.models.canonical import canonical_json
from graph_agent.ports import Clock
from graph_agent.question.approvals import ApprovalStore, NoticeKind, StoredRequest, notice_key

_log = logging.getLogger(__name__)

_SEND_SECONDS = 10.0
_MAX_ANSWER_BYTES = 64 * 1024
_BACK_OFF = BackOff(timedelta(seconds=5), timedelta(hours=6), tries=15)
"""The waits double up to six hours, so that a notice is tried for most of a day."""
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address of the operator's program, and the key that signs what is posted to it."""

    url: str
    key: bytes
    texts: bool = False
    """True to send the description of the call and its requester."""
    page: str = ""
    """The public address of the page, for the link."""


class ApprovalNotices:
    """Sends the notices that are due."""

    def __init__(self, requests: ApprovalStore, webhook: Webhook, clock: Clock) -> None:
        self._requests = requests
        self._webhook = webhook
        self._clock = clock
        self.deliveries: Counter[str] = Counter(sent=0, failed=0)
        """The numbers of tries that were "sent" and that "failed"."""
        self.handler = DueHandler(WorkKind.NOTICE, self._send, slots=_AT_ONCE, back_off=_BACK_OFF)

    async def _send(self, work: DueWork) -> Again | None:
        request_id, _, kind = work.key.rpartition(".")
        stored = await self._requests.find(request_id)
        if stored is None or (kind == NoticeKind.REMINDER and state_of(stored) is not ApprovalState.OPEN):
            return None
        problem = await self._post(stored, NoticeKind(kind))
        self.deliveries["failed" if problem else "sent"] += 1
        return Again(_BACK_OFF, problem) if problem else None

    async def _post(self, stored: StoredRequest, kind: NoticeKind) -> str:
        """Post a notice; return why it was not taken, empty if it was."""
        body = canonical_json(self._body(stored, kind)).encode()
        notice_id, sent_at = notice_key(stored.request.id, kind), str(round(self._clock.now().timestamp()))
        signed = b".".join((notice_id.encode(), sent_at.encode(), body))
        signature = base64.b64encode(hmac.new(self._webhook.key, signed, sha256).digest()).decode()
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice_id,
            "webhook-timestamp": sent_at,
            "webhook-signature": f"v1,{signature}",
        }
        # Imported here, because most installations have no webhook, and the client takes a tenth of a second.
        import httpx2

        from graph_agent.net.connections import fetch

        try:
            url, seconds = self._webhook.url, _SEND_SECONDS
            status, _ = await fetch(url, seconds=seconds, max_bytes=_MAX_ANSWER_BYTES, content=body, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            _log.warning("the notice %s was not taken: %s", notice_id, type(exc).__name__)
            return f"the webhook was not reached: {type(exc).__name__}"
        if not 200 <= status < 300:
            _log.warning("the notice %s was not taken: status %d", notice_id, status)
            return f"the webhook answered with status {status}"
        return ""

    def _body(self, stored: StoredRequest, kind: NoticeKind) -> dict[str, object]:
        request, action = stored.request, stored.request.action
        data: dict[str, object] = {
            "id": request.id,
            "state": str(state_of(stored)),
            "tool": action.tool_name,
            "roles": list(request.roles),
            "expires_at": action.expires_at.isoformat(),
            "digest": request.digest,
            "link": f"{self._webhook.page}/inbox/{request.id}" if self._webhook.page else None,
        }
        if self._webhook.texts:
            data |= {"description": action.description, "requester": request.user_id, "rules": list(request.rules)}
        return {"type": f"approval.{kind}", "timestamp": self._clock.now().isoformat(), "data": data}
