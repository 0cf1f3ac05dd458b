"""Which views of a tile are tiles of their own, and what they hold then."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import statements
from tilelang_ascend.tile import VIEW, is_op
from tilelang_ascend.transform.canonicalize.separate_views import separate_views

F16, F32 = "float16", "float32"
STEPS, ROWS = 3, 16
SHAPES = {"A": (STEPS, ROWS, 32), "Y": (STEPS, ROWS, 16), "Z": (STEPS, ROWS, 32)}


def used_up(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    T.copy(a, Z[k, :, :])
    for i, j in T.Parallel(ROWS, 16):
        v[i, j] = i * 2 + k
    T.copy(v, Y[k, :, :])


def stored_in_two_halves(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    T.copy(a, Z[k, :, :])
    for i, j in T.Parallel(ROWS, 16):
        if i >= 8:
            v[i, j] = i + k
    for i, j in T.Parallel(2 * ROWS, 16):
        if i < ROWS // 2:
            v[i, j] = 3 * i
    T.copy(v, Y[k, :, :])


def the_upper_half(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    T.copy(a, Z[k, :, :])
    for i, j in T.Parallel(8, 16):
        v[i + 8, j] = i + k
    T.copy(v[8:, :], Y[k, 8:, :])


def bits(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    T.copy(v, Y[k, :, :])


def only_a_half_again(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    for i, j in T.Parallel(ROWS, 16):
        if i > 8:
            v[i, j] = i + k
    T.copy(v, Y[k, :, :])


def from_the_step_before(a, v, A, Y, Z, k):
    if k == 0:
        T.copy(A[0, :, :], a)
    T.copy(a, Z[k, :, :])
    for i, j in T.Parallel(ROWS, 16):
        v[i, j] = i + k
    T.copy(v, Y[k, :, :])


def after_a_step_that_ends_early(a, v, A, Y, Z, k):
    for i, j in T.Parallel(ROWS, 16):
        v[i, j] = 1
    for n in T.serial(2):
        if n + k > 1:
            T.loop_break()
        T.copy(A[k, :, :], a)
    T.copy(a, Z[k, :, :])


def in_one_branch(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    if k > 1:
        for i, j in T.Parallel(ROWS, 16):
            v[i, j] = i + k
        T.copy(v, Y[k, :, :])
    T.copy(a, Z[k, :, :])


def elements_by_data(a, v, A, Y, Z, k):
    T.copy(A[k, :, :], a)
    for i, j in T.Parallel(ROWS, 16):
        v[i, j] = i + k
    Y[k, 0, 0] = v[T.cast(a[0, 0], "int32"), 0]


def asked_again(a, v, A, Y, Z, k):
    for i, j in T.Parallel(ROWS, 16):
        v[i, j] = k
    while v[0, 0] < 1:
        T.copy(A[k, :, :], a)


def kernel_of(step):
    step = T.macro(step)

    @T.prim_func
    def main(A: T.Tensor(SHAPES["A"], F16), Y: T.Tensor(SHAPES["Y"], F32), Z: T.Tensor(SHAPES["Z"], F16)):
        with T.Kernel(1):
            a = T.alloc_shared((ROWS, 32), F16)
            v = T.view(a, (ROWS, 16), F32)
            for k in T.serial(STEPS):
                step(a, v, A, Y, Z, k)

    return main


def views(func):
    return [s for s in statements(func.body) if is_op(s, VIEW)]


@pytest.mark.parametrize("step", [used_up, stored_in_two_halves, the_upper_half], ids=lambda f: f.__name__)
def test_what_is_used_up_makes_room(step):
    func = kernel_of(step)
    assert views(func) and not views(separate_views(func))
    run(func)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "step",
    [bits, only_a_half_again, from_the_step_before, after_a_step_that_ends_early, in_one_branch, elements_by_data],
    ids=lambda f: f.__name__,
)
def test_what_was_stored_under_another_name(step):
    func = kernel_of(step)
    assert separate_views(func).same_as(func)
    run(func)


def run(func):
    """Strict runs validate this pass, too: what every stage computes is the same."""
    rng = np.random.default_rng(3)
    arrays = {name: np.zeros(shape, F32 if name == "Y" else F16) for name, shape in SHAPES.items()}
    arrays["A"] += rng.integers(0, 8, SHAPES["A"]).astype(F16)
    strict.run(tilelang.compile(func), arrays)


def test_names_that_meet_stay_together():
    """Two of three names are one tile, which is another one than the first."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 32), F16), Y: T.Tensor((ROWS * 16,), F32), Z: T.Tensor((ROWS, 32), F16)):
        with T.Kernel(1):
            a = T.alloc_shared((ROWS, 32), F16)
            v = T.view(a, (ROWS, 16), F32)
            flat = T.view(v, (ROWS * 16,), F32)
            T.copy(A, a)
            T.copy(a, Z)
            for i, j in T.Parallel(ROWS, 16):
                v[i, j] = i * 16 + j
            T.copy(flat, Y)

    (view,) = views(separate_views(main))
    assert [str(r.source.name) for r in view.value.args] == ["flat", "v"]
    a = np.arange(ROWS * 32).reshape(ROWS, 32).astype(F16)
    out = strict.run(tilelang.compile(main), {"A": a, "Y": np.zeros(ROWS * 16, F32), "Z": np.zeros_like(a)})
    np.testing.assert_array_equal(out["Y"], np.arange(ROWS * 16, dtype=F32))
    np.testing.assert_array_equal(out["Z"], a)


def test_a_condition_is_asked_again():
    """A loop whose condition reads a view stores to the tile: no later pass sees such loops, which ask variables."""
    func = kernel_of(asked_again)
    assert separate_views(func).same_as(func)
