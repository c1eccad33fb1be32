"""Wrappers of torch's optimizers, as frameworks and papers have them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


class Uninitialized(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
    """Wrapper that has inherited torch's methods, and not their attributes, as Accelerate's."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def param_groups(self) -> Any:
        """The groups of the inner optimizer."""
        return self.inner.param_groups

    def step(self, closure: Any = None) -> Any:
        """Take a step of the inner optimizer."""
        return self.inner.step(closure)


class Forwarding:
    """Wrapper that forwards everything."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Refusing(Forwarding):
    """Wrapper that takes no hooks."""

    def register_step_post_hook(self, hook: Any) -> Any:
        """Refuse a hook."""
        raise NotImplementedError("no hooks")


class Copying(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
    """Wrapper that has taken the groups of another one, as torch's PostLocalSGDOptimizer and SWA."""

    def __init__(self, inner: Any) -> None:
        self.optim, self.param_groups = inner, inner.param_groups

    def step(self, closure: Any = None) -> Any:
        """Take a step of the inner optimizer."""
        return self.optim.step(closure)


def wrap_twice(inner: Any) -> Any:
    """Return a wrapper in a wrapper."""
    return Copying(Uninitialized(inner))


WRAPPERS = [Uninitialized, Forwarding, Refusing, Copying, wrap_twice]
