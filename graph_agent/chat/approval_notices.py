"""Notices about approval requests, posted to a webhook of the operator: requested, a reminder at half time, closed.

They are Standard Webhooks: the same id for each try, a time, and an HMAC of both with the body. A notice has no text of the
request unless the operator wants it, and nothing that approves it. It is sent at least once, and given up after two days.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from graph_agent.chat.approval_view import state_of
from graph_agent.chat.conversations.approvals import ApprovalStore, StoredRequest
from graph_agent.chat.conversations.tables import NoticeKind
from graph_agent.errors import ServiceError
from graph_agent.models.approval import ApprovalState
from graph_agent.models.canonical import canonical_json
from graph_agent.ports import Clock

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_SEND_SECONDS = 10.0
_MAX_ANSWER_BYTES = 64 * 1024
_FIRST_RETRY = timedelta(seconds=5)
_MAX_TRIES = 15
"""The waits double up to six hours, so that a notice is tried for about two days."""


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
    """Sends the notices that are due, one after the other."""

    def __init__(self, requests: ApprovalStore, webhook: Webhook, clock: Clock) -> None:
        self._requests = requests
        self._webhook = webhook
        self._clock = clock
        self.deliveries: Counter[str] = Counter(sent=0, failed=0)
        """The numbers of tries that were "sent" and that "failed"."""

    async def send_forever(self) -> None:
        """Send what is due, again and again."""
        while True:
            try:
                while await self.send_one():
                    pass
            except ServiceError as exc:
                _log.warning("notices are sent later: %s", exc.code)
            except Exception:
                _log.exception("a notice could not be sent")
            await asyncio.sleep(POLL_SECONDS)

    async def send_one(self) -> bool:
        """Send one notice that is due; False if there is none."""
        taken = await self._requests.take_notice(timedelta(seconds=2 * _SEND_SECONDS))
        if taken is None:
            return False
        stored, kind, tries = taken
        if kind is NoticeKind.REMINDER and state_of(stored) is not ApprovalState.OPEN:
            await self._requests.sent(stored, kind, None)
            return True
        if await self._post(stored, kind):
            self.deliveries["sent"] += 1
            action = stored.request.action
            half = action.created_at + (action.expires_at - action.created_at) / 2
            await self._requests.sent(stored, kind, half if kind is NoticeKind.REQUESTED else None)
            return True
        self.deliveries["failed"] += 1
        if tries + 1 >= _MAX_TRIES:
            await self._requests.sent(stored, kind, None)
        else:
            wait = min(_FIRST_RETRY * 2 ** min(tries, 20), timedelta(hours=6))
            await self._requests.postpone(stored, kind, wait)
        return True

    async def _post(self, stored: StoredRequest, kind: NoticeKind) -> bool:
        body = canonical_json(self._body(stored, kind)).encode()
        notice_id, sent_at = f"{stored.request.id}.{kind}", str(round(self._clock.now().timestamp()))
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
            return False
        if not 200 <= status < 300:
            _log.warning("the notice %s was not taken: status %d", notice_id, status)
        return 200 <= status < 300

    def _body(self, stored: StoredRequest, kind: NoticeKind) -> dict[str, object]:
        request, action = stored.request, stored.request.action
        data: dict[str, object] = {
            "id": request.id,
            "state": str(state_of(stored)),
            "tool": action.tool_name,
            "roles": list(request.roles),
            "expires_at": action.expires_at.isoformat(),
            "digest": request.digest,
            "link": f"{self._webhook.page}/approvals/{request.id}" if self._webhook.page else None,
        }
        if self._webhook.texts:
            data |= {"description": action.description, "requester": request.user_id, "rules": list(request.rules)}
        return {"type": f"approval.{kind}", "timestamp": self._clock.now().isoformat(), "data": data}
