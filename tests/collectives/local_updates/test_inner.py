"""Inner optimizers: those that hold other tensors than LocalUpdates exchanges, and wrappers of torch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.torch.wrappers import WRAPPERS

torch = pytest.importorskip("torch")


def make_model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))


def sgd(tensors: Any) -> Any:
    return torch.optim.SGD(tensors, lr=0.5)


def masters(model: Any) -> Any:
    return sgd([p.detach().clone().requires_grad_() for p in model.parameters()])


def made_before(model: Any) -> Any:
    optimizer = sgd(make_model().to("meta").parameters())
    assert model[0].weight.device.type == "cpu"
    return optimizer


def flat(model: Any) -> Any:
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.nn.utils.vector_to_parameters(vector, model.parameters())
    return sgd([vector.requires_grad_()])


def partly_frozen(model: Any) -> Any:
    model[0].requires_grad_(False)
    return sgd(model[1].parameters())


class InTuple:
    """Optimizer with groups of its own kinds."""

    def __init__(self, first: list[Any], second: tuple[Any, ...]) -> None:
        self.param_groups = [{"params": first}, {"params": second}]

    def step(self) -> None:
        pass


def in_a_tuple(model: Any) -> Any:
    return InTuple(list(model[0].parameters()), tuple(model[1].parameters()))


class Own:
    """Optimizer that is not torch's."""

    def __init__(self, model: Any) -> None:
        self.param_groups = "none"

    def step(self) -> None:
        pass


OPTIMIZERS: dict[str, tuple[Callable[[Any], Any], str | None]] = {
    "masters": (masters, "lacks parameter '0.weight' and 3 more"),
    "made before the model": (made_before, "lacks parameter '0.weight' and 3 more"),
    "of a part": (lambda model: sgd([*model[0].parameters(), model[1].weight]), "lacks parameter '1.bias',"),
    "of the parameters": (lambda model: sgd(model.parameters()), None),
    "of the same memory": (lambda model: sgd([torch.nn.Parameter(p.data) for p in model.parameters()]), None),
    "of a flat vector": (flat, None),
    "of what is trained": (partly_frozen, None),
    "of a list and a tuple": (in_a_tuple, None),
    "not torch's": (Own, None),
    "none": (lambda _: None, None),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_that_lacks_parameters_is_named(name: str) -> None:
    """Each exchange would be undone by its next step, or nothing would train."""
    make, expected = OPTIMIZERS[name]
    model = make_model()
    optimizer, comm = make(model), co.simulate(1, lambda comm: comm)[0]
    given = dict(model.named_parameters()) | {"mean": torch.zeros(3)}  # a buffer is no optimizer's
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        co.LocalUpdates(optimizer, given, wc.Compressor(), comm, every=1)
    texts = [str(one.message) for one in told if "param_groups" in str(one.message)]
    assert len(texts) == (expected is not None)
    assert expected is None or expected in texts[0]
    assert all(one.filename == __file__ for one in told)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_of_optimizers_are_taken(wrapper: Any) -> None:
    """Their steps are taken, and a program that takes some, too, is told."""
    weight = torch.nn.Parameter(torch.zeros(2))
    comm = co.simulate(1, lambda comm: comm)[0]
    optimizer = wrapper(sgd([weight]))
    local = co.LocalUpdates(optimizer, {"w": weight}, wc.Compressor(), comm, every=1)
    for _ in range(2):
        weight.grad = torch.ones(2)
        local.step()
    assert weight.tolist() == [-1, -1]
    optimizer.step()
    with pytest.warns(UserWarning, match="the program takes steps of the optimizer") as told:
        local.step()
    assert told[0].filename == __file__
