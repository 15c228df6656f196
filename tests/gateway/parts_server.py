"""An MCP server over stdio whose answers have parts of every kind. Run as a script."""

from __future__ import annotations

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    CONNECTION_CLOSED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

server = MCPServer("parts", log_level="ERROR")

LINK = ResourceLink(type="resource_link", uri="notes://today", name="today", mime_type="text/plain")
PDF = BlobResourceContents(uri="file:///a.pdf", mime_type="application/pdf", blob="JVBERg==")
PARTS: dict[str, list[ContentBlock]] = {
    "link": [LINK],
    "torn": [ResourceLink(type="resource_link", uri="notes://torn", name="torn")],
    "audio": [AudioContent(type="audio", data="aGk=", mime_type="audio/wav")],
    "pdf": [EmbeddedResource(type="resource", resource=PDF)],
    "image": [TextContent(type="text", text="a cat"), ImageContent(type="image", data="aGk=", mime_type="image/png")],
    "text": [TextContent(type="text", text="only text")],
    "long": [TextContent(type="text", text="x" * 50_000)],
    "huge": [
        TextContent(type="text", text="short"),
        ImageContent(type="image", data="aGk=" * 2_000_000, mime_type="image/png"),
    ],
}
SERVED: list[str] = []
"""The prompts and resources that were asked for."""


@server.tool()
async def served() -> list[str]:
    return SERVED


@server.tool()
async def show(what: str) -> CallToolResult:
    return CallToolResult(content=list(PARTS[what]))


@server.tool()
async def structured() -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text='{"n": 1}'), LINK], structured_content={"n": 1})


@server.tool()
async def fails() -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text="no"), LINK], is_error=True)


@server.tool()
async def works(context: Context) -> str:
    for done in (1, 2, 3):
        await context.report_progress(done, 3, f"step {done}")
    return "done"


@server.tool()
async def keep(text: str) -> str:
    return f"kept {text}"


@server.prompt(title="Review a note")
async def review(name: str) -> str:
    SERVED.append("review")
    if name == "none":
        raise ValueError("there is no note 'none'")
    return f"Review the note {name}."


@server.prompt()
async def long(characters: str) -> str:
    return "x" * int(characters)


@server.prompt()
async def fails_as_closed() -> str:
    # What an SDK reports as its own end of the connection.
    raise MCPError(CONNECTION_CLOSED, f"Connection closed\n{'!' * 5_000}")


@server.prompt()
async def hidden() -> str:
    return "not named by the constitution"


@server.resource("notes://today")
async def today() -> str:
    SERVED.append("today")
    return "buy milk"


@server.resource("notes://torn")
async def torn() -> str:
    raise ValueError("the page is torn")


@server.resource("notes://secret")
async def secret() -> str:
    return "not linked"


if __name__ == "__main__":
    server.run("stdio")
