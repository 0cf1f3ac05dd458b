"""Further opinions on what a kernel means, see `check.HOOKS`."""

from __future__ import annotations

import numpy as np

from .check import Failure


def interpreted(func, kernel, arrays: dict, scalars: dict, results: dict) -> Failure | None:
    """The source-level interpreter, which runs the kernel's Python text, against the machine: bit by bit."""
    from tilelang_ascend import interpret

    mine = {n: a.copy() for n, a in arrays.items()}
    order = [str(p.name) for p in kernel.artifact.tile_ir.params]
    try:
        interpret.run(func, *(mine[n] if n in mine else scalars[n] for n in order), seed=0)
    except Exception as error:  # noqa: BLE001  any error is a finding
        return Failure(f"interpreter {type(error).__name__}", str(error))
    for name, have in mine.items():
        a, b = (x.astype(np.float64) if x.dtype.kind in "fV" or "float" in x.dtype.name else x for x in (have, results[name]))
        bad = ~((a == b) | ((a != a) & (b != b)))
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            return Failure(
                "interpreter value",
                f"{name}{list(where)} is {b[where]} on the machine, {a[where]} in the interpreter ({bad.sum()} elements differ)",
            )
    return None
