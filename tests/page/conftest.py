"""Fixtures for the tests of the page. Those in a browser skip where there is no Chromium or no built page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from graph_agent.api.static_page import read_page
from tests import fork_server
from tests.page.site import CHROMIUM, Site, chromium, open_site


# For a module, not for the session: while it runs, its thread has a running event loop, and async tests could not start theirs.
@pytest.fixture(scope="module")
def browser(template: Path) -> Iterator[Browser]:  # noqa: ARG001 (it must be made before the event loop of the browser runs)
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on the PATH")
    if read_page() is None:
        pytest.skip("the page is not built, because its packages cannot be fetched")
    with fork_server.quick_processes(), chromium() as browser:
        yield browser


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    """A server with the embedded model."""
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime()) as site:
        yield site
