"""Schemes as strings, and what is said of wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirecodec as wc
from wirecodec.settings.scheme import scheme_for


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        (
            "topk(0.01) | rice | qsgd(bits=4)",
            wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.QSGD(4)),
        ),
        (
            "topk(ratio=1e-3)|bitmap|raw",
            wc.Scheme(wc.selectors.TopK(0.001), wc.codecs.Bitmap(), wc.codecs.Raw()),
        ),
        (
            "topk(k=5) | raw-index | raw(float16)",
            wc.Scheme(wc.selectors.TopK(k=5), wc.codecs.RawIndex(), wc.codecs.Raw("float16")),
        ),
        ("all | raw-index | raw", wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.Raw())),
        (
            " nonzero |auto-index| raw( 'bfloat16' ) ",
            wc.Scheme(wc.selectors.NonZero(), wc.codecs.AutoIndex(), wc.codecs.Raw("bfloat16")),
        ),
        (
            "all | rice | qsgd(8, 64, norm=l2)",
            wc.Scheme(wc.selectors.All(), wc.codecs.Rice(), wc.codecs.QSGD(8, 64, "l2")),
        ),
        ("all() | rice() | raw(None)", wc.Scheme(wc.selectors.All(), wc.codecs.Rice(), wc.codecs.Raw())),
    ],
)
def test_parse(text: str, scheme: wc.Scheme) -> None:
    assert wc.Scheme.parse(text) == scheme
    assert wc.Scheme.parse(str(scheme)) == scheme
    assert hash(wc.Scheme.parse(text)) == hash(scheme)


def test_strings_are_short_and_clear() -> None:
    assert (
        str(wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.QSGD(bits=4)))
        == "topk(0.01) | rice | qsgd"
    )
    assert (
        str(wc.Scheme(wc.selectors.TopK(k=9), wc.codecs.Rice(), wc.codecs.QSGD(bits=8)))
        == "topk(k=9) | rice | qsgd(bits=8)"
    )
    assert (
        str(wc.Scheme(wc.selectors.All(), wc.codecs.AutoIndex(), wc.codecs.Raw("float16")))
        == "all | auto-index | raw(float16)"
    )


@given(
    st.one_of(
        st.floats(1e-9, 1.0).map(wc.selectors.TopK),
        st.integers(1, 10**9).map(lambda k: wc.selectors.TopK(k=k)),
        st.just(wc.selectors.NonZero()),
    ),
    st.sampled_from(
        [
            wc.codecs.RawIndex(),
            wc.codecs.Bitmap(),
            wc.codecs.Rice(),
            wc.codecs.AutoIndex(),
            wc.codecs.Structured("runs"),
        ]
    ),
    st.one_of(
        st.sampled_from([wc.codecs.Raw(), wc.codecs.Raw("float16"), wc.codecs.Raw("bfloat16")]),
        st.builds(
            wc.codecs.QSGD,
            st.integers(2, 8),
            st.integers(1, 2**20).map(lambda n: 16 * n),
            st.sampled_from(["max", "l2"]),
        ),
    ),
)
def test_every_scheme_reads_its_own_string(select: object, index: object, value: object) -> None:
    scheme = wc.Scheme(select, index, value)
    assert wc.Scheme.parse(str(scheme)) == scheme


def test_parameters_from_numpy_are_plain_numbers() -> None:
    assert wc.selectors.TopK(np.float32(0.1)) == wc.selectors.TopK(np.float64(0.1)) == wc.selectors.TopK(0.1)
    assert (
        str(wc.Scheme(wc.selectors.TopK(np.float32(0.1)), wc.codecs.Rice(), wc.codecs.QSGD(np.int64(8))))
        == "topk(0.1) | rice | qsgd(bits=8)"
    )
    assert wc.selectors.TopK(k=np.int32(5)) == wc.selectors.TopK(k=5)
    assert wc.ErrorFeedback(np.float32(0.5)) == wc.ErrorFeedback(0.5)
    assert wc.WarmUp(np.int64(3), np.float32(0.1)) == wc.WarmUp(3, 0.1)
    for wrong in (
        lambda: wc.selectors.TopK("0.1"),
        lambda: wc.selectors.TopK(True),
        lambda: wc.selectors.TopK(k=5.0),
        lambda: wc.codecs.QSGD(bits="4"),
    ):
        with pytest.raises(wc.EncodeError):
            wrong()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topk(0.1) | rcie | raw", "unknown index codec 'rcie'; did you mean 'rice'"),
        ("tpok(0.1) | rice | raw", "unknown selector 'tpok'; did you mean 'topk'"),
        ("topk(0.1) | rice | qsdg", "unknown value codec 'qsdg'; did you mean 'qsgd'"),
        ("topk(0.1) | rice | zzzzz", "qsgd, raw"),
        ("topk(ration=0.1) | rice | raw", "unknown parameter 'ration'; did you mean 'ratio'"),
        ("topk(0.1, 3, 4) | rice | raw", "argument '4' is one too many"),
        ("topk(0.1, ratio=0.2) | rice | raw", "given twice"),
        ("topk(k=2, 0.1) | rice | raw", "is one too many, or follows a keyword"),
        ("topk | rice | raw", "either ratio or k"),
        ("topk(2) | rice | raw", "at most 1"),
        (f"topk({10**400}) | rice | raw", "topk: ratio is an integer above every float"),
        ("topk(0.1) | rice | qsgd(bits=9)", "must be 2 to 8"),
        ("topk(0.1) | rice | qsgd(bucket=100)", "multiple of 16"),
        ("topk(0.1) | rice | qsgd(norm=l1)", "'max' or 'l2'"),
        ("topk(0.1) | rice | raw(float8)", "float8"),
        ("topk(0.1) | rice | qsgd(bits=[4])", "argument is"),
        ("topk(0.1) | rice", "selector | index codec | value codec"),
        ("", "selector | index codec | value codec"),
        ("a | b | c | d | e", "selector | index codec | value codec"),
        ("dtc | topk(0.1) | rice | raw", "unknown transform 'dtc'; did you mean 'dct'?"),
        ("topk(0.1 | rice | raw", "it must be name or name("),
        ("topk(__import__('os')) | rice | raw", "argument is"),
    ],
)
def test_wrong_strings_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(wc.EncodeError) as caught:
        wc.Scheme.parse(text)
    assert says in str(caught.value)


def test_schemes_take_instances() -> None:
    for wrong in (
        (wc.selectors.TopK, wc.codecs.Rice(), wc.codecs.Raw()),
        (wc.selectors.TopK(0.1), "rice", wc.codecs.Raw()),
        (None, wc.codecs.Rice(), wc.codecs.Raw()),
    ):
        with pytest.raises(wc.EncodeError):
            wc.Scheme(*wrong)
    with pytest.raises(wc.EncodeError, match="must be a Scheme"):
        wc.encode(np.ones(3, np.float32), 7)


def test_first_glob_wins() -> None:
    schemes = {"*.bias": "all | raw-index | raw", "fc.*": "topk(0.5) | rice | raw", "*": None}
    assert str(scheme_for("fc.bias", schemes)) == "all | raw-index | raw"
    assert str(scheme_for("fc.weight", schemes)) == "topk(0.5) | rice | raw"
    assert str(scheme_for("conv", schemes)) == "nonzero | auto-index | raw"
    with pytest.raises(wc.EncodeError, match=r"tensor 'conv': no scheme matches; the globs are 'fc\.\*'"):
        wc.encode_many({"conv": np.ones(3, np.float32)}, {"fc.*": None})


@pytest.mark.parametrize("depth", [3_000, 100_000])
def test_deeply_nested_arguments_are_refused(depth: int) -> None:
    for nested in ("-" * depth + "1", "(" * depth + "1", "[" * depth + "1"):
        with pytest.raises(wc.EncodeError, match=r"topk: argument is|characters"):
            wc.Scheme.parse(f"topk({nested}) | rice | raw")
