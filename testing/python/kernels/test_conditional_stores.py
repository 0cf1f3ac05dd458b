"""Stores to global memory under conditions write what the condition selects, and nothing else: other blocks own the neighbours."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, children, statements


def slow_warnings(kernel) -> int:
    return sum("element by element" in str(w) for w in kernel.artifact.warnings)


@tilelang.jit
def interleaved(n, blocks, dtype):
    """Block b stores the elements i with i % blocks == b."""

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(blocks, threads=128) as bx:
            for i in T.Parallel(n):
                if i % blocks == bx:
                    C[i] = A[i] + A[i]

    return main


@pytest.mark.parametrize("n, dtype", [(37, "float32"), (600, "float16"), (40, "int32")])
def test_elements_of_other_blocks(n, dtype):
    a = np.random.default_rng(0).integers(-8, 9, n).astype(dtype)
    kernel = interleaved(n, 3, dtype)
    out = strict.run(kernel, {"A": a, "C": np.zeros(n, dtype)}, text=n < 600)
    np.testing.assert_array_equal(out["C"], a + a)
    assert slow_warnings(kernel) == 1


@tilelang.jit
def triangles(m, n):
    """Block 0 stores the elements on and below the diagonal, block 1 those above."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i, j in T.Parallel(m, n):
                if (j <= i and bx == 0) or (j > i and bx == 1):
                    C[i, j] = A[i, j] * 2

    return main


def test_triangles():
    a = np.random.default_rng(1).standard_normal((9, 13)).astype(np.float32)
    out = strict.run(triangles(9, 13), {"A": a, "C": np.zeros_like(a)})
    np.testing.assert_array_equal(out["C"], a * 2)


@tilelang.jit
def owned_rows(m, n):
    """Rows belong to the block their owner names."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float16"), Owner: T.Tensor((m,), "int32"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(2, threads=128) as bx:
            for i, j in T.Parallel(m, n):
                if Owner[i] == bx:
                    C[i, j] = A[i, j] + 1

    return main


def test_rows_of_other_blocks():
    rng = np.random.default_rng(2)
    a, owner = rng.integers(-8, 9, (21, 40)).astype(np.float16), rng.integers(0, 3, 21).astype(np.int32)
    before = np.full_like(a, 77)
    kernel = owned_rows(21, 40)
    out = strict.run(kernel, {"A": a, "Owner": owner, "C": before})
    np.testing.assert_array_equal(out["C"], np.where((owner < 2)[:, None], a + 1, before))
    assert slow_warnings(kernel) == 0


@tilelang.jit
def between(m, n, shift):
    """Block b stores the rows from Cut[b] to before Cut[b + 1], and of these the columns in front of n - shift."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), Cut: T.Tensor((4,), "int32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(3, threads=128) as bx:
            for i, j in T.Parallel(m, n):
                if Cut[bx] <= i and i < Cut[bx + 1] and n > j + shift:
                    C[i, j] = A[i, j] + 1

    return main


@pytest.mark.parametrize("cuts", [(0, 5, 5, 21), (-3, 2, 20, 99), (3, 3, 9, 1)])
def test_boxes(cuts):
    a = np.random.default_rng(8).integers(-8, 9, (21, 40)).astype(np.float32)
    kernel = between(21, 40, 7)
    out = strict.run(kernel, {"A": a, "Cut": np.array(cuts, np.int32), "C": np.full_like(a, 77)})
    i = np.arange(21)[:, None]
    chosen = np.logical_or.reduce([(i >= x) & (i < y) for x, y in zip(cuts, cuts[1:])]) & (np.arange(40) < 33)
    np.testing.assert_array_equal(out["C"], np.where(chosen, a + 1, 77))
    loops = [s for f in kernel.artifact.ascend_ir.functions.values() for s in statements(f.body) if isinstance(s, For)]
    assert not loops, "one transfer, not one for each row"


