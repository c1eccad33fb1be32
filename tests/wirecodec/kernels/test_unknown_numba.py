"""With a version of Numba that nobody has tested, kernels do not depend on Numba's internal methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import wirecodec as wc
from tests.child import run

LATER = """
import sys
import numba
numba.version_info = numba.version_info._replace(short=(1000, 0))
import numpy as np
import wirecodec as wc
x = np.arange(70, dtype=np.float32) % 3
blob = bytes(wc.encode(x, "nonzero | bitmap | raw"))
assert "wirecodec.kernels.compiler.helper_compiler" not in sys.modules
assert np.array_equal(wc.decode(blob).to_dense(), x)
print(blob.hex())
"""


def test_a_later_numba_compiles_kernels_plainly(tmp_path: Path) -> None:
    x = np.arange(70, dtype=np.float32) % 3
    expected = bytes(wc.encode(x, "nonzero | bitmap | raw"))
    assert run(LATER, NUMBA_CACHE_DIR=str(tmp_path)).strip() == expected.hex()
