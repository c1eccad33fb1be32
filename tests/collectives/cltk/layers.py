"""Layers of four networks, whose rates ScaleCom's Table 2 has, by the rule of its section 4."""

from __future__ import annotations

import collectives as co

__all__ = ["NETWORKS", "Layers", "compute_rate", "list_mobilenet", "list_resnet"]

Layers = dict[str, tuple[int, float]]
"""{weight: (elements, positions at which each is used)}."""


def list_resnet(blocks: tuple[int, ...], *, bottleneck: bool) -> Layers:
    """List the layers of a ResNet on 224 x 224 pixels (He et al., 2016, Table 1).

    Args:
        blocks: per stage.
        bottleneck: whether a block has three convolutions.
    """
    layers: Layers = {"conv1": (3 * 64 * 49, 112**2)}
    channels = 64
    for stage, count in enumerate(blocks):
        width, side = 64 * 2**stage, 56 // 2**stage
        out = 4 * width if bottleneck else width
        for block in range(count):
            name, before = f"{stage}.{block}", 2 * side if stage and not block else side
            if bottleneck:
                layers[f"{name}.1"] = (channels * width, before**2)
                layers[f"{name}.2"] = (9 * width * width, side**2)
                layers[f"{name}.3"] = (width * out, side**2)
            else:
                layers[f"{name}.1"] = (9 * channels * width, side**2)
                layers[f"{name}.2"] = (9 * width * width, side**2)
            if channels != out:
                layers[f"{name}.skip"] = (channels * out, side**2)
            channels = out
    return {**layers, "fc": (1000 * channels, 1)}


def list_mobilenet() -> Layers:
    """List the layers of MobileNetV2 on 224 x 224 pixels (Sandler et al., 2018, Table 2)."""
    layers: Layers = {"conv1": (3 * 32 * 9, 112**2)}
    channels, side = 32, 112
    rows = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for row, (expansion, out, count, stride) in enumerate(rows):
        for block in range(count):
            wide, before = expansion * channels, side
            side //= stride if block == 0 else 1
            if expansion > 1:
                layers[f"{row}.{block}.expand"] = (channels * wide, before**2)
            layers[f"{row}.{block}.depthwise"] = (9 * wide, side**2)
            layers[f"{row}.{block}.project"] = (wide * out, side**2)
            channels = out
    return {**layers, "head": (channels * 1280, side**2), "fc": (1280 * 1000, 1)}


def compute_rate(layers: Layers) -> float:
    """Return how many times fewer elements are sent."""
    ratios = co.ratios_by_flops({name: float(positions) for name, (_, positions) in layers.items()})
    return sum(n for n, _ in layers.values()) / sum(n * ratios[name] for name, (n, _) in layers.items())


def _shrink(layers: Layers) -> Layers:
    """Return a ResNet's layers on 32 x 32 pixels of CIFAR-10, without the first reduction by four."""
    small = {
        name: (size, used if used == 1 else used * (32 / 56) ** 2) for name, (size, used) in layers.items()
    }
    width = layers["fc"][0] // 1000
    return {**small, "conv1": (3 * 64 * 9, 32.0**2), "fc": (10 * width, 1)}


NETWORKS = {
    "ResNet-18": list_resnet((2, 2, 2, 2), bottleneck=False),
    "ResNet-50": list_resnet((3, 4, 6, 3), bottleneck=True),
    "MobileNetV2": list_mobilenet(),
    "ResNet-34": list_resnet((3, 4, 6, 3), bottleneck=False),
    "ResNet-34 on 32 × 32 pixels": _shrink(list_resnet((3, 4, 6, 3), bottleneck=False)),
}
"""Layers of Table 2's convolutional networks. The paper has ResNet-34 on CIFAR-10."""