@tilelang.jit
def strided(n):
    """Block b stores every second element."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((2 * n,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(n):
                C[2 * i + bx] = A[i] + bx

    return main


def test_elements_between():
    a = np.random.default_rng(3).integers(-8, 9, 50).astype(np.float32)
    out = strict.run(strided(50), {"A": a, "C": np.zeros(100, np.float32)})
    np.testing.assert_array_equal(out["C"].reshape(50, 2), np.stack([a, a + 1], 1))


@tilelang.jit
def strided_rows(m, n):
    """Every second element of the rows from 3 on."""

    @T.prim_func
    def main(C: T.Tensor((m, 2 * n), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i, j in T.Parallel(m, n):
                if i > 2:
                    C[i, 2 * j + bx] = i + bx

    return main


def test_elements_between_in_some_rows():
    before = np.full((6, 26), -7, np.float32)
    i, j = np.indices(before.shape)
    out = strict.run(strided_rows(6, 13), {"C": before})
    np.testing.assert_array_equal(out["C"], np.where(i > 2, i + j % 2, before))


@tilelang.jit
def both_sides(m, n):
    """Every element is stored to, on one side of a branch or the other, and in pairs."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32"), D: T.Tensor((2 * m * n,), "float32")):
        with T.Kernel(T.ceildiv(m, 8), threads=128) as bx:
            for i, j in T.Parallel(8, n):
                if A[bx * 8 + i, j] > 0:
                    C[bx * 8 + i, j] = A[bx * 8 + i, j]
                else:
                    C[bx * 8 + i, j] = 0
            for i in T.Parallel(8 * n):
                D[bx * 16 * n + 2 * i] = i
                D[bx * 16 * n + 2 * i + 1] = -i

    return main


def test_branches_that_cover_everything_are_plain_stores():
    a = np.random.default_rng(4).standard_normal((16, 24)).astype(np.float32)
    kernel = both_sides(16, 24)
    out = strict.run(kernel, {"A": a, "C": np.full_like(a, 7), "D": np.zeros(2 * a.size, np.float32)})
    np.testing.assert_array_equal(out["C"], np.maximum(a, 0))
    i = np.tile(np.arange(8 * 24, dtype=np.float32), 2)
    np.testing.assert_array_equal(out["D"], np.stack([i, -i], 1).reshape(-1))
    assert slow_warnings(kernel) == 0


