"""A record to replay."""

from __future__ import annotations

import pytest

from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.replays.sources import LoadedRecord
from graph_agent.testing import says
from tests.scripted_turns import asks, engine_of


@pytest.fixture
async def recorded() -> LoadedRecord:
    """A turn that answers hello."""
    audit = MemoryAuditWriter()
    record = (await engine_of(says("hi"), audit=audit).run(asks("hello"))).record
    return LoadedRecord("hello", record, await audit.texts(list(record.header.digests.values())))
