"""Markdown of a reply becomes elements of the page, and nothing that a model or a server writes becomes more than that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.page.screenshots import say
from tests.page.site import Site, open_site

RICH = """Here is the plan:

1. call **mom**
2. buy *milk* and `eggs`
   - at the corner

| what | when |
|---|---:|
| call | 5 |

```python
print("<b>hi</b>")
```

> Be quick.

See [the page](https://example.org/a?b=1) or https://example.org/."""
HOSTILE = """Look: ![pixel](https://evil.example/p.png) <img src="https://evil.example/q.png" onerror="alert(1)">

<script>alert(1)</script>

[run](javascript:alert(1)) [data](data:text/html,hi) [bank](https://bank.example@evil.example/) [here][r] # not a heading

[r]: https://evil.example/r "title"

AT&amp;T a < b && c \u202etxt"""
PLAIN = "Call mom at 5. It is 2 * 3 days away, snake_case_name stays."


@pytest.fixture
def site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    script = [says(RICH), says(HOSTILE), says(PLAIN)]
    with open_site(browser, tmp_path, template, lambda environment: environment.runtime(ScriptedAdapter(script))) as site:
        yield site


def texts(parts: Locator) -> list[str]:
    return [part.inner_text().strip() for part in parts.all()]


def test_a_reply_with_markdown_is_shown_formatted_and_never_as_html(site: Site) -> None:
    with site.page() as page:
        say(page, "what is the plan?")
        rich = page.locator(".message.assistant").last.locator(".formatted")
        expect(rich.locator("> ol > li")).to_have_count(2)
        assert rich.locator("ol").evaluate("list => getComputedStyle(list).listStyleType") == "decimal"
        assert texts(rich.locator("strong, em, p code, li code")) == ["mom", "milk", "eggs"]
        assert texts(rich.locator("li li")) == ["at the corner"]
        assert (texts(rich.locator("th")), texts(rich.locator("td"))) == (["what", "when"], ["call", "5"])
        assert texts(rich.locator("pre")) == ['print("<b>hi</b>")']
        assert texts(rich.locator("blockquote")) == ["Be quick."]
        links = rich.locator("a")
        assert [link.get_attribute("href") for link in links.all()] == ["https://example.org/a?b=1", "https://example.org/"]
        assert [link.get_attribute("rel") for link in links.all()] == ["noopener noreferrer nofollow"] * 2
        # The address stands beside a text that is not the address.
        assert texts(rich.locator(".address")) == ["(https://example.org/a?b=1)"]
        say(page, "show me more")
        hostile = page.locator(".message.assistant").last.locator(".formatted")
        expect(hostile).to_contain_text("<script>alert(1)</script>")
        assert hostile.locator("img, script, h1, h2, iframe, [onerror], [style]").count() == 0
        assert [link.get_attribute("href") for link in hostile.locator("a").all()] == ["https://evil.example/r"]
        assert texts(hostile.locator(".address")) == ["(https://evil.example/r)"]
        expect(hostile).to_contain_text("![pixel](https://evil.example/p.png) <img src=")
        expect(hostile).to_contain_text("[run](javascript:alert(1))")
        expect(hostile).to_contain_text("[bank](https://bank.example@evil.example/)")
        expect(hostile).to_contain_text("AT&T a < b && c ‹U+202E›txt")
        say(page, "and when?")
        plain = page.locator(".message.assistant").last.locator(".content")
        expect(plain).to_have_text(PLAIN)
        assert plain.locator("em").count() == 0
        page.locator(".message.assistant").first.get_by_role("link", name="Decision").click()
        expect(page.locator(".block .formatted th")).to_have_count(2)
