"""`make docs`: write the reference from the code, and build the site into build/docs/site."""

from __future__ import annotations

import asyncio
import sys

from tests.documentation import reference
from tests.documentation.site import ROOT, build, page_sources


def main() -> int:
    folder = ROOT / "build" / "docs"
    written = asyncio.run(reference.pages())
    good, report = build(folder, written)
    if not good:
        print(report, file=sys.stderr)
        return 1
    print(f"docs: {len(page_sources()) + len(written)} pages in {(folder / 'site').relative_to(ROOT)}, no warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
