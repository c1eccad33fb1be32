"""SIDCo's part of the page."""

from __future__ import annotations

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.results import format_markdown
from benchmarks.papers.networks import NETWORKS
from benchmarks.papers.pages.table import Row, format_rows
from benchmarks.papers.sidco import FIT_IMAGES, Fitted, Result

__all__ = ["format_section"]


def format_section(found: Result) -> str:
    """Format SIDCo's part of the page."""
    fits = [
        [
            f"{'with' if fit.feedback else 'without'} feedback, step {fit.step:,}",
            *(f"{quality.distance:.3f}" for quality in fit.sidco.quality),
            f"{fit.stats.decay:.2f}",
            f"{fit.stats.magnitude_factor:.3g}, {fit.stats.error_factor:.3g}",
        ]
        for fit in found.fits
    ]
    names = [quality.name for quality in found.fits[0].sidco.quality]
    tables = "\n".join(f"{_describe(name)}\n\n{_format_counts(found, name)}" for name in NETWORKS)
    return f"""## SIDCo (Abdelmoniem et al., 2021)

{format_rows(_list_rows(found))}
### Figures 1c, 3c, 3f, 5b, 6c, 9, 11a, 13c, 13f and 18: quality of the count

k̂/k, elements selected over elements asked for, over {found.steps:,} steps of real training. Each selector
trains its own network, with error feedback and plain gradient descent. A cell has the mean, the central 90 %
of the steps, and the mean loss of the last tenth of the steps. *adaptive* and *retargeted* are this
library's modes. Figure 9 has 15 panels, five networks at three ratios. Here are 12: VGG-16, VGG-19 and
ResNet-50 need GPUs for days, and the data of PTB, AN4, CIFAR-10 and ImageNet would have to be downloaded.
ResNet-20 is theirs, with other images.

{tables}
![mean and 90 % interval of k̂/k](papers_sidco_quality.png)
![k̂/k over the steps, running average](papers_sidco.png)

### Figures 2, 7 and 8: fits and compressibility

Kolmogorov-Smirnov distance of each fit from residual + gradient of ResNet-20, trained with top-k at 0.001 and
{FIT_IMAGES} images per step; exponent p and constants c1, c2 of Definition 1. The paper's second iteration is
10,000. `wirecodec stats --sidco --png` draws all of this for any gradient.

{format_markdown(["gradient", *(f"KS, {name}" for name in names), "p", "c1, c2"], fits)}
![densities, distribution functions and errors](papers_sidco_fits.png)
"""


def _describe(network: str) -> str:
    about = NETWORKS[network].about
    return f"{about[0].upper()}{about[1:]}:"


def _format_counts(found: Result, network: str) -> str:
    rows = []
    for name, counts in found.of_network(network).items():
        cells = []
        for count in counts:
            low, high = count.interval
            cells.append(f"{count.ratios.mean():.2f}, {low:.2f}-{high:.2f}, {count.loss:.2g}")
        rows.append([name, *cells])
    header = ["selector", *(f"{d:g}: mean, 90 % interval, loss" for d in DENSITIES)]
    return format_markdown(header, rows)


def _list_rows(found: Result) -> list[Row]:
    def span(network: str, *names: str) -> str:
        by_name = found.of_network(network)
        means = [count.ratios.mean() for name in names for count in by_name[name]]
        return f"{min(means):.2f}-{max(means):.2f}"

    def spans(*names: str) -> str:
        return ", ".join(f"{span(network, *names)} ({network})" for network in NETWORKS)

    decays = [fit.stats.decay for fit in found.fits]
    plain, kept = ([f for f in found.fits if f.feedback == feedback] for feedback in (False, True))

    def best(fits: list[Fitted]) -> str:
        return ", ".join(f"{min(q.distance for q in fit.sidco.quality):.3f}" for fit in fits)

    return [
        Row(
            "Figures 1a, 14-17 on a GPU: speed-up over top-k, latency",
            "SIDCo and DGC far faster than top-k",
            "not measured",
            "No GPU was at hand. `make bench-gpu` measures it on one.",
        ),
        Row(
            "Figures 1b, 14-17 on a CPU",
            "SIDCo faster than top-k, DGC slower",
            "[select.md](select.md)",
            "Our exact top-k is itself faster than SIDCo in most cells.",
        ),
        Row(
            "Figures 1c, 3c, 3f, 5b, 6c, 9, 18: quality of SIDCo",
            "mean k̂/k about 1, within 20 %",
            f"means of its three variants: {spans('SIDCo-E', 'SIDCo-GP', 'SIDCo-P')}",
            "The paper's controller changes the number of stages alone. If no number suits, the count "
            "stays wrong.",
        ),
        Row(
            "the same, this library's modes",
            "–",
            f"adaptive {spans('adaptive')}; retargeted {spans('retargeted')}",
            "Retargeted, the default, corrects the target of the last stage. At 0.1, no selector reaches k "
            "on the embeddings, of whose gradients fewer elements are not zero.",
        ),
        Row(
            "the same: RedSync, GaussianKSGD, DGC",
            "RedSync and GaussianKSGD miss by up to 60 times; DGC is near k",
            f"RedSync {spans('RedSync')}; GaussianKSGD {spans('GaussianKSGD')}; DGC {spans('DGC')}",
            "Theirs have other constants; DGC here never sends more than k.",
        ),
        Row(
            "Figures 2, 8: three fits of ResNet-20's gradients",
            "all three fit without feedback, the tail worse with it",
            f"best KS distance, early and late: {best(plain)} without feedback, {best(kept)} with it",
            "Table below. The distance measures the whole distribution, not the tail.",
        ),
        Row(
            "Figure 7: power law of the sorted magnitudes of ResNet-20",
            "p above 0.7",
            f"p {min(decays):.2f}-{max(decays):.2f}",
            "The largest 37 % of the magnitudes, as in their figure. Definition 1 requires p > 0.5.",
        ),
        Row(
            "Table 1, Figures 3-6, 10-13, 18: training",
            "speed-up, throughput, accuracy",
            "[training.md](training.md)",
            "Our models and systems; not theirs.",
        ),
    ]
