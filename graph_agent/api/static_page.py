"""The page: its files and the URLs of its views.

The files are built from `ui/` into the folder `page/` beside this module, which is not under version control.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from graph_agent.api.brand import DEFAULT_NAME, Brand
from graph_agent.api.launch_session import LaunchSession
from graph_agent.net.bearer_tokens import is_same

PAGE_FOLDER = Path(__file__).parent / "page"

_CHAT_REQUESTS = ("/api/conversations?limit=40", "/api/topology", "/api/about")
VIEWS: Mapping[str, tuple[str, ...]] = {
    "/": _CHAT_REQUESTS,
    "/chat": _CHAT_REQUESTS,
    "/chat/{conversation_id}": _CHAT_REQUESTS,
    "/inbox": (),
    "/inbox/{question_id}": (),
    "/decisions": ("/api/decisions?together=true&limit=50", "/api/about"),
    "/decisions/{decision_id}": ("/api/topology",),
    "/decisions/{decision_id}/rules": (),
    "/lab": (),
    "/lab/{decision_id}": (),
    "/behavior": (),
    "/help": (),
    "/signed-in": (),
}
"""The URLs of the page, and the first requests of each view. All return the same document, whose script shows the view.

The browser sends these requests before it has the script, while the script is loaded.
"""

PAGE_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind} 'self'" for kind in ("script-src", "style-src", "connect-src", "img-src")),
        *(f"{kind} 'none'" for kind in ("base-uri", "form-action", "frame-ancestors")),
        "require-trusted-types-for 'script'",
    ]
)
"""The Content-Security-Policy of the page: no inline code, no eval, no other origin, and no HTML from strings."""

_FIRST_PARTS = frozenset({"page", *(view.split("/")[1] for view in VIEWS)})
_PARTS_WITHOUT_VIEWS = frozenset({"api", "page"})
_DOCUMENT = "index.html"
_MARKS = re.compile(rb"SIGN-IN|ROOT|graph_agent|page/icon\.png")
_DRAWN_LOGO = re.compile(rb"<svg.*?</svg>", re.DOTALL)
_NAMED_BY_CONTENT = re.compile(r".+-[A-Z0-9]{8}\.(js|css)")
_FOREVER = "public, max-age=31536000, immutable"
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""The encodings in which the build stores files beside the plain ones, the smallest first."""
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".png": "image/png", ".svg": "image/svg+xml"}


SignInWay = Literal["link", "oidc", "bearer"]
"""The way in which users sign in: by the link that `serve` prints, at an OpenID Connect issuer, or with a bearer token."""


@dataclass(frozen=True, slots=True)
class Page:
    """The built page."""

    files: Mapping[str, bytes]
    name: str = DEFAULT_NAME
    icon: str = "page/icon.png"

    def branded(self, brand: Brand) -> Page:
        """Return the page with another name and logo."""
        if brand.logo is None:
            return Page(self.files, brand.name)
        file, content = brand.logo
        image = f'<img src="ROOT/page/{file}" alt="">'.encode()
        document = _DRAWN_LOGO.sub(image, self.files[_DOCUMENT]).replace(b'data-logo=""', f'data-logo="/page/{file}"'.encode())
        return Page({**self.files, file: content, _DOCUMENT: document}, brand.name, f"page/{file}")

    def document(self, way: SignInWay, root: str) -> bytes:
        """Return the HTML document, which says how to sign in, and from which `root` it loads its files."""
        texts = {b"SIGN-IN": way, b"ROOT": root, b"graph_agent": self.name, b"page/icon.png": self.icon}
        # All at once: a name may contain another mark.
        return _MARKS.sub(lambda found: escape(texts[found[0]]).encode(), self.files[_DOCUMENT])

    def encoded(self, name: str, accepted: str) -> tuple[str | None, bytes]:
        """Return a file as the build compressed it, with its encoding, or as it is.

        `accepted` is the Accept-Encoding header. An encoding with a weight is not used: browsers send none.
        """
        names = {part.strip() for part in accepted.split(",")}
        for encoding, suffix in _ENCODINGS.items():
            if encoding in names and name + suffix in self.files:
                return encoding, self.files[name + suffix]
        return None, self.files[name]


