"""The cookies of a browser that has signed in, or is about to."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from graph_agent.api.public_address import public_address


@dataclass(frozen=True, slots=True)
class BrowserCookie:
    """A cookie that this server sets and reads."""

    purpose: str

    def read(self, request: Request) -> str:
        """Return the value; without the cookie it is empty."""
        return request.cookies.get(self._name(request), "")

    def set(self, request: Request, answer: Response, value: str, seconds: int | None = None) -> None:
        """Set the cookie for so many seconds, or until the browser is closed."""
        # TLS ends at a proxy. A browser says by Origin what it has used; requests without a body have no Origin.
        addresses = (str(request.url), request.headers.get("origin", ""), public_address(request).url)
        encrypted = any(address.startswith("https:") for address in addresses)
        answer.set_cookie(
            self._name(request),
            value,
            seconds,
            path=public_address(request).root,
            httponly=True,
            samesite="strict",
            secure=encrypted,
        )

    def delete(self, request: Request, answer: Response) -> None:
        answer.delete_cookie(self._name(request), public_address(request).root, httponly=True, samesite="strict")

    def _name(self, request: Request) -> str:
        """Return the name of the cookie. It contains the port, because the ports of a host share their cookies."""
        port = request.headers.get("host", "").rpartition(":")[2]
        return f"graph_agent_{self.purpose}{f'_{port}' if port.isdecimal() else ''}"


SESSION = BrowserCookie("session")
SIGN_IN = BrowserCookie("sign_in")
USER_TOKEN = BrowserCookie("user_token")
