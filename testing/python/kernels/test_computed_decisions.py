"""What vector work computes decides whether, how often and where the cube core works: the value goes to it through a place in GM."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 32


def until_settled(leave_early: bool, limit: int = 6):
    """x = A @ x until it changes little: the residual is a maximum of the differences."""

    @T.prim_func
    def kernel(
        A: T.Tensor((N, N), "float16"), X: T.Tensor((2, N, N), "float32"), D: T.Tensor((2, N, N), "float32"), S: T.Tensor((2,), "int32")
    ):
        with T.Kernel(2) as bx:
            a, x16 = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            x, y = T.alloc_fragment((N, N), "float32"), T.alloc_fragment((N, N), "float32")
            rows, residual = T.alloc_fragment((N,), "float32"), T.alloc_fragment((1,), "float32")
            steps = T.alloc_fragment((1,), "int32")
            T.copy(A, a)
            T.copy(X[bx, 0, 0], x)
            T.clear(steps)
            if leave_early:
                for _ in T.serial(limit):
                    T.copy(x, x16)
                    T.gemm(a, x16, y, clear_accum=True)
                    for i, j in T.Parallel(N, N):
                        x[i, j] = T.abs(x[i, j] - y[i, j])
                    T.reduce_max(x, rows, dim=1)
                    T.reduce_max(rows, residual, dim=0)
                    T.copy(y, x)
                    steps[0] = steps[0] + 1
                    if residual[0] < 4.0:
                        break
            else:
                residual[0] = X[bx, 0, 0]
                while residual[0] >= 4.0:
                    T.copy(x, x16)
                    T.gemm(a, x16, y, clear_accum=True)
                    for i, j in T.Parallel(N, N):
                        x[i, j] = T.abs(x[i, j] - y[i, j])
                    T.reduce_max(x, rows, dim=1)
                    T.reduce_max(rows, residual, dim=0)
                    T.copy(y, x)
                    steps[0] = steps[0] + 1
            T.copy(x, D[bx, 0, 0])
            S[bx] = steps[0]

    return kernel


def settled(a, x, leave_early, limit=6):
    """The same in NumPy: all numbers are exact."""
    out, steps = x.copy(), np.zeros(2, np.int32)
    for b in range(2):
        residual = np.inf if leave_early else x[b, 0, 0]
        while residual >= 4.0 and (not leave_early or steps[b] < limit):
            y = a.astype(np.float32) @ out[b]
            residual = np.abs(out[b] - y).max()
            out[b], steps[b] = y, steps[b] + 1
    return out, steps


@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("leave_early", [True, False])
@pytest.mark.one_in(2)
def test_loops_until_a_residual_is_small(leave_early, chip):
    a = (np.eye(N) / 2).astype(np.float16)
    x = np.stack([np.full((N, N), 64.0), np.full((N, N), 2.0)]).astype(np.float32)
    x[0, :, 3] = 16
    kernel = tilelang.compile(until_settled(leave_early), target=chip)
    got = strict.run(kernel, {"A": a, "X": x.copy(), "D": np.zeros_like(x), "S": np.zeros(2, np.int32)}, text=chip == "a2")
    want, steps = settled(a, x, leave_early)
    np.testing.assert_array_equal(got["S"], steps)
    np.testing.assert_array_equal(got["D"], want)
    assert len(set(steps)) == 2


def picked(stages: int, blocks: int = 4, tile: int = 16, most: int = 3):
    """Scores of blocks of K choose the one each step multiplies; a score below 0 skips the step."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((N, tile), "float16"), K: T.Tensor((blocks * tile, tile), "float16"), W: T.Tensor((most, blocks), "float32"),
        C: T.Tensor((N, tile), "float32"),
    ):  # fmt: skip
        with T.Kernel(1):
            q, k = T.alloc_shared((N, tile), "float16"), T.alloc_shared((tile, tile), "float16")
            s, c = T.alloc_fragment((N, tile), "float32"), T.alloc_fragment((N, tile), "float32")
            scores = T.alloc_fragment((blocks,), "float32")
            T.copy(Q, q)
            T.clear(c)
            for step in T.Pipelined(most, num_stages=stages):
                T.copy(W[step, 0], scores)
                for i in T.Parallel(blocks):
                    scores[i] = scores[i] * 2 - 1
                best = T.alloc_var("float32", -1.0)
                at = T.alloc_var("int32", 0)
                for i in T.serial(blocks):
                    if scores[i] > best:
                        best = scores[i]
                        at = i
                if best > 0:
                    T.copy(K[at * tile, 0], k)
                    T.gemm(q, k, s, clear_accum=True)
                    for i, j in T.Parallel(N, tile):
                        c[i, j] += T.max(s[i, j], 0) * best
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize("stages", [0, 2])
def test_a_computed_index_chooses_an_operand(stages):
    rng = np.random.default_rng(3)
    q, k = rng.integers(-2, 3, (N, 16)).astype(np.float16), rng.integers(-2, 3, (64, 16)).astype(np.float16)
    w = np.array([[0, 3, 1, 2], [0, 0, 0.5, 0.25], [5, 1, 1, 5]], np.float32)
    kernel = tilelang.compile(picked(stages))
    got = strict.run(kernel, {"Q": q, "K": k, "W": w.copy(), "C": np.zeros((N, 16), np.float32)}, text=True)
    want = np.zeros((N, 16), np.float32)
    for scores in w * 2 - 1:
        at = int(scores.argmax())
        if scores[at] > 0:
            want += np.maximum(q.astype(np.float32) @ k[16 * at : 16 * at + 16].astype(np.float32), 0) * scores[at]
    np.testing.assert_array_equal(got["C"], want)


