"""Blocks of one row each take turns statement by statement where that is faster, and only where it means the same."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(0)
ROWS, D = 1003, 40
"""More blocks than cores, a number that nothing divides, and rows that end inside a block of UB."""


def scatter(form="copy", dtype="int8", rows=ROWS):
    @T.prim_func
    def kernel(K: T.Tensor((rows, D), dtype), Slot: T.Tensor((rows,), "int32"), Cache: T.Tensor((2 * rows, D), dtype)):
        with T.Kernel(rows, threads=128) as bx:
            if form == "tile":
                row, slot = T.alloc_shared((D,), dtype), T.alloc_shared((1,), "int32")
                T.copy(Slot[bx], slot)
                T.copy(K[bx, 0], row)
                if slot[0] >= 0:
                    T.copy(row, Cache[slot[0], 0])
            elif form == "nest":
                for j in T.Parallel(D):
                    Cache[Slot[bx], j] = K[bx, j]
            else:
                row = T.alloc_shared((D,), dtype)
                T.copy(K[bx, 0], row)
                if form == "copy":
                    T.copy(row, Cache[Slot[bx], 0])
                else:
                    slot = Slot[bx]
                    if slot >= 0:
                        T.copy(row, Cache[slot, 0])

    return kernel


def compiled(kernel, together=True, **options):
    out = tilelang.compile(kernel, **options)
    assert any("take turns" in note for note in out.artifact.notes) == together, out.artifact.notes
    return out


@pytest.mark.parametrize(
    "form, target",
    [
        ("copy", "Ascend910B1"),
        ("guarded", "Ascend910B1"),
        ("tile", "Ascend910B1"),
        ("copy", "Ascend910_9391"),
        ("nest", "Ascend950PR_958x"),
    ],
)
def test_rows_to_addresses_of_run_time(form, target):
    k, slot = RNG.integers(-9, 10, (ROWS, D)).astype("int8"), RNG.permutation(2 * ROWS)[:ROWS].astype("int32")
    if form in ("guarded", "tile"):
        slot[::7] = -1
    expected = np.full((2 * ROWS, D), 3, "int8")
    expected[slot[slot >= 0]] = k[slot >= 0]
    arrays = {"K": k, "Slot": slot, "Cache": np.full((2 * ROWS, D), 3, "int8")}
    out = strict.run(compiled(scatter(form), together=form != "tile", target=target), arrays, text=form == "guarded")["Cache"]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_only_some_blocks_load(known):
    """Every block loads the same row beside one of its own; some load another one on top of it, which is the same for these, too."""

    @T.prim_func
    def kernel(
        K: T.Tensor((2, D), "int8"),
        Own: T.Tensor((ROWS, D), "int8"),
        Late: T.Tensor((ROWS,), "int32"),
        Slot: T.Tensor((ROWS,), "int32"),
        Cache: T.Tensor((2 * ROWS, 2, D), "int8"),
    ):
        with T.Kernel(ROWS, threads=128) as bx:
            row, own = T.alloc_shared((D,), "int8"), T.alloc_shared((D,), "int8")
            T.copy(Own[bx, 0], own)
            T.copy(K[0, 0], row)
            if bx > 500 if known else Late[bx] > 0:
                T.copy(K[1, 0], row)
            T.copy(own, Cache[Slot[bx], 0, 0])
            T.copy(row, Cache[Slot[bx], 1, 0])

    k, slot = RNG.integers(-9, 10, (2, D)).astype("int8"), RNG.permutation(2 * ROWS)[:ROWS].astype("int32")
    own, late = RNG.integers(-9, 10, (ROWS, D)).astype("int8"), RNG.integers(0, 2, ROWS) > 0
    late = np.arange(ROWS) > 500 if known else late
    expected = np.full((2 * ROWS, 2, D), 3, "int8")
    expected[slot] = np.stack([own, k[late.astype(int)]], 1)
    arrays = {"K": k, "Own": own, "Late": late.astype("int32"), "Slot": slot, "Cache": np.full((2 * ROWS, 2, D), 3, "int8")}
    np.testing.assert_array_equal(strict.run(tilelang.compile(kernel), arrays, text=False)["Cache"], expected)


def quantised(rows, heads=1):
    """Rows scaled to bytes, to places of run time, with the scales beside them."""

    @T.prim_func
    def kernel(
        K: T.Tensor((rows, heads, D), "float16"),
        Slot: T.Tensor((rows,), "int32"),
        Cache: T.Tensor((rows, heads, D), "int8"),
        Scale: T.Tensor((rows, heads), "float32"),
    ):
        with T.Kernel(rows, heads, threads=128) as (bx, by):
            row, wide = T.alloc_shared((D,), "float16"), T.alloc_fragment((1, D), "float32")
            most, small = T.alloc_fragment((1,), "float32"), T.alloc_fragment((D,), "int8")
            T.copy(K[bx, by, 0], row)
            for j in T.Parallel(D):
                wide[0, j] = row[j]
            T.reduce_absmax(wide, most, dim=1)
            for j in T.Parallel(D):
                small[j] = T.cast(T.round(wide[0, j] / most[0] * 127.0), "int8")
            T.copy(small, Cache[Slot[bx], by, 0])
            T.copy(most, Scale[Slot[bx], by])

    return kernel


def test_rows_that_are_changed():
    rows, heads = 192, 5
    k, slot = RNG.standard_normal((rows, heads, D)).astype("float16"), RNG.permutation(rows).astype("int32")
    arrays = {"K": k, "Slot": slot, "Cache": np.zeros((rows, heads, D), "int8"), "Scale": np.zeros((rows, heads), "float32")}
    out = strict.run(compiled(quantised(rows, heads)), arrays)
    most = np.abs(k.astype("float32")).max(2)
    np.testing.assert_array_equal(out["Scale"][slot], most)
    assert np.abs(out["Cache"][slot] - k / most[..., None] * 127).max() <= 0.5 + 1e-3


def test_rows_a_block_names():
    """Blocks load rows as far from their own as an element of theirs says: these do not lie one behind the other."""

    @T.prim_func
    def kernel(K: T.Tensor((2 * ROWS, D), "float32"), Shift: T.Tensor((ROWS,), "int32"), Y: T.Tensor((ROWS, D), "float32")):
        with T.Kernel(ROWS, threads=128) as bx:
            row = T.alloc_shared((D,), "float32")
            shift = Shift[bx]
            T.copy(K[bx + shift, 0], row)
            T.copy(row, Y[bx, 0])

    k, shift = RNG.integers(-9, 10, (2 * ROWS, D)).astype("float32"), RNG.integers(0, ROWS, ROWS).astype("int32")
    out = strict.run(compiled(kernel), {"K": k, "Shift": shift, "Y": np.zeros((ROWS, D), "float32")}, text=False)["Y"]
    np.testing.assert_array_equal(out, k[np.arange(ROWS) + shift])


def norm(rows, shared_gain=True):
    @T.prim_func
    def kernel(X: T.Tensor((rows, D), "float32"), G: T.Tensor((D,), "float32"), Y: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x, gain, total = T.alloc_shared((D,), "float32"), T.alloc_shared((D,), "float32"), T.alloc_fragment((1,), "float32")
            squares = T.alloc_fragment((1, D), "float32")
            T.copy(X[bx, 0], x)
            T.copy(G, gain)
            for j in T.Parallel(D):
                squares[0, j] = x[j] * x[j]
            T.reduce_sum(squares, total, dim=1)
            for j in T.Parallel(D):
                x[j] = x[j] * T.rsqrt(total[0] / D + 1e-5) * gain[j] + T.cast(bx, "float32")
            T.copy(x, Y[bx, 0])

    return kernel


def test_a_row_for_each_block():
    rows = 960
    x, g = RNG.standard_normal((rows, D)).astype("float32"), RNG.standard_normal(D).astype("float32")
    out = strict.run(compiled(norm(rows)), {"X": x, "G": g, "Y": np.zeros_like(x)}, text=False)["Y"]
    expected = x / np.sqrt((x.astype("float64") ** 2).mean(1, keepdims=True) + 1e-5) * g + np.arange(rows)[:, None]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


def test_sums_at_addresses_of_run_time():
    @T.prim_func
    def kernel(K: T.Tensor((ROWS, D), "float32"), Slot: T.Tensor((ROWS,), "int32"), Total: T.Tensor((7, D), "float32")):
        with T.Kernel(ROWS, threads=128) as bx:
            row = T.alloc_shared((D,), "float32")
            T.copy(K[bx, 0], row)
            T.atomic_add(Total[Slot[bx], 0], row)

    k, slot = RNG.integers(-9, 10, (ROWS, D)).astype("float32"), RNG.integers(0, 7, ROWS).astype("int32")
    expected = np.zeros((7, D), "float32")
    np.add.at(expected, slot, k)
    out = strict.run(compiled(kernel), {"K": k, "Slot": slot, "Total": np.zeros((7, D), "float32")}, text=False)["Total"]
    np.testing.assert_array_equal(out, expected)


def test_rows_moved_in_place():
    """The last rows belong to no block, and stay what they are; blocks move their rows within one tensor."""
    rows, last = 997, 3

    @T.prim_func
    def kernel(K: T.Tensor((rows + last, D), "float32"), Slot: T.Tensor((rows,), "int32"), Old: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            row, before = T.alloc_shared((D,), "float32"), T.alloc_shared((D,), "float32")
            T.copy(K[bx, 0], before)
            T.copy(before, Old[Slot[bx], 0])
            T.copy(Old[Slot[bx], 0], row)
            T.copy(row, K[bx, 0])

    k, slot = RNG.integers(-9, 10, (rows + last, D)).astype("float32"), RNG.permutation(rows).astype("int32")
    out = strict.run(tilelang.compile(kernel), {"K": k.copy(), "Slot": slot, "Old": np.zeros((rows, D), "float32")}, text=False)
    np.testing.assert_array_equal(out["K"], k)
    np.testing.assert_array_equal(out["Old"][slot], k[:rows])


def variable(rows):
    @T.prim_func
    def kernel(X: T.Tensor((rows, D), "float32"), Y: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x, factor = T.alloc_shared((D,), "float32"), T.alloc_var("float32")
            T.copy(X[bx, 0], x)
            factor = x[0]
            for j in T.Parallel(D):
                x[j] = x[j] * factor
            T.copy(x, Y[bx, 0])

    return kernel


def test_every_block_has_variables_of_its_own():
    x = RNG.integers(-9, 10, (960, D)).astype("float32")
    out = strict.run(compiled(variable(960)), {"X": x, "Y": np.zeros_like(x)})["Y"]
    np.testing.assert_array_equal(out, x * x[:, :1])


def test_names_of_what_names_stand_for():
    rows = 960

    @T.prim_func
    def kernel(X: T.Tensor((rows, D), "float32"), Y: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x = T.alloc_shared((D,), "float32")
            T.copy(X[bx, 0], x)
            first = x[0]
            x[0] = x[1]
            twice = first * 2
            more = twice + x[2]
            for j in T.Parallel(D):
                x[j] = x[j] * more
            x[3] = twice
            T.copy(x, Y[bx, 0])

    x = RNG.integers(-9, 10, (rows, D)).astype("float32")
    expected = np.concatenate([x[:, 1:2], x[:, 1:]], 1) * (2 * x[:, :1] + x[:, 2:3])
    expected[:, 3] = 2 * x[:, 0]
    out = strict.run(compiled(kernel), {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", ["block", "variable", "element"])
def test_nests_of_another_length_for_each_block(form):
    rows = 960

    @T.prim_func
    def kernel(X: T.Tensor((rows, D), "float32"), N: T.Tensor((rows,), "int32"), Y: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x, n, count = T.alloc_shared((D,), "float32"), T.alloc_var("int32"), T.alloc_shared((1,), "int32")
            T.copy(X[bx, 0], x)
            T.copy(N[bx], count)
            n = N[bx]
            for j in T.Parallel(bx % 8 if form == "block" else n if form == "variable" else count[0]):
                x[j] = x[j] + 1
            for j in T.Parallel(D):
                x[j] = x[j] * 2
            T.copy(x, Y[bx, 0])

    x, n = RNG.integers(-9, 10, (rows, D)).astype("float32"), (np.arange(rows) % 8).astype("int32")
    out = strict.run(compiled(kernel), {"X": x, "N": n, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(out, (x + (np.arange(D) < n[:, None])) * 2)


def test_reductions_of_what_one_block_alone_reduces():
    """What only the last of several reductions leaves is used by all blocks together: what comes before it has places for all of them, too."""
    rows = 960

    @T.prim_func
    def kernel(X: T.Tensor((rows, 4, 8), "float32"), N: T.Tensor((rows,), "int32"), Y: T.Tensor((rows, D), "float32")):
        with T.Kernel(rows, threads=128) as bx:
            x, sums = T.alloc_shared((4, 8), "float32"), T.alloc_fragment((4,), "float32")
            total, y = T.alloc_fragment((1,), "float32"), T.alloc_fragment((D,), "float32")
            T.fill(total, 0)
            for _ in T.serial(N[bx]):
                T.copy(X[bx, 0, 0], x)
                T.reduce_sum(x, sums, dim=1)
                T.reduce_sum(sums, total, dim=0)
            for j in T.Parallel(D):
                y[j] = total[0] + 1
            for j in T.Parallel(D):
                y[j] = y[j] * total[0]
            T.copy(y, Y[bx, 0])

    x, n = RNG.integers(-9, 10, (rows, 4, 8)).astype("float32"), RNG.integers(0, 2, rows).astype("int32")
    out = strict.run(compiled(kernel), {"X": x, "N": n, "Y": np.zeros((rows, D), "float32")}, text=False)["Y"]
    total = np.repeat(x.sum((1, 2))[:, None] * n[:, None], D, 1)
    np.testing.assert_array_equal(out, total * (total + 1))


def connections(tokens, streams, hidden, rounds):
    """As hyper-connections mix streams: sums of a tensor in a variable, a small matrix for each token brought to equal sums of rows and columns, and by that
    a long row, which is too large for many tokens at a time."""
    part = hidden // 2

    @T.prim_func
    def kernel(
        S: T.Tensor((3, tokens), "float32"),
        M: T.Tensor((tokens, streams, streams), "float32"),
        X: T.Tensor((tokens, streams, hidden), "float32"),
        Trips: T.Tensor((tokens,), "int32"),
        C: T.Tensor((tokens, streams, streams), "float32"),
        Y: T.Tensor((tokens, hidden), "float32"),
    ):
        with T.Kernel(tokens, threads=96) as i:
            total = T.alloc_fragment((1,), "float32")
            c, x, y = (
                T.alloc_fragment((streams, streams), "float32"),
                T.alloc_shared((streams, part), "float32"),
                T.alloc_fragment((part,), "float32"),
            )
            rows, columns = T.alloc_fragment((streams,), "float32"), T.alloc_fragment((streams,), "float32")
            total[0] = 1
            for s in T.serial(3):
                total[0] += S[s, i]
            T.copy(M[i, 0, 0], c)
            for j, k in T.Parallel(streams, streams):
                c[j, k] = c[j, k] / total[0]
            for _ in T.serial(rounds):
                T.reduce_sum(c, rows, dim=1)
                for j, k in T.Parallel(streams, streams):
                    c[j, k] = c[j, k] / rows[j]
                T.reduce_sum(c, columns, dim=0)
                for j, k in T.Parallel(streams, streams):
                    c[j, k] = c[j, k] / columns[k]
            for t in T.serial(Trips[i]):
                c[0, 0] = c[0, 0] + 1
            T.copy(c, C[i, 0, 0])
            for h in T.Pipelined(2, num_stages=2):
                T.copy(X[i, 0, h * part], x)
                T.clear(y)
                for s in T.serial(streams):
                    weight = c[s, 0]
                    for j in T.Parallel(part):
                        y[j] += weight * x[s, j]
                T.copy(y, Y[i, h * part])

    return kernel


@pytest.mark.parametrize("target", ["Ascend910B1", "Ascend950PR_958x"])
@pytest.mark.one_in(2)
def test_small_work_together_and_large_work_apart(target):
    tokens, streams, hidden, rounds = 480, 4, 1024, 12
    s, m = RNG.random((3, tokens)).astype("float32"), RNG.random((tokens, streams, streams)).astype("float32") + 0.1
    x, trips = RNG.standard_normal((tokens, streams, hidden)).astype("float32"), (np.arange(tokens) % 4).astype("int32")
    c = m / (1 + s.sum(0))[:, None, None].astype("float64")
    for _ in range(rounds):
        c = c / c.sum(2, keepdims=True)
        c = c / c.sum(1, keepdims=True)
    c[:, 0, 0] += trips
    arrays = {"S": s, "M": m, "X": x, "Trips": trips, "C": np.zeros_like(m), "Y": np.zeros((tokens, hidden), "float32")}
    long = target == "Ascend910B1"  # On the other chip, what 480 tokens are made of takes longer than all latency.
    out = strict.run(compiled(connections(tokens, streams, hidden, rounds), together=long, target=target), arrays, text=long)
    np.testing.assert_allclose(out["C"], c, rtol=1e-5)
    np.testing.assert_allclose(out["Y"], np.einsum("ts,tsh->th", c[:, :, 0], x), rtol=1e-5, atol=1e-5)


def test_may_be_switched_off():
    compiled(scatter(), together=False, pass_configs={"tl.coarsen_blocks": False})
