"""The log for everyone (c2sp.org/tlog-tiles): the signed checkpoint, tiles and leaves. They contain nothing personal."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from starlette.responses import PlainTextResponse, Response

from graph_agent.api.bodies import errors
from graph_agent.api.services import services
from graph_agent.record.statements import read
from graph_agent.record.tree.reading import TILE, read_entries, read_head, read_tile

router = APIRouter(tags=["log"])

_LEVEL = "^(entries|[0-9]{1,2})$"
# The number of a leaf must fit a column.
_NUMBER = re.compile(r"(?P<n>(x[0-9]{3}/){0,4}[0-9]{3})(\.p/(?P<width>[0-9]{1,3}))?")
_TEXT = {"content": {"text/plain": {"schema": {"type": "string"}}}}
_BINARY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


@router.get("/checkpoint", response_class=PlainTextResponse, responses={200: _TEXT, **errors(403, 404, 503)})
async def checkpoint(request: Request) -> PlainTextResponse:
    """Return the signed checkpoint of the log."""
    head = await read(services(request).runtime.database, read_head)
    if head is None:
        raise HTTPException(404)
    return PlainTextResponse(head.note, headers={"Cache-Control": "no-store"})


@router.get("/tile/{level}/{path:path}", response_class=Response, responses={200: _BINARY, **errors(403, 404, 422, 503)})
async def tile(request: Request, level: Annotated[str, Path(pattern=_LEVEL)], path: str) -> Response:
    """Return a tile of a level, or of leaves: the path is its number, followed by .p/WIDTH if the tile is not full."""
    parts = _NUMBER.fullmatch(path)
    width = int(parts["width"] or TILE) if parts is not None else 0
    if parts is None or not 0 < width <= TILE:
        raise HTTPException(404)
    n = int(parts["n"].replace("x", "").replace("/", ""))
    entries = level == "entries"
    stored = partial(read_entries, n=n, width=width) if entries else partial(read_tile, level=int(level), n=n, width=width)
    found = await read(services(request).runtime.database, stored)
    if len(found) != width:
        raise HTTPException(404)
    content = [len(each).to_bytes(2, "big") + each for each in found] if entries else found
    immutable = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(b"".join(content), media_type="application/octet-stream", headers=immutable)