def read_page() -> Page | None:
    """Return the page; None if it has not been built."""
    if not is_built():
        return None
    return Page({path.name: path.read_bytes() for path in PAGE_FOLDER.iterdir() if path.is_file()})


def is_built() -> bool:
    """True if the page has been built."""
    return (PAGE_FOLDER / _DOCUMENT).is_file()


def is_page_request(request: Request) -> bool:
    """True for the document and the files of the page, which are the same for everybody."""
    return request.scope["path"].removeprefix("/").partition("/")[0] in _FIRST_PARTS


def path_to_root(request: Request) -> str:
    """Return the relative path from the address of a request to the root of this server, such as `..` for `/chat/4b`.

    A proxy may serve this server under a path of its host, and need not say so: relative addresses are right in any case.
    """
    depth = request.scope["raw_path"].count(b"/") - 1
    return "/".join([".."] * depth) or "."


def document_response(page: Page, way: SignInWay, request: Request, status: int = 200) -> Response:
    """Return the document of the page, whose script shows the view of the address."""
    headers = {"Content-Security-Policy": PAGE_POLICY}
    return Response(page.document(way, path_to_root(request)), status, headers, "text/html")


def wants_document(request: Request) -> bool:
    """True if a browser opens an address that is none of the API or of a file: the page then says what is wrong with it."""
    part = request.scope["path"].removeprefix("/").partition("/")[0]
    is_opened = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    return is_opened and part not in _PARTS_WITHOUT_VIEWS


def page_router(page: Page, way: SignInWay, session: LaunchSession | None = None) -> APIRouter:
    """Return the routes of the page: one document for every view, and its files under `/page/`.

    With a `session` the link that `serve` prints signs a browser in.
    """
    router = APIRouter(include_in_schema=False)

    def add_view(path: str, requests: tuple[str, ...]) -> None:
        async def view(request: Request) -> Response:
            if session is not None and is_same(request.query_params.get("token", ""), session.token):
                # The redirect removes the token from the address bar.
                redirect = RedirectResponse(f"./{request.url.path.rpartition('/')[2]}", status_code=303)
                session.sign_in(request, redirect)
                return redirect
            # A view with a query, such as a filtered list, sends other requests; without the session they would be refused.
            # With a bearer token the browser cannot send them early: only the script of the page has the token.
            is_plain = not request.query_params and session is not None and session.has_cookie(request)
            answer = document_response(page, way, request)
            if requests and is_plain:
                root = path_to_root(request)
                answer.headers["Link"] = ", ".join(_preload(root + one) for one in requests)
            return answer

        router.add_api_route(path, view, methods=["GET", "HEAD"])

    for path, requests in VIEWS.items():
        add_view(path, requests)

    @router.get("/page/{name}")
    async def file(request: Request, name: str) -> Response:
        media_type = _MEDIA_TYPES.get(Path(name).suffix)
        if name not in page.files or media_type is None:
            raise HTTPException(404)
        encoding, content = page.encoded(name, request.headers.get("accept-encoding", ""))
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"Cache-Control": _FOREVER if _NAMED_BY_CONTENT.fullmatch(name) else "no-cache", "ETag": tag}
        headers["Vary"] = "Accept-Encoding"
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        return Response(content, media_type=media_type, headers=headers)

    return router


def _preload(request: str) -> str:
    return f"<{request}>; rel=preload; as=fetch; crossorigin"


def description_router() -> APIRouter:
    """Return the route `/` of a server without the page: the API's routes as JSON."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def description(request: Request) -> JSONResponse:
        document = request.app.openapi()
        routes = [
            {"method": method.upper(), "path": path, "summary": operation.get("description", "").partition("\n")[0]}
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        ]
        return JSONResponse({"title": document["info"]["title"], "openapi": "/openapi.json", "routes": routes})

    return router
