from __future__ import annotations

from tests.chat.conftest import environment  # noqa: F401 (fixtures)
from tests.cli.conftest import cli  # noqa: F401 (fixtures)
from tests.mcp.conftest import notes, servers  # noqa: F401 (fixtures)
