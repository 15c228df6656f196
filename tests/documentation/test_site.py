"""The documentation site: complete, without a warning, and nothing in it comes from another server."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt

from tests.documentation.blocks import blocks_of
from tests.documentation.checks import tree_of_exceptions
from tests.documentation.reference import pages
from tests.documentation.site import DOCS, LINK, ROOT, WRITTEN_FROM, build, page_sources

PAGES = page_sources()


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """The text of every page of the reference."""
    return asyncio.run(pages())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, reference: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("site")
    good, report = build(folder, reference)
    assert good, report
    return folder / "site"


class Loaded(HTMLParser):
    """Collects what a page loads by itself, and its content security policy."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video", "audio", "embed"}:
            self.addresses.append(given.get("src") or "")
        elif tag == "link" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.addresses.append(given.get("href") or "")
        elif tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given.get("content") or ""


@pytest.mark.slow
def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        loaded = Loaded(page.read_text(encoding="utf-8"))
        assert [address for address in loaded.addresses if re.match(r"(\w+:)?//", address)] == [], page
        # The script of the theme knows other servers, for features that are not used: the policy forbids them.
        assert loaded.policy.startswith("default-src 'self';"), page
        assert "//" not in loaded.policy
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_every_page_is_in_the_navigation_and_in_llms_txt() -> None:
    def leaves(entries: list[dict[str, object]]) -> Iterator[str]:
        for entry in entries:
            for value in entry.values():
                if isinstance(value, str):
                    yield value
                else:
                    yield from leaves(value)  # type: ignore[arg-type]  # a section is a list of entries

    navigation = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert sorted(leaves(navigation)) == sorted([*PAGES, *WRITTEN_FROM.values()])
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    linked = [(DOCS / link[1]).resolve() for link in LINK.finditer(text)]
    assert sorted(linked) == sorted([*PAGES.values(), *(ROOT / file for file in WRITTEN_FROM)])
    entries = re.findall(r"^- \[.+\]\(.+\): .+\.$", text, re.MULTILINE)
    assert len(entries) == len(linked), "an entry is a link and one sentence"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_what_its_reader_can_do_after_it(page: Path) -> None:
    _, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert first.startswith(("With this page ", "With the page ", "With this API ")), "say it in the first sentence"


def test_links_of_llms_txt_lead_to_the_markdown_of_the_site(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert [link[1] for link in LINK.finditer(text) if not (site / link[1]).is_file()] == []


def test_the_search_finds_a_word_of_every_part(site: Path) -> None:
    found = json.loads((site / "search.json").read_text(encoding="utf-8"))
    locations = {item["location"].partition("#")[0] for item in found["items"]}
    assert {"", "tutorial/", "reference/cli/", "threat_model/"} <= locations


def test_a_link_to_the_code_that_a_page_of_the_reference_is_written_from_leads_to_the_page(
    site: Path, reference: dict[str, str]
) -> None:
    assert sorted(WRITTEN_FROM.values()) == sorted(reference)
    assert [file for file in WRITTEN_FROM if not (ROOT / file).is_file()] == []
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert [link for link in WRITTEN_FROM.values() if f"]({link})" not in text] == []


def test_the_reference_shows_every_exception_at_its_place(reference: dict[str, str]) -> None:
    [block] = [block for name, text in reference.items() for block in blocks_of(name, text)]
    assert (block.page, block.text.strip()) == ("reference/outcomes.md", tree_of_exceptions())


@pytest.mark.parametrize("name", [*PAGES, *WRITTEN_FROM.values()])
def test_a_page_has_the_same_parts_in_the_site_as_in_other_renderers(name: str, reference: dict[str, str]) -> None:
    """Python-Markdown needs four blanks where CommonMark needs two; a list or a block would silently become text."""
    text = reference.get(name) or PAGES[name].read_text(encoding="utf-8")
    parts = re.compile(r"<(li|ol|ul|table|tr|pre|h[1-6]|img)\b")
    common = MarkdownIt("commonmark").enable("table").render(text)
    ours = markdown.markdown(text, extensions=["tables", "pymdownx.superfences"])
    assert Counter(parts.findall(ours)) == Counter(parts.findall(common))
