"""Tables and figures of the five papers: theirs and ours side by side.

Writes results/papers.md and its pictures. Figures about how a selection behaves during training use small
networks: the demo's, ResNet-20, an LSTM and embeddings. Other figures use the gradients of tests/data, or
refer to the benchmark that has them.

Each measurement is kept in the folder .parts beside the code. So an interrupted run goes on from there, and a
run after ``--only`` measures the rest. If the library or the measurements change, a run starts from nothing.

``--only`` takes names and figures, such as "DeepReduce: Figure 6b"; ``--list`` prints both. It prints each
result, and the paper's result beside ours if all measurements of that paper are there.

    python -m benchmarks.papers [--quick] [--only "NAME; NAME"] [--jobs N] [--fresh] [--redraw]
                                [--output FOLDER]
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence

import wirecodec as wc
from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, create_progress
from benchmarks.common.results import RESULTS, describe_machine
from benchmarks.papers.pages import adacomp as adacomp_page
from benchmarks.papers.pages import deepreduce as deepreduce_page
from benchmarks.papers.pages import fft as fft_page
from benchmarks.papers.pages import scalecom as scalecom_page
from benchmarks.papers.pages import sidco as sidco_page
from benchmarks.papers.pages.curves import list_curves, read_curves, write_curves
from benchmarks.papers.pages.measured import (
    choose_figures,
    format_measurement,
    list_complete,
    list_figures,
)
from benchmarks.papers.pages.table import Table, count_claims, format_answer, format_counts, write_table
from benchmarks.papers.parts import FOLDER, Store, run_missing
from benchmarks.papers.plan import QUICK, Results, Steps, collect, list_parts

__all__ = ["format_page", "list_tables", "main"]

MISSING = """torch is missing. A CPU build is sufficient:
    pip install torch
`make bench-papers` installs it into the project's virtual environment."""
JOBS = 2

INTRODUCTION = """Every table and figure of the five papers, and the main numbers of their texts. Models,
machines and data differ throughout, so only the shape of a result can agree. *Partly*: in part, in a weaker
form, by a reading or a formula of ours where the paper is silent, or by a fitted constant. *Undecided*: one
seed, whose noise may reverse it. *Not tried*: it needs GPUs, data that must be downloaded, or many seeds.

{counts}
[training.md](training.md) judges the papers' claims about training. Networks without another name are the
demo's: 272,586 parameters, handwritten digits. `make bench-papers` writes this page from one state of the
code, here wirecodec {version}.

- SIDCo: Abdelmoniem et al., MLSys 2021, arXiv 2101.10761.
- DeepReduce: Xu et al., arXiv 2102.03112, 2021; not the paper of NeurIPS 2021, a later text.
- FFT: Wang et al., FFT-based Gradient Sparsification, HPDC 2020.
- ScaleCom: Chen et al., NeurIPS 2020, arXiv 2104.11125.
- AdaComp: Chen et al., AAAI 2018, arXiv 1712.02679.

"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing; if everything is there, write the page with its pictures."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="few steps; only prints the page",
        only="only these, and print their results; names, figures, or parts of these, separated by ;",
        fresh=None,
        redraw="only draw the pictures whose points are in results/papers",
        output="write the page and pictures there",
    )
    parser.add_argument("--list", action="store_true", help="only print the names and figures of --only")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="processes, default %(default)s")
    options = parser.parse_args(arguments)
    if options.redraw:
        from benchmarks.papers.pages.curves_plot import draw_curves

        print(*draw_curves(options.output or RESULTS, read_curves(RESULTS / "papers")), sep="\n")
        return
    if importlib.util.find_spec("torch") is None:
        sys.exit(MISSING)
    steps = QUICK if options.quick else Steps()
    parts = list_parts(steps)
    if options.list:
        width = max(len(part.name) for part in parts)
        for part in parts:
            print(f"{part.name:{width}}  {'; '.join(list_figures(part.name))}".rstrip())
        return
    names = [part.name for part in parts]
    figures = [figure for name in names for figure in list_figures(name)]
    names = choose_figures(names, choose_names(options.only, [*names, *figures]))
    wanted = [part for part in parts if part.name in names]
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    store = Store(repr(steps))
    with create_progress(72) as progress:
        run_missing(wanted, store, options.jobs, progress)
    found = {part.name: store[part.name] for part in parts if part.name in store}
    missing = [part.name for part in parts if part.name not in store]
    if missing or options.only:
        for name in names:
            print(f"{name}: {format_measurement(found[name])}")
        for row in list_complete(found, steps, names, missing):
            print(f"\n{row.where}\n  theirs: {row.theirs}\n  ours: {row.ours}\n  {row.verdict or '–'}")
    if missing:
        print(f"{len(missing)} of {len(parts)} measurements are missing; the page needs all of them.")
        return
    results = collect(found, steps)
    folder = options.output or (None if options.quick else RESULTS)
    text = format_page(results)
    print(text)
    if folder is None:
        print(PARTIAL_RUN)
        return
    from benchmarks.papers.pages.plot import draw_all

    folder.mkdir(parents=True, exist_ok=True)
    write_curves(folder / "papers", list_curves(results.sidco, results.adacomp))
    for name, table in list_tables(results).items():
        write_table(folder / "papers" / f"{name}.csv", table)
    (folder / "papers.md").write_text(text)
    draw_all(folder, results)
    print(folder / "papers.md")


def list_tables(results: Results) -> dict[str, Table]:
    """List the tables that data files have in place of the page: {name: table}."""
    return {
        "sidco_counts": sidco_page.list_counts(results.sidco),
        "deepreduce_rates": deepreduce_page.list_rates(results.deepreduce),
        "fft_status": fft_page.list_status(results.fft),
        "scalecom_methods": scalecom_page.list_methods(results.scalecom),
        "scalecom_splits": scalecom_page.list_splits(results.scalecom),
        "scalecom_similarity": scalecom_page.list_similarity(results.scalecom),
        "scalecom_model": scalecom_page.list_model(),
        "adacomp_stress": adacomp_page.list_stress(results.adacomp),
    }


def format_page(results: Results) -> str:
    """Format the page."""
    sections = [
        sidco_page.format_section(results.sidco),
        deepreduce_page.format_section(results.deepreduce),
        fft_page.format_section(results.fft),
        scalecom_page.format_section(results.scalecom),
        adacomp_page.format_section(results.adacomp),
    ]
    rows = {
        "SIDCo": sidco_page.list_rows(results.sidco),
        "DeepReduce": deepreduce_page.list_rows(results.deepreduce),
        "FFT": fft_page.list_rows(results.fft),
        "ScaleCom": scalecom_page.list_rows(results.scalecom),
        "AdaComp": adacomp_page.list_rows(results.adacomp),
    }
    answer = format_answer(rows, count_claims())
    head = f"# The papers' tables and figures\n\n{describe_machine()}\n\n{answer}"
    introduction = INTRODUCTION.format(counts=format_counts(rows), version=wc.__version__)
    return head + link_sections(sections) + introduction + "\n".join(sections)


def link_sections(sections: Sequence[str]) -> str:
    """Format links to sections, which begin with their headings."""
    titles = [section.partition("\n")[0].removeprefix("## ") for section in sections]
    anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
    return " · ".join(f"[{title}](#{anchor})" for title, anchor in zip(titles, anchors, strict=True)) + "\n\n"


if __name__ == "__main__":
    main()
