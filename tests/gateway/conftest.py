from __future__ import annotations

from tests.chat.conftest import clock, environment  # noqa: F401 (fixtures)
from tests.cli.conftest import cli, migrated_home  # noqa: F401 (fixtures)
from tests.mcp.conftest import notes, servers  # noqa: F401 (fixtures)
