"""What tiles surely need is never more than they take."""

import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from testing.fuzz import check
from testing.fuzz.generate import generate
from tilelang_ascend.isa.base import Space
from tilelang_ascend.transform import fit, pipeline


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", [0, 50, 100, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 55, 105))])
def test_what_fits_takes_no_less(first, monkeypatch):
    """Kernels of the fuzzer: the bound against the plan with addresses."""
    whole, seen = fit.fit, []

    def observed(mapped, context):
        planned, memory_map = whole(mapped, context)
        for scope, space in (("shared.ub", Space.UB), ("shared.l1", Space.L1), ("local.l0c", Space.L0C)):
            seen.append((fit.least_bytes(mapped.body)[scope], memory_map.peak(space)))
        return planned, memory_map

    monkeypatch.setattr(pipeline, "fit", observed)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    for seed in range(first, first + 5):
        case = generate(seed)
        try:
            tilelang.compile(check.trace(case.kernel(), f"<seed {seed}>"), target=case.chip)
        except tilelang.errors.TilelangAscendError:
            continue
    assert seen and all(least <= taken for least, taken in seen) and any(least for least, _ in seen)


def test_tiles_that_cannot_fit_are_not_tried_whole(monkeypatch):
    """A tile of 256 KB in 184 KB of UB: one plan says so before rows are divided."""

    @T.prim_func
    def exponential(X: T.Tensor((64, 1024), "float32"), Y: T.Tensor((64, 1024), "float32")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 1024), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(64, 1024):
                x[i, j] = T.exp(x[i, j])
            T.copy(x, Y)

    tried, attempt = [], fit.attempt
    monkeypatch.setattr(
        fit,
        "attempt",
        lambda mapped, *rest, **how: tried.append(fit.least_bytes(mapped.body)["shared.ub"]) or attempt(mapped, *rest, **how),
    )
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    tilelang.compile(exponential)
    assert [n > 188416 for n in tried][:2] == [True, False] and sum(n > 188416 for n in tried) == 1
