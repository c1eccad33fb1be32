"""The page of ``wirecodec inspect``."""

from __future__ import annotations

from wirecodec.arrays import dtype_named
from wirecodec.cli.formatting import counted, shortened, shown, table
from wirecodec.info import ContainerInfo

__all__ = ["text"]

_LEFT = ("name", "shape", "dtype", "transform", "index", "value")
"""The columns of words; those of numbers stand to the right."""


def text(info: ContainerInfo) -> str:
    """One line on the container, then a line an entry; bits are those of one stored element."""
    tag = f", tag {shortened(repr(info.tag), 256)}" if info.tag else ""
    count = counted(len(info.entries), "entry", "entries")
    lengths = ["index", "value", "map"] if any(e.map_bytes for e in info.entries) else ["index", "value"]
    header = [*_LEFT[:4], "stored", "density", *_LEFT[4:], *(f"{n} bits" for n in lengths)]
    rows = []
    for e in info.entries:
        each = [f"{8 * getattr(e, f'{n}_bytes') / e.nnz:.2f}" if e.nnz else "-" for n in lengths]
        density = f"{100 * e.nnz / e.size:.3g} %" if e.size else "-"
        shape = "×".join(map(str, e.shape)) or "scalar"
        form = e.transform or "-"
        rows.append(
            [shown(e.name), shown(shape), e.dtype, form, f"{e.nnz:,}", density, e.index, e.value, *each]
        )
    if not any(e.transform for e in info.entries):
        header, *rows = [row[:3] + row[4:] for row in (header, *rows)]
    left = [i for i, title in enumerate(header) if title in _LEFT]
    lines = [f"wirecodec {info.version}, {info.nbytes:,} bytes, {count}{tag}", *table(header, rows, left)]
    dense = sum(e.size * dtype_named(e.dtype).itemsize for e in info.entries)
    if dense:
        ratio = dense / info.nbytes
        said = f"{ratio:.1f}× smaller" if ratio >= 1 else f"{1 / ratio:.1f}× larger"
        lines.append(f"{said} than the dense tensors")
    return "\n".join(lines)