def attention(blocks: int, rows: int = 32, dim: int = 16):
    """Online softmax that skips the second product of a tile whose scores are all masked."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, dim), "float16"), K: T.Tensor((blocks * rows, dim), "float16"), V: T.Tensor((blocks * rows, dim), "float16"),
        Mask: T.Tensor((rows, blocks * rows), "float32"), O: T.Tensor((rows, dim), "float32"),
    ):  # fmt: skip
        with T.Kernel(1):
            q, k, v = (T.alloc_shared((rows, dim), "float16") for _ in range(3))
            s, p = T.alloc_fragment((rows, rows), "float32"), T.alloc_shared((rows, rows), "float16")
            mask, o = T.alloc_fragment((rows, rows), "float32"), T.alloc_fragment((rows, dim), "float32")
            m, m_old, scale, total = (T.alloc_fragment((rows,), "float32") for _ in range(4))
            row_sum, top = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(Q, q)
            T.clear(o)
            T.clear(total)
            T.fill(m, -1e4)
            for n in T.Pipelined(blocks, num_stages=2):
                T.copy(K[n * rows, 0], k)
                T.copy(Mask[0, n * rows], mask)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(rows, rows):
                    s[i, j] = s[i, j] + mask[i, j]
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                T.reduce_max(s, row_sum, dim=1)
                T.reduce_max(row_sum, top, dim=0)
                if top[0] > -1e4:
                    for i in T.Parallel(rows):
                        scale[i] = T.exp(m_old[i] - m[i])
                    for i, j in T.Parallel(rows, rows):
                        s[i, j] = T.exp(s[i, j] - m[i])
                    T.reduce_sum(s, row_sum, dim=1)
                    for i in T.Parallel(rows):
                        total[i] = total[i] * scale[i] + row_sum[i]
                    for i, j in T.Parallel(rows, dim):
                        o[i, j] = o[i, j] * scale[i]
                    T.copy(s, p)
                    T.copy(V[n * rows, 0], v)
                    T.gemm(p, v, o)
            for i, j in T.Parallel(rows, dim):
                o[i, j] = o[i, j] / total[i]
            T.copy(o, O)

    return kernel


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
def test_attention_skips_tiles_without_a_score(chip):
    rows, dim, blocks = 32, 16, 4
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((n, dim)).astype(np.float16) for n in (rows, blocks * rows, blocks * rows))
    mask = np.zeros((rows, blocks * rows), np.float32)
    mask[:, rows : 3 * rows] = -1e5
    mask[5, 2 * rows] = -1e5
    kernel = tilelang.compile(attention(blocks), target=chip)
    got = strict.run(kernel, {"Q": q, "K": k, "V": v, "Mask": mask, "O": np.zeros((rows, dim), np.float32)}, text=chip == "a2")
    s = q.astype(np.float32) @ k.astype(np.float32).T + mask
    p = np.exp(s - s.max(1, keepdims=True))
    # Weights are rounded to float16: by half of a last digit each, and together they are 1.
    np.testing.assert_allclose(
        got["O"], p @ v.astype(np.float32) / p.sum(1, keepdims=True), atol=2**-11 * float(np.abs(v).max()), rtol=1e-5
    )


def products(body, values=(1.0, 0.0, 2.0, 3.0), text=False, stored=None):
    """How often `body(a, b, c, s, Y)` has added a @ b to c (0 at first), steered by s (4,), to which vector work has added 1; Y must become
    `stored`."""

    @T.prim_func
    def kernel(
        A: T.Tensor((N, N), "float16"), B: T.Tensor((N, N), "float16"), S: T.Tensor((4,), "float32"), C: T.Tensor((N, N), "float32"),
        Y: T.Tensor((N, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c, s = T.alloc_fragment((N, N), "float32"), T.alloc_shared((4,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(S, s)
            for i in T.Parallel(4):
                s[i] = s[i] + 1
            T.clear(c)
            body(a, b, c, s, Y)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (N, N)).astype(np.float16) for _ in range(2))
    zeros = np.zeros((N, N), np.float32)
    compiled = tilelang.compile(kernel)
    got = strict.run(compiled, {"A": a, "B": b, "S": np.array(values, np.float32), "C": zeros, "Y": zeros.copy()}, text=text)
    product = a.astype(np.float32) @ b.astype(np.float32)
    times = got["C"][0, 0] / product[0, 0]
    np.testing.assert_array_equal(got["C"], times * product)
    if stored is not None:
        np.testing.assert_array_equal(got["Y"], stored(product))
    return times


def test_functions_decide():
    def body(a, b, c, s, Y):
        n = T.alloc_var("float32", 0.0)
        if T.exp(s[1]) > 2:
            T.gemm(a, b, c)
        while T.exp(n) < 5:
            T.gemm(a, b, c)
            n = n + 1
        for _ in T.serial(T.cast(T.exp(s[0]), "int32")):
            T.gemm(a, b, c)

    assert products(body) == 1 + 2 + 7


def test_elements_of_every_dtype_decide():
    def body(a, b, c, s, Y):
        tiles = {dtype: T.alloc_fragment((4,), dtype) for dtype in ("bool", "float16", "bfloat16", "int8", "int64")}
        for i in T.Parallel(4):
            for dtype, tile in tiles.items():
                tile[i] = T.cast(s[i] - 1, dtype) if dtype != "bool" else s[i] > 1
        for k in T.serial(4):
            if tiles["bool"][k]:
                T.gemm(a, b, c)
            if tiles["float16"][k] > tiles["bfloat16"][3] - 1:
                T.gemm(a, b, c)
            for _ in T.serial(tiles["int64"][k] + tiles["int8"][k]):
                T.gemm(a, b, c)

    assert products(body) == 3 + 1 + 2 * 6


def test_jumps_and_loops_inside_of_loops():
    def body(a, b, c, s, Y):
        for k in T.serial(4):
            if s[k] == 1:
                continue
            while s[k] > 0:
                T.gemm(a, b, c)
                s[k] = s[k] - 1
                if s[3] > 3:
                    if s[k] < 2:
                        break
            T.gemm(a, b, c, clear_accum=s[k] > 100)

    # 2: one product and one behind the loop; 3: two and one; 4: at 3 the last condition ends to hold.
    assert products(body, text=True) == 2 + 3 + 5


def test_a_nest_counts_products_and_stores():
    """One nest counts what the cube core has to do, and stores to memory what one vector core alone may store."""

    def body(a, b, c, s, Y):
        n = T.alloc_var("int32", 0)
        for i in T.Parallel(4):
            if s[i] > 1:
                n += 1
                Y[i, 0] = s[i]
        for _ in T.serial(n):
            T.gemm(a, b, c)

    def stored(product):
        want = np.zeros((N, N), np.float32)
        want[:4, 0] = [2, 0, 3, 4]
        return want

    assert products(body, stored=stored) == 3


def test_a_nest_stores_to_a_tile_and_to_memory():
    """Both vector cores have the tile, as its maximum decides; one of them stores to memory."""

    def body(a, b, c, s, Y):
        d, rows, most = T.alloc_fragment((N, N), "float32"), T.alloc_fragment((N,), "float32"), T.alloc_fragment((1,), "float32")
        T.gemm(a, b, d, clear_accum=True)
        for i, j in T.Parallel(N, N):
            d[i, j] = d[i, j] * 2
            Y[j, i] = d[i, j]
        T.reduce_max(d, rows, dim=1)
        T.reduce_max(rows, most, dim=0)
        for _ in T.serial(T.min(T.cast(most[0], "int32"), 3)):
            T.gemm(a, b, c)

    assert products(body, stored=lambda product: 2 * product.T) == 3


def test_what_the_block_has_stored_decides():
    """Scalars that are read from a tensor which vector work writes: one vector core does both, and tells the others."""

    def body(a, b, c, s, Y):
        n = T.alloc_var("int32", 0)
        T.copy(s, Y[0, 0:4])
        if Y[0, 1] > 0.5:
            T.gemm(a, b, c)
        while Y[0, 2] > 1:
            T.gemm(a, b, c)
            for i in T.Parallel(4):
                s[i] = s[i] - 1
            T.copy(s, Y[0, 0:4])
            n = n + 1
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] * n
        if Y[0, 3] > 1:
            for i, j in T.Parallel(N, N):
                c[i, j] = c[i, j] * 2

    assert products(body) == 3 * 2 * 2


def test_a_nest_counts_by_scalars_and_only_the_cube_core_reads_a_place():
    """What a nest adds up is computed on every core: scalars that it reads are carried, too. Of two places, of which the vector cores read only one,
    none is written again before the second core has read it."""

    def body(a, b, c, s, Y):
        x, n = s[2], T.alloc_var("float32", 0.0)
        for _ in T.Parallel(3):
            n = n + x
        for _ in T.serial(T.cast(n, "int32")):
            T.gemm(a, b, c)
        for k in T.serial(3):
            Y[k, 0] = s[k]
            y = Y[k, 0]
            if y > 1:
                T.gemm(a, b, c)
            Y[0, k + 1] = y + s[k + 1]
            if Y[0, k + 1] > 4:
                T.gemm(a, b, c)

    assert products(body) == 3 * 3 + 2 + 1


def through_memory(blocks: int):
    """A loop until the maximum of a tile is small; the tile itself goes through memory, which one vector core writes and reads."""

    @T.prim_func
    def kernel(A: T.Tensor((N, N), "float16"), X: T.Tensor((blocks, N, N), "float32"), S: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks) as bx:
            a, x16 = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            x, y = T.alloc_fragment((N, N), "float32"), T.alloc_fragment((N, N), "float32")
            rows, most = T.alloc_fragment((N,), "float32"), T.alloc_fragment((1,), "float32")
            n = T.alloc_var("int32", 0)
            T.copy(A, a)
            T.copy(X[bx, 0, 0], x)
            most[0] = x[3, 5]
            while most[0] >= 4.0:
                T.copy(X[bx, 0, 0], x)
                T.copy(x, x16)
                T.gemm(a, x16, y, clear_accum=True)
                T.reduce_max(y, rows, dim=1)
                T.reduce_max(rows, most, dim=0)
                for i, j in T.Parallel(N, N):
                    y[i, j] = y[i, j] + rows[0] * 0
                T.copy(y, X[bx, 0, 0])
                n = n + 1
            S[bx] = n

    return kernel


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("blocks", [1, 45])
@pytest.mark.one_in(2)
def test_vector_cores_meet_where_only_one_can_work(blocks, chip):
    a = (np.eye(N) / 2).astype(np.float16)
    x = np.ones((blocks, N, N), np.float32) * np.float32(2) ** (np.arange(blocks, dtype=np.float32) % 5 + 4 * (blocks == 1))[:, None, None]
    want, steps = x.copy(), np.zeros(blocks, np.int32)
    for b in range(blocks):
        while want[b].max() >= 4:
            want[b], steps[b] = want[b] / 2, steps[b] + 1
    kernel = tilelang.compile(through_memory(blocks), target=chip)
    arrays = {"A": a, "X": x, "S": np.zeros(blocks, np.int32)}
    got = strict.run(kernel, {name: v.copy() for name, v in arrays.items()}, text=(chip, blocks) == ("a2", 1))
    np.testing.assert_array_equal(got["S"], steps)
    np.testing.assert_array_equal(got["X"], want)
    if chip == "a2":
        assert only_barriers(strict.surviving_mutants(kernel, arrays))


def only_barriers(survivors: list) -> bool:
    """True if all flags are needed. Barriers for all pipes stand where loops are left early and where a flag is raised for the scalar unit, whatever
    the pipes have to do."""
    return all("ascend.pipe_barrier" in x for x in survivors)


@pytest.mark.parametrize("leave_early", [True, False])
def test_no_flag_around_a_decision_can_be_left_out(leave_early):
    a = (np.eye(N) / 2).astype(np.float16)
    x = np.stack([np.full((N, N), 64.0), np.full((N, N), 2.0)]).astype(np.float32)
    arrays = {"A": a, "X": x, "D": np.zeros_like(x), "S": np.zeros(2, np.int32)}
    assert only_barriers(strict.surviving_mutants(tilelang.compile(until_settled(leave_early)), arrays))
