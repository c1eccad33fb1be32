"""The list of the result pages has every page, and every page has an answer."""

from __future__ import annotations

import re

from benchmarks.common.results import RESULTS


def find_answer(page: str) -> str:
    """Return the first paragraph or list that is not the machine."""
    for paragraph in page.split("\n\n")[1:]:
        text = " ".join(line.removeprefix("- ").strip() for line in paragraph.strip().splitlines())
        if text and text[0] not in "#!|" and not re.search(r"\bcores?; Python \d", text):
            return text
    return ""


def test_every_page_is_listed_and_has_an_answer() -> None:
    listed = re.findall(
        r"(?m)^\| \[(\w+)\]\(\1\.md\) \| .+\? \|$", (RESULTS / "README.md").read_text("utf-8")
    )
    assert sorted(listed) == sorted(path.stem for path in RESULTS.glob("*.md") if path.stem != "README")
    for name in listed:
        assert find_answer((RESULTS / f"{name}.md").read_text("utf-8")), name
