"""``open``: files of tensors by their path or URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits

if TYPE_CHECKING:  # most programs open no file, and start faster without these
    from wirecodec.files.reader import TensorFile
    from wirecodec.files.writer import TensorWriter


@overload
def open(
    path: str | os.PathLike[str],
    mode: Literal["r"] = ...,
    *,
    limits: DecodeLimits | None = ...,
    verify: bool = ...,
    **storage_options: Any,
) -> TensorFile: ...


@overload
def open(
    path: str | os.PathLike[str], mode: Literal["w", "a"], *, align: int = ..., **storage_options: Any
) -> TensorWriter: ...


def open(
    path: str | os.PathLike[str],
    mode: str = "r",
    *,
    limits: DecodeLimits | None = None,
    verify: bool = False,
    align: int = 8,
    **storage_options: Any,
) -> TensorFile | TensorWriter:
    """Open a file of named tensors: a stream of containers with an index at its end.

    Reading a tensor takes two reads: of the last bytes of the file, once, and of the tensor's container.

    Args:
        path: a path, or a URL of fsspec such as ``s3://bucket/weights.wc``.
        mode: "r" to read, "w" to write a new file, "a" to continue one. The last also takes a stream without
            an index, and drops an incomplete container at its end.
        limits: bounds on the index and on each container that is read; None for the defaults.
        verify: whether the SHA-256 of each container is compared, too.
        align: payloads start at multiples of so many bytes, a multiple of 8.
        **storage_options: of the URL's file system.

    Returns:
        A TensorFile, or a TensorWriter. Both are context managers.

    Raises:
        ValueError: an argument is not valid.
        WireError: the file has no valid index; Truncated if it is cut or was not closed.
        OSError: the file cannot be opened.
        ImportError: a URL needs fsspec.

    Source:
        formats/spec/stream.md, sections 3 to 6.

    Examples:
        >>> import numpy as np, tempfile, wirecodec as wc
        >>> path = tempfile.mkdtemp() + "/weights.wc"
        >>> with wc.open(path, "w") as file:
        ...     file.append({"w": np.ones((2, 3), "f4"), "b": np.zeros(3, "f4")}, "all | raw-index | raw")
        >>> with wc.open(path) as file:
        ...     list(file), file.entry("w").shape, file["w"].to_dense().sum()
        (['w', 'b'], (2, 3), np.float32(6.0))
    """
    name = os.fspath(path)
    if mode in ("w", "a"):
        from wirecodec.files.writer import TensorWriter

        return TensorWriter(name, storage_options, appends=mode == "a", align=align)
    if mode != "r":
        raise ValueError(f"mode is {mode!r}; it must be 'r', 'w' or 'a'")
    from wirecodec.files.reader import TensorFile
    from wirecodec.files.source import open_source

    source = open_source(name, storage_options)
    try:
        return TensorFile(source, limits or DEFAULT_LIMITS, verify=verify)
    except BaseException:
        source.close()
        raise
