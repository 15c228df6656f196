"""A small OpenID Connect issuer on a loopback port: discovery, a sign-in page, the exchange of codes with PKCE, its keys."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

CLIENT = "the-page"
AUDIENCE = "graph-agent"


@dataclass
class Issuer:
    """The state of the issuer; a test may change what it answers."""

    url: str = ""
    user: str = "ann"
    metadata: dict[str, Any] = field(default_factory=dict)
    """Replaces fields of the discovery document."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Replaces claims of the access token."""
    tokens: dict[str, Any] | None = None
    """Replaces the answer of the token endpoint."""
    asked: list[str] = field(default_factory=list)
    """The paths of all requests."""
    exchanged: list[dict[str, str]] = field(default_factory=list)
    """The requests to exchange a token, with the credentials of the client."""
    refusal: tuple[int, bytes] | None = None
    """Replaces the answer to requests to exchange a token."""
    lifetime: Any = 600
    """The seconds for which an exchanged token is valid, as the answer says."""
    unknown_codes: threading.Event = field(default_factory=threading.Event)
    """Set unless a test lets the answers to unknown codes wait."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a server whose users sign in here."""
        return {
            "oidc_issuer": self.url,
            "oidc_client_id": CLIENT,
            "jwks_url": f"{self.url}/keys",
            "jwt_audience": AUDIENCE,
            "secret": SecretStr("signs confirmations and sessions"),
        }

    def document(self) -> dict[str, Any]:
        endpoints = {"authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token"}
        return {
            "issuer": self.url,
            **endpoints,
            "jwks_uri": f"{self.url}/keys",
            "scopes_supported": ["openid"],
            **self.metadata,
        }

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Return a code for a request that a public client with PKCE may make."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return code

    def exchange(self, sent: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code, which works once and only with its verifier; None otherwise."""
        asked = self._codes.pop(sent.get("code", ""), None)
        if asked is None:
            assert self.unknown_codes.wait(60)
        verifier = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        expected = {"grant_type": "authorization_code", "client_id": CLIENT}
        if asked is None or challenge != asked["code_challenge"] or not expected.items() <= sent.items():
            return None
        if sent.get("redirect_uri") != asked["redirect_uri"]:
            return None
        return {"access_token": self.token(), "token_type": "Bearer", "expires_in": 600} if self.tokens is None else self.tokens

    def exchange_token(self, sent: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return a token of the same user for another audience (RFC 8693); None for other requests."""
        client = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        self.exchanged.append({**sent, "client": client})
        asked = ("urn:ietf:params:oauth:token-type:access_token", "runtime:client-s3cret", "team")
        if (sent.get("subject_token_type"), client, sent.get("audience")) != asked:
            return None
        subject = jwt.decode(sent["subject_token"], self._key.public_key(), algorithms=["ES256"], audience=AUDIENCE)["sub"]
        token = f"{subject}-at-team-{len(self.exchanged)}"
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return {"access_token": token, "issued_token_type": kind, "token_type": "Bearer", "expires_in": self.lifetime}

    def token(self, **claims: Any) -> str:
        given = {"iss": self.url, "sub": self.user, "aud": AUDIENCE, "exp": int(time.time()) + 600, **self.claims, **claims}
        return jwt.encode(given, self._key, algorithm="ES256", headers={"kid": "one"})


@contextmanager
def oidc_issuer() -> Iterator[Issuer]:
    """Serve an issuer."""
    issuer = Issuer()
    issuer.unknown_codes.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            issuer.asked.append(url.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            match url.path:
                case "/.well-known/openid-configuration":
                    self._json(200, issuer.document())
                case "/keys":
                    self._json(200, issuer.keys())
                case "/authorize":
                    yes = urlencode({"code": issuer.authorize(query), "state": query["state"]})
                    no = urlencode({"error": "access_denied", "state": query["state"]})
                    links = [(f"Continue as {issuer.user}", yes), ("Cancel", no)]
                    to = query["redirect_uri"]
                    text = "".join(f'<p><a href="{escape(f"{to}?{answer}")}">{name}</a>' for name, answer in links)
                    page = f"<!doctype html><link rel=icon href=data:,><title>Issuer</title>{text}"
                    self._send(200, "text/html", page.encode())
                case _:
                    self._send(404, "text/plain", b"")

        def do_POST(self) -> None:
            issuer.asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            sent = {name: values[0] for name, values in parse_qs(body).items()}
            if sent.get("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange":
                tokens = issuer.exchange_token(sent, self.headers.get("Authorization", ""))
                if issuer.refusal is not None:
                    status, answer = issuer.refusal
                    self._send(status, "application/json", answer)
                    return
            else:
                tokens = issuer.exchange(sent)
            if tokens is None:
                self._json(400, {"error": "invalid_grant"})
            else:
                self._json(200, tokens)

        def _json(self, status: int, value: Any) -> None:
            self._send(status, "application/json", json.dumps(value).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield issuer
        server.shutdown()
        thread.join()
