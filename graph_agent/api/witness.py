"""The HTTP side of a witness: c2sp.org/tlog-witness."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from graph_agent.api.bodies import read_body
from graph_agent.errors import ServiceError
from graph_agent.tlog.witness import MAX_REQUEST_BYTES, SIZE_TYPE, RefusedError, SizeConflictError, Witness


def witness_app(witness: Witness) -> Starlette:
    """Return the application of a witness. Requests need no authentication but the log's signature."""

    async def add_checkpoint(request: Request) -> PlainTextResponse:
        try:
            return PlainTextResponse(await witness.add_checkpoint(await read_body(request, MAX_REQUEST_BYTES)))
        except ServiceError as exc:
            return PlainTextResponse(f"{exc.message}\n", 413)
        except RefusedError as exc:
            media_type = SIZE_TYPE if isinstance(exc, SizeConflictError) else None
            return PlainTextResponse(f"{exc}\n", exc.status, media_type=media_type)

    async def latest(request: Request) -> PlainTextResponse:
        note = await witness.latest(request.path_params["digest"])
        return PlainTextResponse("no checkpoint of this log was seen\n", 404) if note is None else PlainTextResponse(note)

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{digest}/checkpoint", latest, methods=["GET"]),
        ]
    )
