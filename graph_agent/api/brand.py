"""The name and the logo that the page shows instead of ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

DEFAULT_NAME = "graph_agent"
MAX_LOGO_BYTES = 256 * 1024
_SIGNATURES = {".png": (b"\x89PNG\r\n\x1a\n",), ".svg": (b"<svg", b"<?xml", b"<!--")}
"""The first bytes of the files. A browser runs no script of an SVG that is shown as an image."""


@dataclass(frozen=True, slots=True)
class Brand:
    """The name of the page, and its logo as a file name with its content; without a logo the page draws its own."""

    name: str = DEFAULT_NAME
    logo: tuple[str, bytes] | None = None

    @classmethod
    def of(cls, settings: Settings) -> Brand:
        """Return the brand that the settings name. Raises `ConfigurationError` for a logo that cannot be shown."""
        logo = None if settings.page_logo is None else _read_logo(settings.page_logo)
        return cls(settings.page_name or DEFAULT_NAME, logo)


def _read_logo(path: Path) -> tuple[str, bytes]:
    suffix = path.suffix.lower()
    try:
        content = path.expanduser().read_bytes()
    except OSError as exc:
        raise ConfigurationError(f"the logo of the page {path} cannot be read") from exc
    if not content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(_SIGNATURES.get(suffix, ())) or len(content) > MAX_LOGO_BYTES:
        raise ConfigurationError(f"the logo of the page {path} is no PNG or SVG file of at most {MAX_LOGO_BYTES // 1024} KB")
    return f"logo{suffix}", content