@tilelang.jit
def scattered(n, rows):
    """Elements go where data says, if data says so; lanes with an index outside of the tensor are not selected."""

    @T.prim_func
    def main(V: T.Tensor((2, n), "float32"), At: T.Tensor((2, n), "int32"), C: T.Tensor((rows,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(n):
                if At[bx, i] >= 0:
                    C[At[bx, i]] = V[bx, i]

    return main


def test_scatter_under_a_condition():
    rng = np.random.default_rng(5)
    v, at = rng.standard_normal((2, 20)).astype(np.float32), rng.permutation(40).astype(np.int32).reshape(2, 20)
    at[:, ::3] = -5
    out = strict.run(scattered(20, 40), {"V": v, "At": at, "C": np.full(40, 7, np.float32)})
    expected = np.full(40, 7, np.float32)
    expected[at[at >= 0]] = v[at >= 0]
    np.testing.assert_array_equal(out["C"], expected)


@tilelang.jit
def gathered_under_a_condition(n, rows):
    """The value may only be read where the condition holds."""

    @T.prim_func
    def main(A: T.Tensor((rows,), "float32"), At: T.Tensor((n,), "int32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            table, at = T.alloc_shared((rows,), "float32"), T.alloc_shared((n,), "int32")
            T.copy(A, table)
            T.copy(At, at)
            for i in T.Parallel(n):
                if at[i] >= 0 and at[i] < rows and i % 2 == bx:
                    C[i] = table[at[i]]

    return main


def test_guarded_values():
    rng = np.random.default_rng(6)
    a, at = rng.standard_normal(30).astype(np.float32), rng.integers(-9999, 9999, 50).astype(np.int32)
    at[::2] = rng.integers(0, 30, 25)
    at[1::4] = rng.integers(0, 30, 13)
    out = strict.run(gathered_under_a_condition(50, 30), {"A": a, "At": at, "C": np.full(50, 7, np.float32)})
    inside = (at >= 0) & (at < 30)
    np.testing.assert_array_equal(out["C"], np.where(inside, a[np.where(inside, at, 0)], 7))


@tilelang.jit
def product_where(m, n):
    """C = A @ B stored where a mask says so: the tile comes from the cube core."""

    @T.prim_func
    def main(
        A: T.Tensor((m, 16), "float16"), B: T.Tensor((16, n), "float16"), M: T.Tensor((m, n), "int32"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(2, threads=128) as bx:
            a, b = T.alloc_shared((m, 16), "float16"), T.alloc_shared((16, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            for i, j in T.Parallel(m, n):
                if M[i, j] == bx:
                    C[i, j] = c[i, j]

    return main


def test_conditional_stores_of_products():
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (16, 16)).astype(np.float16), rng.integers(-4, 5, (16, 24)).astype(np.float16)
    mask = rng.integers(0, 3, (16, 24)).astype(np.int32)
    out = strict.run(product_where(16, 24), {"A": a, "B": b, "M": mask, "C": np.full((16, 24), 7, np.float32)})
    np.testing.assert_array_equal(out["C"], np.where(mask < 2, a.astype(np.float32) @ b.astype(np.float32), 7))


@tilelang.jit
def limits_under(n, flip):
    """A limit of a loop variable under a condition that depends on data, in either order."""

    @T.prim_func
    def main(X: T.Tensor((8,), "int32"), C: T.Tensor((8, n), "int32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(8, n):
                if (i > 1) if flip else (X[i] != 1):
                    if (X[i] != 1) if flip else (i > 1):
                        C[i, j] = i + j

    return main


@pytest.mark.parametrize("flip", [False, True])
def test_limits_under_another_condition(flip):
    x = np.array([0, 1, 0, 1, 0, 0, 1, 0], np.int32)
    before = np.full((8, 16), -7, np.int32)
    i, j = np.indices(before.shape)
    out = strict.run(limits_under(16, flip), {"X": x, "C": before})
    np.testing.assert_array_equal(out["C"], np.where((x[:, None] != 1) & (i > 1), i + j, before))


def test_conditions_nested_in_an_else():
    """The outer condition is the same for a whole row, the inner one is not."""

    @T.prim_func
    def main(A: T.Tensor((12, 40), "float32"), C: T.Tensor((12, 40), "float32")):
        with T.Kernel(3, threads=128) as bx:
            for i, j in T.Parallel(4, 40):
                if A[bx * 4 + i, 0] > 0:
                    C[bx * 4 + i, j] = A[bx * 4 + i, j]
                else:
                    if A[bx * 4 + i, j] > 2:
                        C[bx * 4 + i, j] = -A[bx * 4 + i, j]

    a = np.random.default_rng(0).integers(-8, 9, (12, 40)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "C": np.full_like(a, 77)})
    np.testing.assert_array_equal(out["C"], np.where(a[:, :1] > 0, a, np.where(a > 2, -a, np.float32(77))))


def test_two_tensors_stored_under_different_conditions():
    @T.prim_func
    def main(A: T.Tensor((300,), "float32"), B: T.Tensor((300,), "float32"), C: T.Tensor((300,), "float32")):
        with T.Kernel(3, threads=128) as bx:
            for i in T.Parallel(100):
                if A[bx * 100 + i] > 2:
                    B[bx * 100 + i] = A[bx * 100 + i]
                if A[bx * 100 + i] < 0:
                    C[bx * 100 + i] = -A[bx * 100 + i]

    a = np.random.default_rng(0).integers(-8, 9, 300).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.full_like(a, 77), "C": np.full_like(a, 78)})
    np.testing.assert_array_equal(out["B"], np.where(a > 2, a, np.float32(77)))
    np.testing.assert_array_equal(out["C"], np.where(a < 0, -a, np.float32(78)))


def pairs(rows, half, guarded):
    """Rotary embedding of neighbours, straight from and to global memory."""
    M = T.dynamic("M") if guarded else rows

    @T.prim_func
    def main(
        X: T.Tensor((M, 2 * half), "float16"),
        C: T.Tensor((M, half), "float32"),
        S: T.Tensor((M, half), "float32"),
        Y: T.Tensor((M, 2 * half), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
            for i, j in T.Parallel(8, half):
                if b * 8 + i < M:
                    x0, x1 = T.cast(X[b * 8 + i, 2 * j], "float32"), T.cast(X[b * 8 + i, 2 * j + 1], "float32")
                    Y[b * 8 + i, 2 * j] = T.cast(x0 * C[b * 8 + i, j] - x1 * S[b * 8 + i, j], "float16")
                    Y[b * 8 + i, 2 * j + 1] = T.cast(x0 * S[b * 8 + i, j] + x1 * C[b * 8 + i, j], "float16")

    return main


@pytest.mark.parametrize("guarded", [False, True])
def test_stores_that_fill_rows_together(guarded):
    rng, rows, half = np.random.default_rng(2), 21 if guarded else 24, 20
    x = rng.integers(-8, 9, (rows, 2 * half)).astype(np.float16)
    c, s = (rng.integers(-8, 9, (rows, half)).astype(np.float32) for _ in range(2))
    kernel = tilelang.compile(pairs(rows, half, guarded))
    out = strict.run(kernel, {"X": x, "C": c, "S": s, "Y": np.zeros_like(x)}, {"M": rows})
    x0, x1 = x[:, ::2].astype(np.float32), x[:, 1::2].astype(np.float32)
    np.testing.assert_array_equal(out["Y"], np.stack([x0 * c - x1 * s, x0 * s + x1 * c], -1).reshape(rows, -1))
    assert slow_warnings(kernel) == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("step, first, second", [(2, 1, 0), (4, 3, 1), (3, 0, 2), (5, 0, 9)])
def test_stores_with_gaps_in_one_row(step, first, second, blocks):
    """What neither store reaches stays as it is; the second one reads what the first one wrote."""
    n = 19

    @T.prim_func
    def main(X: T.Tensor((blocks, n), "float32"), Y: T.Tensor((blocks, step * (n + 2)), "float32")):
        with T.Kernel(blocks, threads=128) as b:
            for j in T.Parallel(n):
                Y[b, step * j + first] = X[b, j]
                Y[b, step * j + second] = X[b, j] * 2 + Y[b, step * j + first]

    rng = np.random.default_rng(3)
    x, y = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((blocks, n), (blocks, step * (n + 2))))
    out = strict.run(tilelang.compile(main), {"X": x, "Y": y}, text=first == 1)
    want = y.copy()
    want[:, first : first + step * n : step] = x
    want[:, second : second + step * n : step] = 3 * x
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("form", ["variable", "while", "break"])
def test_elements_chosen_by_a_variable(form):
    """Whether an element is stored to depends on it through a variable of the iteration, or through a loop that ends early."""

    @T.prim_func
    def main(X: T.Tensor((64, 32), "float32"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(4) as bx:
            for i, j in T.Parallel(16, 32):
                v = T.alloc_var("float32")
                v = X[bx * 16 + i, j]
                if form == "variable":
                    if v > 2:
                        C[bx * 16 + i, j] = 3
                elif form == "while":
                    while v > 2:
                        C[bx * 16 + i, j] = v
                        v = v - 1
                else:
                    for k in T.serial(4):
                        if k + X[bx * 16 + i, j] < 3:
                            break
                        C[bx * 16 + i, j] = 3

    x = np.random.default_rng(0).integers(0, 5, (64, 32)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, "C": np.full((64, 32), -1, np.float32)}, text=False)
    np.testing.assert_array_equal(out["C"], np.where(x > 2, 3, -1))


# ---- selections take room, however short a nest is ------------------------------------------------------------------


def several_selections(count, dynamic):
    """`count` tensors, each stored to where another condition holds."""
    X_T, C_T = T.Tensor((120,), "float32"), T.Tensor((240,), "float32")

    if dynamic:

        @T.prim_func
        def main(X: X_T, C0: C_T, C1: C_T, C2: C_T, n: T.int32):
            with T.Kernel(3) as bx:
                for i in T.Parallel(n):
                    for c, C in enumerate((C0, C1, C2)[:count]):
                        if X[bx * 40 + i] > c:
                            C[2 * (bx * 40 + i)] = X[bx * 40 + i] + c
    else:

        @T.prim_func
        def main(X: X_T, C0: C_T, C1: C_T, C2: C_T):
            with T.Kernel(3) as bx:
                for i in T.Parallel(40):
                    for c, C in enumerate((C0, C1, C2)[:count]):
                        if X[bx * 40 + i] > c:
                            C[2 * (bx * 40 + i)] = X[bx * 40 + i] + c

    return main


def loops_around_transfers(kernel) -> int:
    """The deepest nest of loops in the program."""

    def depth(s) -> int:
        return max((depth(x) for x in children(s)), default=0) + isinstance(s, For)

    return max(depth(f.body) for f in kernel.artifact.ascend_ir.functions.values())


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.one_in(3)
def test_several_selections_in_one_nest(count, dynamic):
    """Cutting the nest does not make the room smaller that selections need."""
    x = np.random.default_rng(3).integers(-3, 6, 120).astype(np.float32)
    arrays = {"X": x, **{f"C{c}": np.full(240, -1, np.float32) for c in range(3)}}
    want = {n: a.copy() for n, a in arrays.items()}
    for c in range(count):
        want[f"C{c}"][::2][x > c] = x[x > c] + c
    kernel = tilelang.compile(several_selections(count, dynamic))
    assert loops_around_transfers(kernel) <= 6
    out = strict.run(kernel, arrays, {"n": 40} if dynamic else {}, text=False)
    for n, a in want.items():
        np.testing.assert_array_equal(out[n], a, err_msg=n)


def test_what_all_iterations_use_is_no_reason_to_cut():
    """A discrete transform: every element of the result uses the whole of X, half of the room of a nest."""
    n = 8192

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(16) as bx:
            for i in T.Parallel(512):
                C[bx * 512 + i] = 0.0
                for k in T.serial(n):
                    C[bx * 512 + i] += X[k] * T.cos(0.1 * ((bx * 512 + i) * k % n))

    assert loops_around_transfers(tilelang.compile(main)) <= 2


SELECTIONS = {
    "rows, remainder": (lambda i, j, b: i % 4 == b, True),
    "rows, limits": (lambda i, j, b: T.And(i >= b * 2, i < b * 2 + 2), True),
    "rows, data": (None, True),
    "elements, remainder": (lambda i, j, b: (i + j) % 4 == b, False),
    "elements, limits": (lambda i, j, b: T.And(j >= b * 10, j < b * 10 + 10), False),
    "one block": (lambda i, j, b: T.And(i >= 5, b == 0), True),
}
"""What block b updates of a (8, 40) tensor; True if these are whole rows."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", SELECTIONS)
def test_updates_in_place_load_what_they_store(kind):
    """The elements between are those of blocks that are storing to them."""
    condition, rows = SELECTIONS[kind]

    @T.prim_func
    def main(A: T.Tensor((8, 40), "float32"), B: T.Tensor((8, 40), "float32"), M: T.Tensor((8,), "int32")):
        with T.Kernel(4) as bx:
            for i, j in T.Parallel(8, 40):
                if M[i] == bx if condition is None else condition(i, j, bx):
                    x = A[i, j] * 2
                    A[i, j] = x + B[i, j]

    a, b = np.random.default_rng(0).integers(-4, 5, (2, 8, 40)).astype(np.float32)
    m = np.array([0, 4, 2, 2, 1, 3, 7, 0], np.int32)
    changed = {"rows, data": m < 4, "one block": np.arange(8) >= 5}.get(kind, m >= 0)
    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"A": a, "B": b, "M": m}, text=False)
    np.testing.assert_array_equal(out["A"], np.where(changed[:, None], a * 2 + b, a))
    assert slow_warnings(kernel) == (not rows)


def test_elements_between_in_a_nest_that_stays_whole():
    """The tile of the nest is larger than UB: rows are divided later, and what is between the stored elements stays what it was."""
    rows, n = 256, 256

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), "float32"), Y: T.Tensor((rows, n), "float32"), Z: T.Tensor((rows, 2 * n), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((rows, n), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(rows, n):
                Z[i, 2 * j] = x[i, j] + 1
                Y[i, j] = x[i, j] * 2

    x = np.random.default_rng(0).standard_normal((rows, n)).astype(np.float32)
    got = strict.run(tilelang.compile(kernel), {"X": x, "Y": np.zeros_like(x), "Z": np.full((rows, 2 * n), 7, np.float32)}, text=False)
    np.testing.assert_array_equal(got["Y"], x * 2)
    np.testing.assert_array_equal(got["Z"][:, ::2], x + 1)
    assert (got["Z"][:, 1::2] == 7).all()


@pytest.mark.parametrize("form", ["alone", "bounded", "both sides"])
def test_elements_between_those_of_other_blocks_that_decide_for_themselves(form):
    """No block reads what another one stores."""

    @T.prim_func
    def main(X: T.Tensor((100,), "int32")):
        with T.Kernel(2) as bx:
            for i in T.Parallel(64):
                if form == "alone":
                    if i < 50:
                        if X[2 * i + bx] > 0:
                            X[2 * i + bx] = X[2 * i + bx] - 1
                elif form == "bounded":
                    if i < 50 and X[2 * i + bx] > 0:
                        X[2 * i + bx] = X[2 * i + bx] - 1
                elif i < 50:
                    old = X[2 * i + bx]
                    if old > 0:
                        X[2 * i + bx] = old - 1
                    elif old < -1:
                        X[2 * i + bx] = 7

    x = np.random.default_rng(5).integers(-3, 4, 100).astype(np.int32)
    out = strict.run(tilelang.compile(main), {"X": x}, text=False)
    want = np.where(x > 0, x - 1, np.where((x < -1) & (form == "both sides"), 7, x))
    np.testing.assert_array_equal(out["X"], want)


@pytest.mark.parametrize("form", ["assigned on both sides", "by way of another", "counts a loop", "extent"])
def test_elements_between_those_of_other_blocks_that_decide_by_way_of_variables(form):
    """What a condition on the element assigns depends on it as what is computed from it does."""

    @T.prim_func
    def main(X: T.Tensor((101,), "int32")):
        with T.Kernel(2) as bx:
            for i in T.Parallel(50):
                if form == "extent":
                    for k in T.serial(T.max(X[2 * i + bx], 0)):
                        X[2 * i + bx] = X[2 * i + bx] + k
                else:
                    v = T.alloc_var("int32")
                    w = T.alloc_var("int32")
                    if X[2 * i + bx] > 0:
                        v = 1
                    else:
                        v = 0
                    w = v
                    if form == "assigned on both sides":
                        if v > 0:
                            X[2 * i + bx] = X[2 * i + bx] - 1
                    elif form == "by way of another":
                        if w == 0:
                            X[2 * i + bx] = X[2 * i + bx] + 5
                    else:
                        for _ in T.serial(3 * w):
                            X[2 * i + bx] = X[2 * i + bx] + 1

    x = np.random.default_rng(5).integers(-3, 4, 101).astype(np.int32)
    out = strict.run(tilelang.compile(main), {"X": x}, text=False)
    want = {
        "assigned on both sides": np.where(x > 0, x - 1, x), "by way of another": np.where(x > 0, x, x + 5),
        "counts a loop": np.where(x > 0, x + 3, x), "extent": np.where(x > 0, x + x * (x - 1) // 2, x),
    }[form]  # fmt: skip
    want[100] = x[100]
    np.testing.assert_array_equal(out["X"], want)
