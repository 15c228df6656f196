"""The server that the conformance scenarios call, on the task server's transport code. Run as a module: prints its URL.

Tools and resources only: the task server has nothing else, and expected-failures.yaml says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    JSONRPCMessage,
    TextContent,
    TextResourceContents,
    Tool,
)

from graph_agent.api.server import HttpServerConfig, Server
from graph_agent.cli.listening import open_listener
from graph_agent.net.mcp_http import local_app

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

NOTHING = {"type": "object", "properties": {}}
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
DRAFT_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def text(content: str) -> TextContent:
    return TextContent(type="text", text=content)


def image() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, content: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=content))


async def with_progress(context: Context[Any, Any]) -> list[ContentBlock]:
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
    return [text("done")]


async def after_reconnection(context: Context[Any, Any]) -> list[ContentBlock]:
    """Close the stream of the call before it has a result; the client polls for the result with a new one."""
    await context.close_sse_stream()
    await asyncio.sleep(0.2)
    return [text("The call was answered after the stream was closed.")]


BLOCKS: dict[str, list[ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource", "text/plain", "An embedded resource.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
    ],
    "json_schema_2020_12_tool": [text("The arguments are ignored.")],
}
RUNNING: dict[str, Callable[[Context[Any, Any]], Awaitable[list[ContentBlock]]]] = {
    "test_tool_with_progress": with_progress,
    "test_reconnection": after_reconnection,
}
FAILING = "test_error_handling"


class FixtureServer(MCPServer[Any]):
    """Lists and calls its tools as the task server does: with schemas of its own, and failures as errors of the tool."""

    async def list_tools(self) -> list[Tool]:
        names = [*BLOCKS, *RUNNING, FAILING]
        schemas = {"json_schema_2020_12_tool": DRAFT_2020_12}
        return [Tool(name=name, description=f"The tool {name}.", input_schema=schemas.get(name, NOTHING)) for name in names]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> CallToolResult:
        del arguments
        if name == FAILING:
            return CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)
        assert context is not None
        return CallToolResult(content=BLOCKS[name] if name in BLOCKS else await RUNNING[name](context))


def fixture_server() -> FixtureServer:
    server = FixtureServer("conformance-fixtures", log_level="ERROR", subscriptions=False)

    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://template/{name}/data", mime_type="application/json")
    def template(name: str) -> str:
        return json.dumps({"id": name, "templateTest": True, "data": f"Data for ID: {name}"})

    return server


class StoredEvents(EventStore):
    """Keeps the events of all streams in their order, so that a stream that was closed can be continued."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdigit() or int(last_event_id) >= len(self._events):
            return None
        last = int(last_event_id)
        stream_id, _ = self._events[last]
        for number, (stream, message) in enumerate(self._events):
            if number > last and stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


async def main() -> None:
    logging.disable()  # The SDK logs a traceback for every request of a feature that is not there.
    sessions = {"json_response": False, "event_store": StoredEvents(), "retry_interval": 100}
    app = local_app(fixture_server(), **sessions)
    with open_listener("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        config = HttpServerConfig(app, lifespan="on", timeout_graceful_shutdown=1)
        await Server(config, lambda: print(url, flush=True)).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
