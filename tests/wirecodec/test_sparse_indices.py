"""Indices outside of a dimension: refused for every sparse input and by every function, never moved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc

LOW, HIGH = -(2**63), 2**63 - 1
SCHEME = "nonzero | raw-index | raw"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its compressed layouts a beta
        yield


def coo(shape: tuple[int, ...], *where: tuple[int, ...], inner: tuple[int, ...] = ()) -> Any:
    torch = pytest.importorskip("torch")
    values = torch.ones(len(where), *inner)
    return torch.sparse_coo_tensor(torch.tensor(where).T, values, (*shape, *inner), check_invariants=False)


def compressed(layout: str, pointers: list[int], plain: list[int], block: tuple[int, ...] = ()) -> Any:
    torch = pytest.importorskip("torch")
    return torch.sparse_compressed_tensor(
        torch.tensor(pointers),
        torch.tensor(plain),
        torch.ones(len(plain), *block),
        (4, 6),
        layout=getattr(torch, f"sparse_{layout}"),
        check_invariants=False,
    )


def scipy_of(kind: str, **changed: list[int]) -> Any:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.zeros((4, 6), np.float32)
    dense[0, 1] = dense[2, 3] = 1
    matrix = getattr(sparse, f"{kind}_array")(dense)
    for name, numbers in changed.items():
        getattr(matrix, name)[:] = numbers
    return matrix


class Outside(wc.Selector):
    """Selector of a user that is wrong."""

    name = "outside"

    def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
        return wc.Selection(np.array([0, x.size]))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "coo": (lambda: coo((5, 7), (0, 1), (1, 9)), "index 9 in dimension 1, whose extent is 7"),
    "coo-merged": (lambda: coo((5, 7), (2, 2), (1, 9)), "index 9 in dimension 1"),
    "coo-negative": (lambda: coo((5, 7), (0, 1), (1, -1)), "index -1 in dimension 1"),
    "coo-3d": (lambda: coo((2, 3, 4), (0, 3, 0)), "index 3 in dimension 1, whose extent is 3"),
    "coo-highest": (lambda: coo((5, 7), (HIGH, 0)), f"index {HIGH} in dimension 0"),
    "coo-lowest": (lambda: coo((5, 7), (0, LOW)), f"index {LOW} in dimension 1"),
    "hybrid": (lambda: coo((5,), (6,), inner=(3,)), "index 6 in dimension 0, whose extent is 5"),
    "empty": (lambda: coo((0, 3), (0, 0)), "index 0 in dimension 0, whose extent is 0"),
    "csr": (lambda: compressed("csr", [0, 1, 2, 2, 2], [1, 9]), "index 9 in dimension 1, whose extent is 6"),
    "csc": (lambda: compressed("csc", [0, 1, 2, 2, 2, 2, 2], [1, -1]), "index -1 in dimension 0"),
    "bsr": (
        lambda: compressed("bsr", [0, 1, 1], [2], (2, 3)),
        "index 2 in dimension 1, whose extent is 2 blocks",
    ),
    "bsc": (lambda: compressed("bsc", [0, 1, 1], [-1], (2, 3)), "index -1 in dimension 0"),
    "descending": (
        lambda: compressed("csr", [0, 2, 1, 2, 2], [1, 2]),
        "pointers of dimension 0 must not descend",
    ),
    "short": (lambda: compressed("csr", [0, 1, 1, 1, 1], [1, 2]), "number of stored elements, 2"),
    "beyond": (lambda: compressed("csr", [0, 1, 1, 1, 9999], [1, 2]), "number of stored elements, 2"),
    "late": (lambda: compressed("csr", [1, 1, 1, 1, 2], [1, 2]), "number of stored elements, 2"),
    "scipy-csr": (lambda: scipy_of("csr", indices=[1, 9]), "index 9 in dimension 1, whose extent is 6"),
    "scipy-csc": (lambda: scipy_of("csc", indices=[0, -1]), "index -1 in dimension 0, whose extent is 4"),
    "scipy-bsr": (lambda: scipy_of("bsr", indices=[0, 9]), "index 9 in dimension 1"),
    "scipy-coo": (lambda: scipy_of("coo", row=[0, 9]), "index 9 in dimension 0, whose extent is 4"),
    "scipy-pointers": (lambda: scipy_of("csr", indptr=[0, 2, 1, 2, 2]), "must not descend"),
}

USES: dict[str, Callable[[Any], Any]] = {
    "encode": lambda x: wc.encode(x, SCHEME),
    "encode_many": lambda x: wc.encode_many({"w": x}, SCHEME),
    "topk": lambda x: wc.encode(x, "topk(k=1) | rice | raw"),
    "patch": lambda x: wc.encode(x, absent="unchanged"),
    "compressor": lambda x: wc.Compressor(SCHEME).compress({"w": x}),
    "allreduce": lambda x: co.simulate(1, lambda comm: co.allreduce(comm, {"w": x}, SCHEME)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_index_outside_of_its_dimension_is_refused(case: str) -> None:
    make, message = CASES[case]
    for use in (USES["encode"], USES["compressor"]):
        with pytest.raises(wc.EncodeError, match=message):
            use(make())


@pytest.mark.parametrize("use", USES)
def test_every_function_refuses_it(use: str) -> None:
    error = co.CollectiveError if use == "allreduce" else wc.EncodeError
    with pytest.raises(error, match="index 9 in dimension 1, whose extent is 7"):
        USES[use](coo((5, 7), (2, 2), (1, 9)))


@pytest.mark.parametrize("name", ["dok", "lil", "dia"])
def test_scipy_formats_without_arrays_of_indices(name: str) -> None:
    matrix = scipy_of(name)
    assert wc.decode(wc.encode(matrix)).indices.tolist() == [1, 15]
    if name == "dok":
        matrix._dict[(9, 9)] = np.float32(1)
        with pytest.raises(wc.EncodeError, match="dok matrix of scipy is not valid"):
            wc.encode(matrix)


@pytest.mark.parametrize("indices", [[-1], [0, 35], [LOW], [HIGH], [1, 1], [2, 1]])
def test_a_tensor_made_by_hand(indices: list[int]) -> None:
    with pytest.raises(wc.EncodeError, match="indices are"):
        wc.SparseTensor(indices, np.ones(len(indices), "f4"), (5, 7))


@pytest.mark.parametrize("scope", ["tensor", "group"])
def test_a_selector_of_a_user(scope: Any) -> None:
    scheme = wc.Scheme(Outside(), wc.codecs.RawIndex(), wc.codecs.Raw())
    with pytest.raises(wc.EncodeError, match="the tensor has 4 elements"):
        wc.Compressor(scheme, scope=scope).compress({"w": np.ones(4, "f4")})
    with pytest.raises(wc.EncodeError, match="the tensor has 4 elements"):
        wc.encode_many({"w": np.ones(4, "f4")}, scheme)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "uint16"])
def test_types_that_torch_does_not_add_are_an_error_with_a_remedy(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    where = torch.tensor([[1, 0]])
    tensor = torch.sparse_coo_tensor(where, torch.ones(2).to(getattr(torch, dtype)), (3,))
    with pytest.raises(wc.EncodeError, match=r"cannot add .*; pass tensor\.to_dense"):
        wc.encode(tensor, SCHEME)
