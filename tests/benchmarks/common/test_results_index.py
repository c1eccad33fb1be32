"""The list of the result pages has every page, and every page has an answer."""

from __future__ import annotations

from benchmarks.common.results import RESULTS
from benchmarks.common.results_index import QUESTIONS, find_answer, format_index


def test_the_list_is_that_of_the_pages() -> None:
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README"}
    assert set(QUESTIONS) == pages
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert text == format_index(), "python -m benchmarks.common.results_index writes it"


def test_a_headline_may_be_a_list_and_comes_after_the_machine() -> None:
    head = "# Title\n\nAMD, 2 cores; Python 3.11.7, NumPy 2\n\n![p](p.png)\n\n"
    assert find_answer(f"{head}- a: one | two.\n- b:\n  three.\n\nMore.") == "a: one | two. b: three."
    assert find_answer("# Title\n\nThe answer\nis this.\n") == "The answer is this."
