"""Ratios of CLT-k from the cost of each layer."""

from __future__ import annotations

from collections.abc import Mapping


def ratios_by_flops(
    multiply_adds: Mapping[str, float],
    *,
    dense_first: bool = True,
    batch: float = 32,
    reference: float = 32,
) -> dict[str, float]:
    """Compute each layer's ratio by the rule of ScaleCom.

    A layer with at most 128 multiply-adds per weight and sample gets ratio 1/400, with at most 196 1/50, else
    1/25. The ratios are multiplied by ``batch / reference``, up to 1. The first layer is sent whole.

    Args:
        multiply_adds: {name of a weight: multiply-adds of its layer's forward pass for one sample, divided by
            its number of weights}, in the order of the layers. This is the number of positions at which each
            weight is used: height · width of a convolution's output, 1 for a linear layer of one vector, the
            number of tokens for one of a sequence.
        dense_first: False to apply the rule to the first layer, too.
        batch: samples per worker and step: images or utterances. For language, tokens.
        reference: the batch for which the rule is stated: 32, for language 4,500 tokens.

    Returns:
        {name: ratio}, for ``CLTk``. Add ``"*": 1`` for biases and normalizations.

    Raises:
        ValueError: batch or reference is not above 0.

    Source:
        Chen et al., 2020, ScaleCom, section 4: 25x for 196 and more, 50x for 128 to 196, 400x below. The
        paper leaves the bounds and the unit open. These compress ResNet-18, ResNet-50 and MobileNetV2 116x,
        97x and 166x; its Table 2 has 112x, 96x and 155x. "As per-worker mini-batch size changes, the
        compression rate is adjusted accordingly", without a formula. In proportion is what its speech model
        shows: 400x at 32 per worker (Table 2), 100x at 128 (Table 3).

    Examples:
        >>> import collectives as co
        >>> co.ratios_by_flops({"conv1": 112 * 112, "conv2": 14 * 14, "fc": 1})
        {'conv1': 1.0, 'conv2': 0.02, 'fc': 0.0025}
        >>> co.ratios_by_flops({"lstm": 21}, dense_first=False, batch=128)
        {'lstm': 0.01}
    """
    for name, value in {"batch": batch, "reference": reference}.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")
    factor = batch / reference
    ratios = {
        name: min(1.0, factor * (1 / 400 if count <= 128 else 1 / 50 if count <= 196 else 1 / 25))
        for name, count in multiply_adds.items()
    }
    if dense_first and ratios:
        ratios[next(iter(ratios))] = 1.0
    return ratios
