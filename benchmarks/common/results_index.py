"""List of the result pages, and the question of each; the answer is the headline of the page.

    python -m benchmarks.common.results_index

writes benchmarks/results/README.md; a test compares it with the pages.
"""

from __future__ import annotations

import re

from benchmarks.common.results import RESULTS

__all__ = ["find_answer", "format_index", "main"]

QUESTIONS = {
    "training": "How well do models train with each system, and in how many bits?",
    "training_links": "How long do four hosts with slow links train until dense's loss + 2 %?",
    "momentum": "What does momentum cost on top of error feedback, and what one choice per bucket?",
    "local_delay": "How much of an exchange of local updates does a delay hide?",
    "scale": "Which system is the fastest for 4 to 1,024 ranks at 10 Mbit/s to 100 Gbit/s?",
    "step": "How long does a training step take with the hook for DDP, compared with torch's hooks?",
    "collectives": "How long do collectives take, compared with the byte limit and with MPI's own?",
    "sites": "How much do Sites save, compared with equal ranks?",
    "budget": "How large is the error of `budget`, compared with a grid of schemes, and what does it cost?",
    "movements": "What is the error of the messages of SparseLoCo, DeMo and Psyche at equal bits?",
    "patches": "How many bits does a changed weight take in a patch, and how fast are patches?",
    "feed": "How long after a trainer's step do servers behind slow links have its weights?",
    "files": "How long does it take to read one tensor of many from a file, compared with other formats?",
    "index": "How many bits do index codecs need, and how fast are they?",
    "value": "How many bits do value codecs need for an error, and how fast are they?",
    "codecs": "What does each codec of the format cost?",
    "select": "How long do selectors take, and how close to k is their count?",
    "whole_path": "How long do `encode`, `decode` and `decode_add` take as a whole?",
    "model": "How long do calls take on a model of many tensors, compared with one flat vector?",
    "cold": "How long does a process take to its first gradient, kernels compiled or loaded?",
    "gpu": "How long do kernels and steps take on a GPU?",
    "papers": "What do five papers report, and what do we measure?",
    "adacomp": "What is AdaComp's compression rate with its own error feedback?",
}
"""Pages in the order of a reader's interest, and their questions."""

_HEAD = """# Results

Each page answers one question. The answer is the page's first paragraph. It is the result of one machine,
which the page names. Most pages have targets, met or missed. [The benchmarks](../README.md) can be run again.

| page | question |
|---|---|
"""


_CITE = """
## To cite a result

- The version is that of [CITATION.cff](../../CITATION.cff), which also names the work.
- `git log -1 --format='%h %cs' -- benchmarks/results/PAGE.md` prints the commit and the day of a page.
- The rows of a page, with settings and seeds, are in the data files of the folder of its name, if any.
"""


def find_answer(page: str) -> str:
    """Return the headline of a page, in one line: the first paragraph or list that is not the machine.

    Raises:
        ValueError: the page has none.
    """
    for paragraph in page.split("\n\n")[1:]:
        lines = [line.removeprefix("- ").strip() for line in paragraph.strip().splitlines()]
        text = " ".join(lines)
        is_machine = re.search(r"\bcores?; Python \d", text)
        if text and not is_machine and text[0] not in "#!|":
            return text
    raise ValueError("the page has no headline")


def format_index() -> str:
    """Format the list of all pages.

    Raises:
        ValueError: a page has no headline.
    """
    for name in QUESTIONS:
        find_answer((RESULTS / f"{name}.md").read_text(encoding="utf-8"))
    return _HEAD + "".join(f"| [{name}]({name}.md) | {text} |\n" for name, text in QUESTIONS.items()) + _CITE


def main() -> None:
    """Write the list."""
    (RESULTS / "README.md").write_text(format_index(), encoding="utf-8")


if __name__ == "__main__":
    main()
