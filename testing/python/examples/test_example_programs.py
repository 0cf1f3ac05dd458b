"""What every example's kernels compile to: text and IR run alike, and no flag or barrier is superfluous.

`test_examples.py` compares the results with torch; here the same kernels, at small sizes, meet the machine's strictest settings.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from test_examples import EXAMPLES, RUNS, load

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels"))
import strict  # noqa: E402

from tilelang_ascend.jit.hooks import on_build  # noqa: E402


def artifacts(path, args):
    """Everything the example compiles while its main runs."""
    found = []
    with on_build(found.append):
        load(EXAMPLES / path).main(args)
    return found


def arrays(artifact):
    """Random inputs and filled outputs of static shape."""
    rng = np.random.default_rng(7)
    out = {}
    for p in artifact.signature.parameters:
        dtype = ml_dtypes.bfloat16 if p.dtype == "bfloat16" else np.dtype(p.dtype)
        out[p.name] = (rng.random(p.shape) - 0.5).astype(dtype)
    return out


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path, args", RUNS, ids=[Path(p).stem for p, _ in RUNS])
def test_both_roads_agree_and_every_flag_is_needed(path, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = artifacts(path, args)
    assert found
    for artifact in found:
        kernel, data = SimpleNamespace(artifact=artifact), arrays(artifact)
        strict.run(kernel, data)
        assert strict.surviving_mutants(kernel, data) == []
