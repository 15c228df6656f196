"""The session of the clients of a server without sign-in.

Such a server is for those who know its launch token: they send it, or the cookie of a browser that has opened the link with it.
Scripts cannot read the cookies of browsers, and requests that other sites make do not have them.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request
from starlette.responses import Response

from graph_agent.api.cookies import SESSION
from graph_agent.api.errors import service_error_response
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.net.bearer_tokens import bearer_token, is_same

_OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""The paths that need no token. `/metrics` is served on a separate port only."""


@dataclass(frozen=True, slots=True)
class LaunchSession:
    """The session of the clients that know the launch token.

    Every account of a machine reaches its loopback addresses, and so do the web pages that a browser shows. The token proves
    that a client acts for the account that started the server.
    """

    token: str = field(repr=False)

    def refuse(
        self,
        request: Request,
        open_to_all: Callable[[Request], bool] | None = None,
        instead: Callable[[Request], Response | None] = lambda _: None,
    ) -> Response | None:
        """Refuse a request that needs the token and does not have it. All routes need it but these and `open_to_all`.

        `instead` may answer a refused request otherwise than by the error.
        """
        if request.scope["path"] in _OPEN or (open_to_all is not None and open_to_all(request)):
            return None
        if self.has_cookie(request) or is_same(bearer_token(request.headers.get("authorization")), self.token):
            return None
        if (answer := instead(request)) is not None:
            return answer
        text = "Send the launch token, or open the page with the link that `graph-agent serve` printed."
        return service_error_response(ServiceError(ServiceErrorCode.UNAUTHENTICATED, text))

    def has_cookie(self, request: Request) -> bool:
        """True if the request comes from a browser that has opened the link."""
        return is_same(SESSION.read(request), self._cookie)

    def sign_in(self, request: Request, answer: Response) -> None:
        """Give the cookie to the browser that gets `answer`. It outlives a restart, as the token does."""
        SESSION.set(request, answer, self._cookie)

    @property
    def _cookie(self) -> str:
        # Not the token itself: browsers send cookies to all ports of a host.
        return hmac.digest(self.token.encode(), b"browser session", "sha256").hex()
