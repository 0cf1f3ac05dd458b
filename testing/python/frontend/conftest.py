"""Every kernel traced by these tests must be well-formed Tile IR and mean what its Python means."""

import numpy as np
import pytest

from tilelang_ascend import interpret
from tilelang_ascend.frontend import tracing
from tilelang_ascend.sim import reference
from tilelang_ascend.tile.verify import verify_tile


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    finish = tracing.finish

    def checked(*args):
        func = finish(*args)
        problems = verify_tile(func)
        assert not problems, problems
        return func

    monkeypatch.setattr(tracing, "finish", checked)


@pytest.fixture(autouse=True)
def second_opinion(request, monkeypatch):
    """Tile IR must mean what the Python of the kernel means: whatever a test runs, plain Python runs as well."""
    run = getattr(request.module, "run", None)
    if run is not reference.run or request.module.__name__ == "test_reference":
        return

    def both(func, *args):
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(func, *args)
        if getattr(func, "_tl_source", None) is None:  # an eager kernel bound to the constants of a call
            return
        interpret.run(func, *mine)
        for name, a, b in zip([p.name for p in func.params], mine, args):
            if isinstance(a, np.ndarray):
                wide = a.dtype if a.dtype.kind in "iub" else np.float64
                tolerance = 0 if a.dtype.kind in "iub" else 1e-4 if a.dtype == np.float32 else 2e-2
                np.testing.assert_allclose(
                    a.astype(wide), b.astype(wide), tolerance, tolerance, err_msg=f"{name}: Python differs from Tile IR"
                )

    monkeypatch.setattr(request.module, "run", both)
