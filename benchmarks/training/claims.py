"""Claims of the five papers about training, as pairs of systems."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLAIMS", "FFT_LOSS", "TABLE_2", "TABLE_3", "Claim"]


@dataclass(frozen=True)
class Claim:
    """A system's metric or steps, compared with another system's.

    Attributes:
        where: paper, with table or figure.
        text: the paper's claim.
        task, system, against: names in this benchmark.
        better: True if the paper claims that ``system`` is better than ``against``, False if worse, None if
            equal.
        margin: how much worse than ``against`` the paper allows, in points or as a fraction of a perplexity:
            what its text says, or the largest loss of its own table.
        steps: True to compare the steps to dense's loss in place of the metric.
        is_control: True if no paper claims it, but a claim needs it for comparison.
    """

    where: str
    text: str
    task: str
    system: str
    against: str = "dense"
    better: bool | None = None
    margin: float = 0.0
    steps: bool = False
    is_control: bool = False


TOP_1, TOP_01 = "top-k 1 % as published", "top-k 0.1 % as published"
FFT = "FFT, 85 % left out"
FFT_LOSS = 0.12
"""Points that FFT loses in the paper's Table 2, at most."""
TABLE_2, TABLE_3 = 0.454, 0.578
"""Points that ScaleCom's ResNet-50 loses in each table, the most of all its networks with an accuracy."""


def _list_sidco() -> list[Claim]:
    where = "SIDCo, Figure 10, appendix E.1"
    like = [
        Claim(where, "as accurate as top-k at 0.001", task, "sidco", TOP_01)
        for task in ("text-lstm", "images", "text-transformer")
    ]
    return [
        *like,
        Claim(
            "SIDCo, Figure 4, PTB",
            "GaussianKSGD does not converge to the target; here: worse than top-k",
            "text-lstm",
            "GaussianKSGD 0.1 %",
            TOP_01,
            False,
        ),
        Claim(
            "SIDCo, Figure 4, PTB",
            "RedSync does not converge to the target; here: worse than top-k",
            "text-lstm",
            "RedSync 0.1 %",
            TOP_01,
            False,
        ),
        Claim("SIDCo, section 4.3", "ResNet-20 is degraded at 0.001", "images", "sidco", "dense", False),
    ]


def _list_deepreduce() -> list[Claim]:
    names = {"P0": "deepreduce-bf-p0", "P1": "deepreduce-bf-p1", "P2": "deepreduce-bf-p2"}
    fits = {"Fit-Poly": "deepreduce-fit-poly", "Fit-DExp": "deepreduce-fit-dexp"}
    table_2 = ("deepreduce-sparse", "skcompress", "deepreduce-qsgd-bf-p0")
    fewer = "in fewer steps than Top-r"
    return [
        *(
            Claim("DeepReduce, Figure 7", f"BF-{key} as accurate as dense", "images", x)
            for key, x in names.items()
        ),
        Claim("DeepReduce, Figure 7", "BF-naive much less accurate", "images", "naive Bloom", "dense", False),
        Claim("DeepReduce, Figure 7", f"BF-P2 {fewer}", "images", names["P2"], TOP_1, True, steps=True),
        Claim(
            "DeepReduce, Figure 7",
            "BF-P2 in fewer steps than dense",
            "images",
            names["P2"],
            "dense",
            True,
            steps=True,
        ),
        *(
            Claim("DeepReduce, Figure 8, section 6.2", f"{key} as accurate as dense", "images", x)
            for key, x in fits.items()
        ),
        *(
            Claim("DeepReduce, Figure 8, section 6.2", f"{key} {fewer}", "images", x, TOP_1, True, steps=True)
            for key, x in fits.items()
        ),
        Claim("DeepReduce, section 4", "BF-P0 as good as Top-r or better", "images", names["P0"], TOP_1),
        Claim(
            "DeepReduce, section 6.2",
            "Fit-DExp in slightly fewer steps than Fit-Poly",
            "images",
            fits["Fit-DExp"],
            fits["Fit-Poly"],
            True,
            steps=True,
        ),
        *(Claim("DeepReduce, Table 2", "hit rate as dense", "recommendations", x) for x in table_2),
    ]


def _list_fft() -> list[Claim]:
    others = {"QSGD": "qsgd-3-bits", "TernGrad": "terngrad-noclip", "top-k": "top-k 15 %, no feedback"}
    return [
        Claim("FFT, Table 2", "as accurate as SGD", "images", FFT, margin=FFT_LOSS),
        Claim("FFT, Table 2", "control: per tensor, not one vector", "images", "fft", is_control=True),
        *(
            Claim("FFT, Table 2", f"more accurate than {key}", "images", FFT, x, True)
            for key, x in others.items()
        ),
        Claim("FFT, Figure 13", "θ = 0.5 as accurate as SGD", "images", "FFT, 50 % left out"),
        Claim("FFT, Figure 13", "θ = 0.9 less accurate", "images", "FFT, 90 % left out", "dense", False),
        Claim(
            "FFT, Figure 13", "θ from 0.9 to 0 as accurate as SGD", "images", "FFT, 90 % left out, then none"
        ),
    ]


def _list_scalecom() -> list[Claim]:
    beta_1, beta = "CLT-k 1 %, beta 1", "CLT-k 1 %, beta 0.1"
    standard, large = "ScaleCom, Table 2, contribution 4", "ScaleCom, Table 3, contribution 4"
    small_data = "ScaleCom, section 4, Figure 5"
    equal, filtered = "as accurate as dense", "large batch: beta 0.1 as accurate as dense"
    still = "large batch, few data: beta 1 still accurate"
    few, most = ("images-2-workers", "images-8-workers"), "images-16-workers"
    return [
        Claim("ScaleCom, Table 2", equal, "images", "CLT-k by FLOPs", margin=TABLE_2),
        Claim("ScaleCom, Table 2", equal, "text-lstm", "CLT-k by FLOPs"),
        Claim("ScaleCom, Table 2", equal, "text-transformer", "CLT-k 47x"),
        Claim("ScaleCom, Table 3", filtered, "images-large", beta, margin=TABLE_3),
        Claim(small_data, still, "images-large", beta_1, margin=TABLE_3),
        Claim(
            "ScaleCom, Figure 1c", "large batch: local top-k degrades", "images-large", TOP_1, "dense", False
        ),
        *(Claim(standard, f"beta 1 {equal}", task, beta_1, margin=TABLE_2) for task in few),
        Claim(large, filtered, most, beta, margin=TABLE_3),
        Claim(small_data, still, most, beta_1, margin=TABLE_3),
        *(Claim(standard, "control: beta 0.1", task, beta, is_control=True) for task in few),
        *(Claim(standard, "control: top-k with feedback", task, TOP_1, is_control=True) for task in few),
        Claim(large, "control: top-k with feedback", most, TOP_1, is_control=True),
    ]


def _list_adacomp() -> list[Claim]:
    where = "AdaComp, Table 2, related work, caption of Figure 7"
    return [
        Claim(where, "less than 1 % degradation, in points", "images", "adacomp", margin=1.0),
        Claim(
            where,
            "less than 1 % degradation; here of a perplexity, with Adam",
            "text-lstm",
            "adacomp",
            margin=0.01,
        ),
        Claim(
            "AdaComp, Figure 3", "with Adam, less than 1 %, in points", "images-adam", "adacomp", margin=1.0
        ),
    ]


CLAIMS = (*_list_sidco(), *_list_deepreduce(), *_list_fft(), *_list_scalecom(), *_list_adacomp())
